// What a reader has answered: it survives moving about and opening the file anew, and what was solved once stays solved.
import { CHAPTERS } from "./course/index.mjs";
import { settled } from "./speed.mjs";

const EXERCISE = (chapter, id) => `[data-chapter="${chapter}"] [data-exercise="${id}"]`;
const field = (chapter, id, number) => `${EXERCISE(chapter, id)} label:nth-of-type(${number}) input`;
const HASH = `new URLSearchParams(location.hash.slice(1))`;

const VALUES = (query) => `[...document.querySelectorAll(${JSON.stringify(`${query} input`)})].map((input) => input.value).join("|")`;
// Clicks a link of the contents, as a reader who goes on, and waits until the chapter is there.
async function follow(page, place) {
  await page.run(`document.querySelector('.contents a[href="#view=${place}"]').click()`);
  await arrive(page, place);
}
// The chapter, or a figure in it that was used last.
const arrive = (page, place) => page.until(`(() => { const view = ${HASH}.get("view") ?? ""; return view.split("/")[0] === "${place}" && Math.abs(document.getElementById(\`at:\${view}\`).getBoundingClientRect().top) < 200; })()`, `chapter ${place}`);

export async function back({ page, hand, expect }) {
  const answers = [VALUES(EXERCISE("steps", "by-hand")), VALUES(EXERCISE("affine", "undo"))];
  const seen = async () => ({ values: await page.run(`[${answers.join()}].join(" / ")`), by: await hand.text(`${EXERCISE("steps", "by-hand")} .feedback`), cell: await page.run(`document.querySelector('[id="at:steps/table"] .numbers-edit input').value`) });
  await follow(page, "steps");
  for (const [at, value] of ["5", "6.6667", "-1.1619"].entries()) await hand.type(field("steps", "by-hand", at + 1), value);
  await hand.click(`${EXERCISE("steps", "by-hand")} .check`);
  await hand.until(`${EXERCISE("steps", "by-hand")} .feedback`, /✕.*divided the sum of squares by 3/);
  await hand.type('[id="at:steps/table"] .numbers-edit input', "7");
  await follow(page, "affine");
  // One number of two, and no check.
  await hand.type(field("affine", "undo", 1), "2.2");
  const before = await seen();
  expect(before.values === "5|6.6667|-1.1619 / 2.2|" && before.cell === "7", `typed: ${JSON.stringify(before)}`);
  // Nothing that is there is computed again.
  await settled(page);
  await page.run(`{ window.calls = 0; const compute = lab.compute; lab.compute = (...words) => { window.calls += 1; return compute(...words); }; }`);
  for (const [go, place] of [["back", "steps"], ["forward", "affine"]]) {
    await page.run(`history.${go}()`);
    await arrive(page, place);
    const now = await seen();
    expect(JSON.stringify(now) === JSON.stringify(before), `${go} to ${place}: ${JSON.stringify(now)}`);
    const hash = await page.run(`[${HASH}.get("steps.by-hand"), ${HASH}.get("affine.undo")].join(" / ")`);
    expect(hash === "5_6.6667_-1.1619 / 2.2_", `${go}: the hash has ${hash}`);
  }
  expect((await page.run("window.calls")) === 0, `the back button computes ${await page.run("window.calls")} times`);
  // A link sets the figures, but takes no answer away.
  await page.run('location.hash = "#view=steps"');
  await arrive(page, "steps");
  await page.until(`document.querySelector('[id="at:steps/table"] .numbers-edit input').value === "1"`, "the figure of the link");
  const linked = await seen();
  expect(linked.values === before.values && linked.by === before.by, `a link: ${JSON.stringify(linked)}`);
}

export async function solved({ page, hand, expect }) {
  const at = EXERCISE("steps", "by-hand");
  const state = () => page.run(`({ solved: document.querySelector(${JSON.stringify(at)}).hasAttribute("data-solved"), line: document.querySelector(".progress-line").textContent, mark: document.querySelector('.contents a[href="#view=steps"] .done-mark').textContent, told: document.querySelector(${JSON.stringify(`${at} .feedback`)}).textContent })`);
  const all = await page.run("lab.progress().all");
  const here = await page.run('lab.progress().of("steps").length');
  const is = async (what, told) => {
    const now = await state();
    expect(now.solved && now.line === `1 of ${all} exercises solved` && now.mark === `1/${here}` && told.test(now.told), `${what}: ${JSON.stringify(now)}`);
  };
  const type = async (...values) => { for (const [place, value] of values.entries()) await hand.type(field("steps", "by-hand", place + 1), value); };
  await type("5", "20", "-0.6708");
  await hand.click(`${at} .check`);
  await hand.until(`${at} .feedback`, /✕/);
  const unsolved = await state();
  expect(!unsolved.solved && unsolved.line === `0 of ${all} exercises solved` && unsolved.mark === "", `a wrong answer: ${JSON.stringify(unsolved)}`);
  await type("5", "5", "-1.3416");
  await hand.click(`${at} .check`);
  await hand.until(`${at} .feedback`, /✓ Correct/);
  await is("solved", /✓/);
  // Edited: nothing is said about the old answer; checked: what is said is about the new one.
  await type("4");
  await is("edited", /^$/);
  await hand.click(`${at} .check`);
  await hand.until(`${at} .feedback`, /✕/);
  await is("a wrong answer afterwards", /^✕ .*mean μ/);
  await page.until(`${HASH}.get("steps.by-hand") === "4_5_-1.3416" && ${HASH}.get("steps.by-hand.solved") === "1"`, "the answer in the hash");
  await page.send("Page.reload");
  await page.until(`document.documentElement?.hasAttribute("data-ready") && /✕/.test(document.querySelector(${JSON.stringify(`${at} .feedback`)})?.textContent ?? "")`, "the page again");
  await is("after a reload", /^✕ .*mean μ/);
  // A choice: another option after the right one.
  const choice = EXERCISE("affine", "all-rows");
  await hand.click(`${choice} .option:nth-child(3) input`);
  await hand.until(`${choice} .feedback`, /✓/);
  await hand.click(`${choice} .option:nth-child(1) input`);
  await hand.until(`${choice} .feedback`, /✕ Of which row/);
  expect(await page.run(`document.querySelector(${JSON.stringify(choice)}).hasAttribute("data-solved") && document.querySelector(".progress-line").textContent === "2 of ${all} exercises solved"`), "another option undoes a solved exercise");
  // Edited while it is being checked: the answer that was checked is no longer there.
  const slow = EXERCISE("backward", "your-gradient");
  for (const [place, value] of ["0.556", "-0.204", "-0.537", "0.185"].entries()) await hand.type(field("backward", "your-gradient", place + 1), value);
  await page.run(`{ const at = document.querySelector(${JSON.stringify(slow)}); at.querySelector(".check").click(); const input = at.querySelector("input"); input.value = "9"; input.dispatchEvent(new Event("input", { bubbles: true })); }`);
  // The check asks the worker twice.
  await page.run('lab.compute("checksum", { seed: 1, cases: 1 }).then(() => lab.compute("checksum", { seed: 1, cases: 1 })).then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))');
  expect((await hand.text(`${slow} .feedback`)) === "", `an answer that is no longer there is judged: ${await hand.text(`${slow} .feedback`)}`);
  await hand.type(field("backward", "your-gradient", 1), "0.556");
  await hand.click(`${slow} .check`);
  await hand.until(`${slow} .feedback`, /✓ Correct/);
}

// One reader, one tab: from the first screen through all chapters to a correct answer of every exercise; then the page again, and
// the file opened anew another day.
const LACKING = '[...document.querySelectorAll(".exercise:not([data-solved])")].map(({ dataset }) => dataset.exercise)';
export async function learner({ page, hand, expect, browser, url }) {
  const line = () => page.run('document.querySelector(".progress-line").textContent');
  const all = await page.run("lab.progress().all");
  expect(all > 30 && (await line()) === `0 of ${all} exercises solved`, `the course begins with “${await line()}”`);
  await hand.click(".way.learn");
  for (const chapter of CHAPTERS) {
    await follow(page, chapter.slice(3));
    const { default: operate } = await import(`./course/${chapter}.mjs`);
    await operate({ page, hand, expect });
  }
  const wanted = `${all} of ${all} exercises solved`;
  expect((await line()) === wanted, `at the end: “${await line()}”, without ${await page.run(LACKING)}`);
  // The address follows within 0.2 seconds.
  await new Promise((done) => setTimeout(done, 400));
  await page.send("Page.reload");
  await page.until('document.documentElement?.hasAttribute("data-ready")', "the page again");
  await settled(page);
  expect((await line()) === wanted, `after a reload: “${await line()}”, without ${await page.run(LACKING)}`);
  const later = await browser.open(url, { fresh: false });
  const seen = await later.run('[document.querySelector(".progress-line").textContent, document.querySelector(\'[data-exercise="by-hand"] .feedback\').textContent]');
  expect(seen[0] === wanted && /^✓/.test(seen[1]), `the file opened anew says ${seen}`);
  await later.close();
  // An answer in the address comes first.
  const linked = await browser.open(`${url}#steps.by-hand=1_2_3`, { fresh: false });
  expect((await linked.run(VALUES(EXERCISE("steps", "by-hand")))) === "1|2|3", "a stored answer replaces that of the address");
  await linked.run("window.confirm = () => true; 0");
  await linked.run('document.querySelector(".start-over").click()');
  await linked.until(`document.documentElement?.hasAttribute("data-ready") && document.querySelector(".progress-line").textContent === "0 of ${all} exercises solved"`, "no answers after starting over");
  await linked.close();
}
