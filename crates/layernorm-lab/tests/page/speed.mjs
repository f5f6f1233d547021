// How long the page takes to open, and how long its main thread is blocked while a reader drags a slider. On a machine that is
// busy with other things the times are printed, but prove nothing.
import { cpus } from "node:os";

const USABLE = 1000; // milliseconds from opening the file to a page that can be used
const OPENED = 3;
const BLOCKED = 50; // milliseconds of CPU time of one task of the main thread

// Whether most of the processors' time is free, and the page draws every frame.
const FREE = 0.6;
const spent = () => cpus().reduce(([free, all], { times }) => [free + times.idle, all + Object.values(times).reduce((sum, time) => sum + time, 0)], [0, 0]);
const FRAMES = `new Promise((done) => { const times = []; const tick = (now) => { times.push(now); if (now - times[0] < 800) requestAnimationFrame(tick); else done(times.slice(1).map((time, at) => time - times[at])); }; requestAnimationFrame(tick); })`;
export async function idle(page) {
  const [free, all] = spent();
  const gaps = await page.run(FRAMES);
  const [freeNow, allNow] = spent();
  return (freeNow - free) / (allNow - all) > FREE && gaps.length > 44 && gaps.every((gap) => gap <= 50);
}

// Waits until what was asked of the worker is computed and drawn: an answer may ask again.
export const settled = async (page) => {
  for (let round = 0; round < 4; round += 1) await page.run('lab.compute("checksum", { seed: 1, cases: 1 }).then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))))');
  await page.until('!document.querySelector("[aria-busy=true]")', "figures that are computed");
};

// For each live chapter, its control with the most to do: a slider, or a cell of a table where there is none.
const CONTROLS = {
  why: { slider: '[id="at:why/layers"] input[type=range]' },
  steps: { cell: '[id="at:steps/table"] .numbers-edit input' },
  axes: { cell: '[id="at:axes/both"] .numbers-edit input' },
  affine: { slider: '[id="at:affine/affine"] input[type=range]' },
  backward: { slider: '[id="at:backward/difference"] input[type=range]' },
  blind: { slider: '[id="at:blind/table"] input[type=range]' },
  time: { slider: '[id="at:time/run"] input[type=range]' },
  blocks: { slider: '[id="at:blocks/depth"] input[type=range]' },
};

export async function usable({ browser, url, expect }) {
  const times = [];
  let quiet = true;
  for (let time = 0; time < OPENED; time += 1) {
    const page = await browser.open(url);
    times.push(await page.run("Number(document.documentElement.dataset.usable)"));
    quiet &&= await idle(page);
    await page.close();
  }
  const least = Math.min(...times);
  console.log(`        usable ${times.join(", ")} ms after opening${quiet ? "" : " (the machine is busy)"}`);
  expect(least > 0, `the page says that it is usable after ${times} ms`);
  if (quiet) expect(least < USABLE, `usable ${times} ms after opening`);
}

export async function drags({ page, hand, expect }) {
  const longest = {};
  let quiet = await idle(page);
  for (const [chapter, { slider, cell }] of Object.entries(CONTROLS)) {
    await hand.focus(slider ?? cell);
    await settled(page);
    const tasks = await page.tasks(async () => {
      if (slider) for (const place of [0.9, 0.2, 0.6]) await hand.slide(slider, place);
      else for (const value of ["7", "−3.5", "0"]) await hand.type(cell, value);
      await settled(page);
    });
    longest[chapter] = Math.max(...tasks);
    expect(tasks.length > 20, `${chapter}: ${tasks.length} tasks`);
  }
  quiet &&= await idle(page);
  console.log(`        longest task while dragging, ms of CPU time: ${Object.entries(longest).map(([chapter, time]) => `${chapter} ${time.toFixed(1)}`).join(", ")}${quiet ? "" : " (the machine is busy)"}`);
  if (quiet) for (const [chapter, time] of Object.entries(longest)) expect(time <= BLOCKED, `${chapter}: a task of ${time} ms`);
}
