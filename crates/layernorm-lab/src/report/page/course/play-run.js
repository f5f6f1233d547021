// One run of the playground: its worker, its trainer, and what it has measured.
const MOST = 240; // points of a curve; more are merged in pairs
const SLOWEST = 60; // milliseconds of one burst, whatever was asked

// Means over parts of equal length, which doubles when there are too many.
function curve(part) {
  const points = [];
  let length = part;
  return {
    points,
    // Without the last part while it is short: a mean over few steps says little.
    get shown() {
      return points.length > 1 && points.at(-1).done < length / 2 ? points.slice(0, -1) : points;
    },
    add(step, done, loss, accuracy) {
      const last = points.at(-1);
      if (last && last.done + done <= length) Object.assign(last, merged(last, { step, done, loss, accuracy }));
      else points.push({ step, done, loss, accuracy });
      if (points.length <= MOST) return;
      length *= 2;
      for (let at = 0; at + 1 < points.length; at += 1) points.splice(at, 2, merged(points[at], points[at + 1]));
    },
  };
}
function merged(a, b) {
  const done = a.done + b.done;
  const mean = (name) => (a[name] * a.done + b[name] * b.done) / done;
  return { step: b.step, done, loss: mean("loss"), accuracy: mean("accuracy") };
}

// What to try when a run's numbers are not finite.
function advice({ norm, learningRate, weightScale }) {
  return [
    learningRate > 0.001 && `a learning rate below ${lab.number(learningRate)}`,
    weightScale > 1 && "initial weights of scale 1",
    norm === "none" && "layer norm",
  ].filter(Boolean).join(", or ") || "a smaller learning rate";
}

lab.play.run = function (letter, options, data, watched) {
  const worker = lab.worker();
  const slow = options.network === "lstm";
  const train = curve(Math.ceil(64 / options.batch));
  const test = [];
  let number = null;
  const run = {
    letter, options, train, test,
    name: lab.play.names[options.norm],
    step: 0, diverged: null, seen: null, burst: 0, since: Infinity, costs: 0,
    async start() {
      number = await worker.ask("train", { ...options, data, ...(slow && data === "digits" ? { tested: 200 } : {}) });
      await worker.ask("watch", { number, x: watched });
      take(await worker.ask("advance", { number, count: 0, want: { test: true, predicted: true } }));
    },
    // Trains up to a step, in bursts; the last one brings what is shown.
    async to(step) {
      run.burst = 0;
      while (run.step < step && !run.diverged) {
        // The test takes at most a fifth of the time.
        const want = { test: run.since > 4 * run.costs, activations: true, gradients: true, predicted: true };
        take(await worker.ask("advance", { number, count: step - run.step, milliseconds: SLOWEST, want }));
      }
    },
    // Tests now, if the last test was at an earlier step.
    async examine() {
      if (run.diverged || test.at(-1)?.step === run.step) return;
      take(await worker.ask("advance", { number, count: 0, want: { test: true } }));
    },
    end: () => worker.end(),
  };
  function take(result) {
    if (result.done) {
      run.step = result.step;
      run.burst += result.spent + (result.test ? result.tested : 0);
      run.since += result.spent;
      if (result.finite) train.add(result.step, result.done, result.loss, result.accuracy);
      else run.diverged = `Run ${letter} stopped at step ${lab.number(result.step)}: its loss is no longer a finite number. Try ${advice(options)}.`;
    }
    if (result.test && lab.isNumber(result.test.loss) && !run.diverged) {
      [run.since, run.costs] = [0, result.tested];
      test.push({ step: run.step, ...result.test });
      if (test.length > MOST) for (let at = 1; at < test.length - 1; at += 1) test.splice(at, 1);
    }
    run.seen = { ...run.seen, ...Object.fromEntries(Object.entries(result).filter(([, value]) => value !== null)) };
  }
  return run;
};
