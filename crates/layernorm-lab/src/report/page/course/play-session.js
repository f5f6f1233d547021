// Trains both runs to the same steps, burst by burst, and says when there is something new to draw.
const BURST = 12; // milliseconds of training between two frames, which are 17 apart

const frame = () => new Promise((next) => { requestAnimationFrame(next); });

// `shown()` draws, at most once in a frame; `told(text)` announces. A session ends with its runs: `end()`.
lab.play.session = function ({ runs, pace, stop, shown, told, changed }) {
  let ended = false;
  let turn = 0; // training goes on only in the latest one
  let wanted = 1; // steps of the next burst
  let recent = []; // [time, steps] of the last second, for the speed
  const session = {
    runs, step: 0, seconds: 0, running: false, ready: false,
    get finished() { return session.step >= stop || runs.every(({ diverged }) => diverged); },
    get speed() {
      const [first, last] = [recent[0], recent.at(-1)];
      return recent.length > 1 && last[0] > first[0] ? ((last[1] - first[1]) / (last[0] - first[0])) * 1000 : 0;
    },
    async start() {
      await Promise.all(runs.map((run) => run.start()));
      session.ready = true;
    },
    async play() {
      if (session.running || session.finished || !session.ready || ended) return;
      await train().catch((error) => {
        session.running = false;
        changed();
        throw error;
      });
    },
    async pause() {
      if (!session.running) return;
      turn += 1;
      session.running = false;
      await rest();
    },
    // One step, of both.
    async once() {
      if (session.running || session.finished || !session.ready) return;
      await burst(1);
      await rest();
    },
    end() {
      ended = true;
      turn += 1;
      session.running = false;
      runs.forEach((run) => run.end());
    },
  };

  async function train() {
    session.running = true;
    const mine = (turn += 1);
    recent = [];
    changed();
    const began = performance.now();
    const from = session.step;
    let last = await frame();
    while (mine === turn && !session.finished) {
      // With a pace, not more steps than are due by now.
      const due = pace === Infinity ? Infinity : Math.floor(((performance.now() - began) * pace) / 1000) - (session.step - from) + 1;
      const count = Math.min(Math.max(1, Math.floor(wanted)), due, stop - session.step);
      if (count >= 1) {
        const work = burst(count);
        shown();
        await work;
      }
      const now = await frame();
      session.seconds += (now - last) / 1000;
      last = now;
    }
    if (mine !== turn) return;
    session.running = false;
    await rest();
  }

  let working = Promise.resolve();
  function burst(count) {
    working = working.then(async () => {
      const target = Math.min(session.step + count, stop);
      const live = runs.filter(({ diverged }) => !diverged);
      await Promise.all(live.map((run) => run.to(target)));
      session.step = target;
      const took = Math.max(...live.map((run) => run.burst), 0.05);
      wanted = lab.clamp(wanted * lab.clamp(BURST / took, 0.3, 2), 1, 1e5);
      const now = performance.now();
      recent.push([now, target]);
      while (recent.length > 2 && now - recent[0][0] > 1000) recent.shift();
      for (const run of live) if (run.diverged) told(run.diverged);
    }).catch((error) => { if (!ended) throw error; });
    return working;
  }
  // At the end of a burst, with the test at this step.
  async function rest() {
    await working;
    await Promise.all(runs.map((run) => run.examine())).catch((error) => { if (!ended) throw error; });
    if (ended) return;
    changed();
    shown();
  }
  return session;
};
