// The playground: every control, every preset, the speed of training and of drawing, and the exercises.
import { idle as quiet } from "../speed.mjs";

const FIGURE = '[id="at:play/train"]';
const SESSION = "lab.play.current.session()";
const PART = 50; // steps
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const select = (name) => `[data-setting="${name}"] select`;
const CONTROLS = {
  data: "moons", noise: "0.2", network: "lstm", reads: "28", pace: "100", stop: "500",
  "norm-A": "batch", "norm-B": "rms", "rate-A": "0.003", "rate-B": "0.03", "batch-A": "8", "batch-B": "32",
  "scale-A": "0.5", "scale-B": "2", "optimizer-A": "sgd", "optimizer-B": "sgd", "units-A": "8", "units-B": "32",
};
// The hash of two MLPs on the digits, with other settings for A and B: a value, or two.
const mlp = (settings) => Object.entries({ data: "digits", layers: 1, units: 64, batch: 32, rate: 0.001, ...settings })
  .flatMap(([name, value]) => (["data", "pace", "stop"].includes(name) ? [`play.train.${name}=${value}`] : ["A", "B"].map((run, at) => `play.train.${name}-${run}=${[value].flat()[at] ?? value}`))).join("&");

// Counts frames and drawn changes in the page from now on.
const WATCH = `{ const seen = (window.seen = { from: performance.now(), frames: [], drawn: 0 });
  const tick = (now) => { if (window.seen !== seen) return; seen.frames.push(now); requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  new MutationObserver(() => { seen.drawn += 1; }).observe(document.querySelector(".play-curves"), { attributes: true, subtree: true, childList: true }); }`;
const SEEN = `(() => { const { from, frames, drawn } = window.seen; const time = (performance.now() - from) / 1000; const gaps = frames.slice(1).map((at, n) => at - frames[n]); window.seen = null;
  return { frames: frames.length / time, drawn: drawn / time, gap: Math.max(0, ...gaps), slow: gaps.filter((gap) => gap > 50).length }; })()`;

export default async function ({ page, hand, expect }) {
  const state = () => page.run(`(() => { const session = ${SESSION}; return session && { step: session.step, running: session.running, ready: session.ready, finished: session.finished, speed: session.speed, seed: session.runs[0].options.seed, steps: session.runs.map((run) => run.step), losses: session.runs.map((run) => run.train.points.map(({ loss }) => loss)), accuracies: session.runs.map((run) => run.test.at(-1)?.accuracy) }; })()`);
  const ready = () => page.until(`${SESSION}?.ready === true`, "two networks");
  const go = async (hash) => { await page.run(`location.hash = "#view=play/train&${hash}"`); await wait(150); await page.run(`document.querySelector(${JSON.stringify(FIGURE)}).scrollIntoView({ behavior: "instant" })`); await ready(); };
  // In parts: on a busy machine, a part may take as long as one wait lasts.
  const reached = async (step) => { for (let part = PART; part < step; part += PART) await page.until(`${SESSION}?.step >= ${part}`, `step ${part}`); await page.until(`${SESSION}?.step >= ${step}`, `step ${step}`); };
  const preset = async (name) => { const at = await page.run(`[...document.querySelectorAll(".play-preset")].findIndex((button) => button.textContent === ${JSON.stringify(name)})`); await hand.click(`.play-preset:nth-of-type(${at + 1})`); };
  const told = (id) => hand.text(`[data-exercise="${id}"] .feedback`);
  const check = async (id, pattern, what) => { await hand.click(`[data-exercise="${id}"] .check`); await wait(50); const words = await told(id); expect(pattern.test(words), `${what}: the exercise says “${words}”`); };

  // Nothing is trained yet: the exercise says so. Then start by keyboard, pause, step, reset.
  await check("rate", /Nothing is trained yet/, "before training");
  await hand.focus(`${FIGURE} .play-start`);
  await ready();
  await hand.key("Enter");
  await reached(60);
  const early = await state();
  expect(early.running && Math.abs(early.steps[0] - early.steps[1]) <= 30, `the runs are at ${early.steps}`);
  await hand.key("Enter");
  await page.until(`!${SESSION}.running`, "a pause");
  await wait(150);
  const paused = await state();
  expect(paused.steps[0] === paused.step && paused.steps[1] === paused.step, `paused at ${paused.step}, but the runs are at ${paused.steps}`);
  await wait(200);
  expect((await state()).step === paused.step, "it trains after a pause");
  await hand.click(`${FIGURE} .play-bar button:nth-of-type(2)`);
  await wait(200);
  expect((await state()).step === paused.step + 1, "Step is not one step");
  await hand.click(`${FIGURE} .play-start`);
  await page.until(`${SESSION}.finished`, "1000 steps");
  await page.until(`/test accuracy \\d/.test(document.querySelector(".play-summary").textContent) && document.querySelector(".play-start").textContent.includes("again")`, "the end");
  const ended = await state();
  for (const losses of ended.losses) expect(losses.at(-1) < 0.5 * losses[0], `a loss went from ${losses[0]} to ${losses.at(-1)}`);
  expect(ended.step === 1000 && ended.accuracies.every((accuracy) => accuracy > 0.8), `after 1000 steps the accuracies are ${ended.accuracies}`);
  expect((await page.run(`document.querySelector(".play-plane").getContext("2d").getImageData(5, 5, 1, 1).data[3]`)) === 255, "no decision regions");
  await page.run(`document.querySelector(${JSON.stringify(`${FIGURE} .data summary`)}).click()`);
  await wait(150);
  expect((await page.run(`document.querySelectorAll(${JSON.stringify(`${FIGURE} .data tbody tr`)}).length`)) > 100, "the data table is short");
  await page.run(`document.querySelector(${JSON.stringify(`${FIGURE} .data summary`)}).click()`);
  await hand.click(`${FIGURE} .play-bar button:nth-of-type(3)`);
  await ready();
  expect((await state()).step === 0, "Reset is not step 0");
  await hand.click(`${FIGURE} .play-bar button:nth-of-type(4)`);
  await ready();
  await wait(300);
  expect((await state()).seed === 2 && (await page.run("location.hash")).includes("play.train.seed=2"), "New weights is not seed 2");

  // Every control, and a link to them in a fresh page.
  for (const [name, value] of Object.entries(CONTROLS)) await hand.choose(`${FIGURE} ${select(name)}`, value);
  await wait(300);
  const values = `Object.fromEntries([...document.querySelectorAll("[data-setting]")].map((node) => [node.dataset.setting, node.querySelector("select").value]))`;
  const chosen = await page.run(values);
  expect(chosen.data === "digits", "an LSTM reads points in the plane");
  for (const [name, value] of Object.entries(CONTROLS)) expect(name === "data" || chosen[name] === value, `${name} is ${chosen[name]}, not ${value}`);
  await page.send("Page.reload");
  await wait(300);
  await page.until('document.documentElement?.hasAttribute("data-ready") ?? false', "the page again");
  const restored = await page.run(values);
  expect(JSON.stringify(restored) === JSON.stringify(chosen), `a link restores ${JSON.stringify(restored)}`);
  await ready();
  expect((await state()).seed === 2, "a link does not restore the seed");

  // The speed, while two networks of 196-64-10 train at batch 32.
  await go(mlp({ pace: "max", stop: "never" }));
  await page.run(WATCH);
  await wait(800);
  const idle = await page.run(SEEN);
  const before = await quiet(page);
  await hand.click(`${FIGURE} .play-start`);
  await wait(300);
  await page.run(WATCH);
  const from = await state();
  const began = Date.now();
  const tasks = await page.tasks(() => wait(2500));
  const to = await state();
  const speed = ((to.step - from.step) / (Date.now() - began)) * 1000;
  const busy = await page.run(SEEN);
  const longest = Math.max(...tasks);
  const round = ({ frames, gap }) => `${frames.toFixed(0)} frames/s, longest gap ${gap.toFixed(0)} ms`;
  console.log(`        playground: ${speed.toFixed(0)} steps/s of each run, ${busy.drawn.toFixed(0)} drawings/s, longest task ${longest.toFixed(1)} ms of CPU time, ${round(busy)} (idle: ${round(idle)})`);
  expect(speed >= 200, `only ${speed.toFixed(0)} steps per second`);
  expect(tasks.length > 100 && longest <= 50, `a task of ${longest} ms`);
  // Out of view it rests.
  await page.run('scrollTo({ top: 0, behavior: "instant" })');
  await page.until(`!${SESSION}.running`, "a rest out of view");
  // Frames of a machine that is busy with other things say nothing.
  if (before && (await quiet(page)) && idle.frames > 55 && idle.slow === 0) expect(busy.frames >= 30 && busy.drawn >= 30, `${busy.frames.toFixed(0)} frames and ${busy.drawn.toFixed(0)} drawings per second`);
  await page.run(`document.querySelector(${JSON.stringify(FIGURE)}).scrollIntoView({ behavior: "instant" })`);
  await page.until(`${SESSION}.running`, "going on in view");
  await hand.click(`${FIGURE} .play-start`);

  // Following a link to another place of the page keeps the runs.
  await page.until(`!${SESSION}.running`, "a pause");
  await wait(300);
  const kept = await state();
  await page.run('location.hash = location.hash.replace(/view=[^&]*/, "view=play")');
  await wait(200);
  expect(kept.step > 0 && (await state())?.step === kept.step, "a link within the page resets the runs");

  // Presets: the steps, and the accuracies in % of A and B after them with seed 1. presets.mjs prints these numbers, and those of the
  // other seeds that the sentences speak of. WebAssembly computes the same everywhere.
  const accuracies = {
    "Batch norm at batch 1": [500, [11.8, 77.6]], "Badly scaled weights": [500, [9.8, 88.6]], "Deep network": [200, [33.0, 74.8]],
    "Long sequence": [500, [37.5, 57.0]], "Batch norm in an LSTM": [1000, [59.5, 77.0]], "Learning rate × 10": [1000, [76.6, 90.6]],
  };
  for (const [name, [steps, wanted]] of Object.entries(accuracies)) {
    await preset(name);
    await page.until(`${SESSION}?.running && document.querySelector('.play-preset[aria-pressed="true"]')?.textContent === ${JSON.stringify(name)}`, name);
    // Again from step 0, to exactly this one.
    await hand.choose(`${FIGURE} ${select("stop")}`, String(steps));
    await reached(steps);
    await page.until(`!${SESSION}.running && ${SESSION}.runs.every((run) => run.test.at(-1).step === ${steps})`, "the test");
    const { accuracies: found, seed: used } = await state();
    expect(used === 1 && found.every((accuracy, at) => Math.abs(100 * accuracy - wanted[at]) < 0.05), `${name}, seed ${used}: A and B have ${found}, expected ${wanted} %`);
    expect((await page.run('document.querySelectorAll(".play-answer.yes, .play-answer.no").length')) === 24, `${name}: no predicted digits`);
  }

  // The first exercise: the last preset solves it, other settings do not.
  await check("rate", /✓/, "the preset of the learning rate");
  await hand.choose(`${FIGURE} ${select("batch-B")}`, "8");
  await ready();
  await hand.click(`${FIGURE} .play-bar button:nth-of-type(2)`);
  await page.until(`${SESSION}?.step === 1`, "a step");
  await check("rate", /also differ in: batch size/, "with other batch sizes");
  await go(mlp({ layers: 2, pace: "max", stop: 500 }));
  await hand.click(`${FIGURE} .play-start`);
  await page.until(`${SESSION}.finished && !${SESSION}.running && ${SESSION}.runs.every((run) => run.test.at(-1).step === 500)`, "500 steps");
  await check("rate", /suits both/, "a small learning rate");
  // The second one.
  const batches = async (a, b) => {
    await go(mlp({ norm: "batch", batch: [a, b], pace: "max" }));
    await hand.click(`${FIGURE} .play-start`);
    await page.until(`${SESSION}.finished && !${SESSION}.running`, "1000 steps");
    await wait(100);
  };
  await batches(8, 4);
  await check("batch", /gets there too/, "batch sizes 8 and 4");
  await batches(8, 2);
  await check("batch", /must be twice/, "batch sizes 8 and 2");
  await batches(2, 4);
  await check("batch", /✓/, "batch sizes 2 and 4");
  await hand.click('[data-exercise="stuck"] .option:nth-of-type(1)');
  await hand.until('[data-exercise="stuck"] .feedback', /^✕ More steps hardly help/);
  await hand.click('[data-exercise="stuck"] .option:nth-of-type(2)');
  await hand.until('[data-exercise="stuck"] .feedback', /^✓/);

  // A run that diverges stops and says so; the other one goes on.
  await go(mlp({ optimizer: ["sgd", "adam"], rate: [30, 0.001], scale: [30, 1], layers: [3, 1], norm: ["none", "layer"], pace: 100, stop: 200 }));
  await hand.click(`${FIGURE} .play-start`);
  await hand.until(".play-run .play-diverged", /^Run A stopped at step \d+: its loss is no longer a finite number\. Try a learning rate below 30, or initial weights of scale 1/);
  await reached(100);
  const { steps } = await state();
  expect(steps[0] < steps[1], "run A goes on after it diverged");
  await hand.click(`${FIGURE} .play-start`);
}
