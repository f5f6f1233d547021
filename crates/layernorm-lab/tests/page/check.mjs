// Opens a report in headless Chromium and tries a reader's actions.
//   node check.mjs report.html [folder for screenshots]         the sample of sample.rs
//   node check.mjs --any report.html [folder for screenshots]   any report: drawn, quiet, fits, prints
//   node check.mjs --only=chapter report.html                   only the checks whose names contain a word
//   node check.mjs --without='a|b' report.html             without the checks whose names match a regular expression
//   node check.mjs --find                                       check only whether there is a Chromium
// Exit status: 0 on success, 1 with a list of failures, 77 if there is no Chromium ($CHROMIUM, or on the path).
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { back, learner, solved } from "./answers.mjs";
import { find, start } from "./browser.mjs";
import { CHAPTERS } from "./course/index.mjs";
import downloads from "./downloads.mjs";
import { hand } from "./hand.mjs";
import { numbers } from "./numbers.mjs";
import { drags, opening, settled, usable } from "./speed.mjs";
import { common, studies } from "./widgets.mjs";

const any = process.argv.includes("--any");
const only = process.argv.find((word) => word.startsWith("--only="))?.slice(7) ?? "";
const without = process.argv.find((word) => word.startsWith("--without="))?.slice(10);
const [file, shots = process.env.LAYERNORM_SHOTS] = process.argv.slice(2).filter((word) => word !== "--any" && !/^--(only|without)=/.test(word));
const program = find();
if (!program) {
  if (file !== "--find") console.log("Chromium not found");
  process.exit(77);
}
if (file === "--find") process.exit(0);
const url = pathToFileURL(resolve(file)).href;
const browser = await start(program);
const failures = [];
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

function expect(holds, what) {
  if (!holds) failures.push(what);
}
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

const TALLEST = 8000; // pixels

// A picture of the window, of the whole page, or of an element.
async function shot(page, name, what = null) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  const query = what === "html" ? "[0, 0, document.documentElement.clientWidth, document.documentElement.scrollHeight]" : `(({ left, top, width, height }) => [left + scrollX, top + scrollY, width, height])(document.querySelector(${JSON.stringify(what)}).getBoundingClientRect())`;
  const [x, y, width, height] = what ? await page.run(query) : [];
  // Chromium refuses very tall pictures.
  const clip = what ? { x, y, width, height: Math.min(height, TALLEST), scale: 1 } : undefined;
  const { data } = await page.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: Boolean(what), clip });
  writeFileSync(join(shots, `${name}.png`), Buffer.from(data, "base64"));
}

// Runs one check in a new tab; `sample` if it needs the stories of sample.rs.
async function check(name, options, body) {
  if ((any && options.sample) || !name.includes(only) || (without && new RegExp(without).test(name))) return;
  const [before, from] = [failures.length, performance.now()];
  let page = null;
  try {
    page = await browser.open(options.url ?? url, options);
    // Figures are drawn when they come near the window; here all are looked at.
    await page.run("lab.drawAll()");
    await body(page);
    expect(page.complaints.length === 0, `${name}: the console says ${page.complaints.slice(0, 5).join(" | ")}`);
  } catch (error) {
    failures.push(`${name}: ${error.message}`);
  }
  await page?.close();
  console.log(`${failures.length === before ? "ok    " : "FAILED"}  ${name} (${((performance.now() - from) / 1000).toFixed(1)} s)`);
}

// The number of marks of each chart; for a canvas, the number of pixels that are not empty.
const MARKS = `[...document.querySelectorAll("figure.chart")].map((figure) => {
  const kinds = { lines: ".line[d^=M]", frames: ".series .dot", heatmaps: ".heatmap path", images: ".shade[d^=M]", histograms: ".hill[d^=M]", bars: ".bar", grid: ".tile", steps: ".matrix td", quiz: ".option", table: "tbody td", live: "svg, input, select, button" };
  const painted = [...figure.querySelectorAll("canvas")].map((canvas) => { const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data; let count = 0; for (let i = 3; i < pixels.length; i += 4) count += pixels[i] > 0; return count; });
  const kind = figure.dataset.kind;
  return { id: figure.id.slice(3), kind, empty: figure.querySelector(".empty")?.textContent ?? null, marks: kind === "scatter3d" ? Math.min(...painted, 1e9) : figure.querySelectorAll(kinds[kind]).length,
    axes: figure.querySelectorAll(".plot").length === figure.querySelectorAll(".plot .axis").length && [...figure.querySelectorAll(".plot")].every((plot) => plot.querySelectorAll(".axis text").length > 3),
    legend: ["lines", "frames", "histograms", "bars", "scatter3d", "grid"].includes(kind) ? figure.querySelectorAll(".legend > *").length > 0 : true,
    see: figure.querySelector(":scope > figcaption").textContent.length, bad: /NaN|undefined|Infinity|\\[object/.test(figure.outerHTML) };
})`;
const OVERFLOW = `[...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !node.closest(".wide, .matrix, .data, math, svg, #tip")).map((node) => node.tagName + "." + node.className).slice(0, 5)`;
const figure = (id) => `document.getElementById(${JSON.stringify(`at:${id}`)})`;

if ("usable".includes(only)) {
  await usable({ browser, url, expect });
  await opening({ browser, url, expect, any });
}

await check("opens from a file, every chart is drawn", {}, async (page) => {
  expect(statSync(file).size < 4e6, "over 4 MB");
  const outside = page.requests.filter((each) => each !== url && !/^(blob|data):/.test(each));
  expect(outside.length === 0, `asked for ${outside}`);
  expect((await page.run("document.title")) !== "broken", "a name ran as a program");
  for (const chart of await page.run(MARKS)) {
    expect(chart.empty ? chart.empty.length > 15 : chart.marks > 1, `${chart.id} (${chart.kind}) has ${chart.marks} marks`);
    expect(chart.axes, `${chart.id} lacks axes`);
    expect(chart.empty || chart.legend, `${chart.id} lacks a legend`);
    expect(chart.see > 5, `${chart.id} has no caption`);
    expect(!chart.bad, `${chart.id} shows NaN, Infinity or undefined`);
  }
  const kinds = await page.run(`[...new Set([...document.querySelectorAll("figure.chart:not([data-empty])")].map((figure) => figure.dataset.kind))].length`);
  expect(any || kinds === 12, `${kinds} of 12 chart types are drawn`);
  await shot(page, "light");
  await shot(page, "light-whole", "html");
});

await check("the headline counts the questions, and every study shows its findings", {}, async (page) => {
  const seen = await page.run(`({ headline: document.querySelector(".headline").textContent, lists: [...document.querySelectorAll(".verdict-list")].map((list) => [list.dataset.verdict, list.querySelectorAll("li").length, list.open]),
    rows: [...document.querySelectorAll(".verdicts tbody tr")].map((row) => ({ verdict: row.dataset.verdict, badge: row.querySelector(".badge").textContent, explained: row.querySelector("th .remark") !== null, plot: row.querySelector(".forest")?.getAttribute("aria-label") ?? null, marks: row.querySelectorAll(".forest .mean, .forest .zero").length, bad: /NaN|undefined|Infinity|\\[object/.test(row.outerHTML) })) })`);
  const count = (verdict) => seen.rows.filter((row) => row.verdict === verdict).length;
  const verdicts = ["contradicted", "undecided", "supported"];
  expect(seen.headline === `${seen.rows.length} questions: ${count("supported")} supported, ${count("contradicted")} contradicted, ${count("undecided")} undecided`, `the headline is “${seen.headline}”`);
  expect(any || seen.headline === "7 questions: 3 supported, 2 contradicted, 2 undecided", `the headline of the sample is “${seen.headline}”`);
  expect(same(seen.lists, verdicts.map((verdict) => [verdict, count(verdict), verdict !== "supported"]).filter(([, number]) => number)), `the lists are ${JSON.stringify(seen.lists)}`);
  for (const row of seen.rows) {
    expect(row.badge.toLowerCase().endsWith(row.verdict), `a finding is ${row.verdict}, but its badge says ${row.badge}`);
    expect(row.explained === (row.verdict !== "supported"), `a ${row.verdict} finding ${row.explained ? "is" : "is not"} explained`);
    expect(!row.plot || (row.marks === 2 && /mean .*seeds?; the claim is a mean (below|above) 0/.test(row.plot)), `a plot says ${row.plot}`);
    expect(!row.bad, "a finding shows NaN, Infinity or undefined");
  }
  expect(seen.rows.some((row) => row.plot), "no finding has a plot");
  const target = await page.run(`{ const link = document.querySelector(".verdict-list a"); link.click(); link.getAttribute("href").slice(6); }`);
  await page.until(`location.hash.includes("view=") && Math.abs(document.getElementById("at:" + decodeURIComponent(${JSON.stringify(target)})).getBoundingClientRect().top) < 300`, "the question");
  await shot(page, "findings");
});

// Every chapter's figures and exercises, operated with mouse and keys.
for (const chapter of CHAPTERS)
  await check(`chapter ${chapter}`, { url: `${url}#view=${chapter.slice(3)}` }, async (page) => {
    const { default: operate } = await import(`./course/${chapter}.mjs`);
    await operate({ page, hand: hand(page), expect });
    await shot(page, chapter);
  });

await check("numbers are read as people write them", {}, (page) => numbers({ page, expect }));

// Every chapter as a reader sees it, for those who look at the pictures.
if (shots)
  for (const [width, mobile] of [[360, true], [1280, false]])
    for (const theme of ["light", "dark"])
      await check(`chapters, ${width} pixels, ${theme}`, { url: `${url}#theme=${theme}`, width, height: 900, mobile, features: [{ name: "prefers-reduced-motion", value: "reduce" }] }, async (page) => {
        await settled(page);
        for (const chapter of CHAPTERS) await shot(page, `${chapter}-${width}-${theme}`, `[id="at:${chapter.slice(3)}"]`);
      });

for (const [name, body] of [["the back button keeps answers", back], ["a solved exercise stays solved", solved]])
  await check(name, {}, (page) => body({ page, hand: hand(page), expect }));

await check("a learner solves every exercise in one tab", {}, (page) => learner({ page, hand: hand(page), expect, browser, url }));

for (const { name, sample = false, body, ...options } of [...common, ...studies.map((one) => ({ sample: true, ...one }))])
  await check(name, { sample, ...options }, (page) => body({ page, hand: hand(page), expect, browser }));

await check("figures download", {}, async (page) => {
  await settled(page);
  const ids = await page.run(`[...document.querySelectorAll("figure.chart:not([data-empty])")].map(({ id, dataset }) => [id.slice(3), dataset.kind])`);
  // Of a real report, which has hundreds: those of the chapters, and one of each type.
  const first = (kind) => ids.find(([, each]) => each === kind)[0];
  const chosen = ids.filter(([id, kind]) => !any || kind === "live" || id === first(kind)).map(([id]) => id);
  await downloads({ page, hand: hand(page), browser, expect, ids: chosen, shots });
});

await check("no drag blocks the page", {}, (page) => drags({ page, hand: hand(page), expect }));

await check("computes the checksum of the native library", {}, async (page) => {
  const known = process.env.LAYERNORM_CHECKSUM; // of main.rs
  await page.until(`document.querySelector(".checksum").textContent !== "computing …"`, "the checksum");
  const [sum, command] = await page.run(`[document.querySelector(".checksum").textContent, document.querySelector(".made .command code").textContent]`);
  expect(/^[0-9a-f]{16}$/.test(sum) && (!known || sum === known), `the checksum is ${sum}, not ${known}`);
  expect(command === "layernorm verify --checksum --seed 1 --cases 200", `the checksum's command is ${command}`);
});

await check("playing moves the curves and the frames", { sample: true }, async (page) => {
  for (const [id, look] of [["compare/loss", ".plot clipPath rect"], ["compare/layers", ".series .line"], ["inside/digits", ".sheet"]]) {
    const state = `${figure(id)}.querySelector(${JSON.stringify(look)}).outerHTML`;
    const seen = [await page.run(state)];
    await page.run(`${figure(id)}.querySelector(".play").click()`);
    for (let n = 0; n < 3; n += 1) {
      await wait(350);
      seen.push(await page.run(state));
    }
    expect(new Set(seen).size === 4, `${id} did not move: ${new Set(seen).size} pictures of 4`);
    await page.run(`${figure(id)}.querySelector(".play").click()`);
    const stopped = await page.run(state);
    await wait(250);
    expect((await page.run(state)) === stopped, `${id} moves after pause`);
  }
  expect((await page.run("location.hash")).includes("compare.loss.at="), "the place is not in the hash");
});

await check("the cloud rotates automatically and by keys", { sample: true }, async (page) => {
  const angle = `${figure("inside/cloud")}.querySelector("output").textContent`;
  await page.run(`${figure("inside/cloud")}.scrollIntoView()`);
  const before = await page.run(angle);
  await page.until(`${angle} !== ${JSON.stringify(before)}`, "a turn");
  await page.run(`${figure("inside/cloud")}.querySelector("canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }))`);
  const stopped = await page.run(angle);
  await wait(300);
  expect((await page.run(angle)) === stopped, "still rotates after a key");
  await page.until('location.hash.includes("inside.cloud.turn=")', "the turn in the hash");
  await shot(page, "cloud");
});

await check("clouds with one scale have a sphere and equal axes", { sample: true }, async (page) => {
  const at = figure("inside/sphere");
  const seen = await page.run(`({ heading: ${at}.querySelector("h4").textContent, notes: ${at}.textContent, other: ${figure("inside/cloud")}.textContent })`);
  expect(seen.heading === "no norm (sphere: 1.73)", `the heading is “${seen.heading}”`);
  expect(seen.notes.includes("All axes of all plots have the same scale") && !seen.other.includes("have the same scale"), "the scale is not explained");
  // Hiding every class leaves the axes and the sphere, which has more pixels than axes alone.
  for (const id of ["inside/sphere", "inside/cloud"]) await page.run(`${figure(id)}.querySelectorAll(".key").forEach((key) => key.click())`);
  const painted = Object.fromEntries((await page.run(MARKS)).map(({ id, marks }) => [id, marks]));
  expect(painted["inside/sphere"] > 2 * painted["inside/cloud"], `the sphere has ${painted["inside/sphere"]} pixels, the axes ${painted["inside/cloud"]}`);
  await page.run(`${at}.scrollIntoView({ behavior: "instant" })`);
  await shot(page, "sphere");
});

// The visible state of the page.
const VIEW = `({ theme: document.documentElement.dataset.theme, clip: ${figure("compare/loss")}.querySelector("clipPath rect").getAttribute("width"),
  loss: ${figure("compare/loss")}.querySelector("output").textContent, layer: ${figure("compare/layers")}.querySelector(".series .line").getAttribute("d"),
  hidden: document.querySelectorAll('.key[aria-pressed="false"]').length, step: ${figure("worked/example")}.querySelector(".current h4").textContent,
  turn: ${figure("inside/cloud")}.querySelector("output").textContent, quiz: ${figure("worked/quiz")}.querySelector(".verdict").textContent,
  runs: document.querySelectorAll(".runs-table tbody tr").length, first: document.querySelector(".runs-table tbody tr").textContent, count: document.querySelector(".runs > .remark").textContent })`;

await check("a link to a view reopens it", { sample: true }, async (page) => {
  const slide = (id, value) => `{ const slider = ${figure(id)}.querySelector("input[type=range]"); slider.value = ${value}; slider.dispatchEvent(new Event("input", { bubbles: true })); }`;
  await page.run(slide("compare/loss", 40));
  await page.run(slide("compare/layers", 3));
  await page.run(`${figure("settings/batch")}.querySelectorAll(".key")[1].click()`);
  await page.run(`[...${figure("worked/example")}.querySelectorAll("button")].find((button) => button.textContent.startsWith("Next")).click()`);
  await page.run(`${figure("worked/quiz")}.querySelectorAll("input")[1].click()`);
  await page.run(`${figure("inside/cloud")}.querySelector("canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }))`);
  await page.run(`[...document.querySelectorAll(".tools button")].at(-1).click()`);
  await page.run(`{ const search = document.querySelector(".filters input"); search.value = "lstm"; search.dispatchEvent(new Event("input", { bubbles: true })); }`);
  await page.run(`{ const norm = document.querySelectorAll(".fields select")[2]; norm.value = "layer norm"; norm.dispatchEvent(new Event("change", { bubbles: true })); }`);
  await page.run(`[...document.querySelectorAll(".sort")].find((button) => button.textContent === "val. loss").click()`);
  await wait(400);
  const [view, link] = [await page.run(VIEW), await page.run("location.href")];
  expect(view.theme === "dark" && view.hidden === 1 && view.step.startsWith("2.") && view.quiz.startsWith("✕"), `the choices did not take: ${JSON.stringify(view)}`);
  expect(view.runs > 0 && view.runs < 100, `the filters left ${view.runs} runs`);
  const again = await browser.open(link);
  await again.run("lab.drawAll()");
  const reopened = await again.run(VIEW);
  for (const key of Object.keys(view)) expect(view[key] === reopened[key], `${key}: ${view[key]} was reopened as ${reopened[key]}`);
  expect(again.complaints.length === 0, `reopened, the console says ${again.complaints}`);
  await again.close();
  // The same link, opened in an existing page.
  await page.run(`location.hash = "#view=settings/eps"`);
  await page.until(`Math.abs(${figure("settings/eps")}.getBoundingClientRect().top) < 200`, "the figure of the link");
  expect((await page.run("document.documentElement.dataset.theme")) === "light", "old settings remain after following a link");
});

await check("the contents link to stories, and the back button works", { sample: true }, async (page) => {
  await page.run(`document.querySelector('.contents a[href="#view=settings"]').click()`);
  const top = (id) => `Math.abs(${figure(id)}.getBoundingClientRect().top) < 200`;
  await page.until(top("settings"), "the story");
  expect((await page.run("location.hash")) === "#view=settings", "the story is not in the hash");
  await page.run(`document.querySelector('.contents a[href="#view=compare"]').click()`);
  await page.until(top("compare"), "another story");
  await page.run("history.back()");
  await page.until(top("settings"), "the story before");
});

await check("links in a table lead to findings and stories", { sample: true }, async (page) => {
  const links = `[...${figure("which-norm/situations")}.querySelectorAll(".links a")]`;
  expect((await page.run(`${links}.length`)) === 2, "a text without a place is a link");
  await page.run(`${links}[0].click()`);
  await page.until(`Math.abs(document.getElementById("at:compare/q-mlp").getBoundingClientRect().top) < 300`, "the finding of the link");
  await page.run(`${links}[1].click()`);
  await page.until(`Math.abs(${figure("settings")}.getBoundingClientRect().top) < 200`, "the story of the link");
  expect((await page.run("location.hash")) === "#view=settings", "the place of the link is not in the hash");
});

await check("shows a tooltip, and copies a link", { sample: true }, async (page) => {
  await page.run(`${figure("compare/loss")}.scrollIntoView({ behavior: "instant" })`);
  const [x, y] = await page.run(`(() => { const box = ${figure("compare/loss")}.querySelector(".plot").getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()`);
  await page.send("Input.dispatchMouseEvent", { type: "mouseMoved", x, y });
  const tip = await page.run(`[document.getElementById("tip").hidden, document.getElementById("tip").textContent]`);
  expect(!tip[0] && tip[1].includes("layer norm: 0."), `the tooltip says ${tip}`);
  await page.run(`${figure("compare/layers")}.querySelector("input[type=range]").value = 2`);
  await page.run(`${figure("compare/layers")}.querySelector(".play").click()`);
  await wait(300);
  await page.run(`document.querySelector(".tools button").click()`);
  expect((await page.run("location.hash")).includes("compare.layers.at="), "the link lacks what was moving");
});

await check("filters and sorting of the runs", { sample: true }, async (page) => {
  const rows = () => page.run(`[...document.querySelectorAll(".runs-table tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent))`);
  const field = (name, value) => page.run(`{ const input = [...document.querySelectorAll(".fields label")].find((label) => label.textContent.startsWith(${JSON.stringify(name)})).querySelector("input"); input.value = ${JSON.stringify(value)}; input.dispatchEvent(new Event("input")); }`);
  await field("batch", "64");
  await field("val. accuracy", ">0.9");
  const found = await rows();
  expect(found.length > 0 && found.every((row) => row[5] === "64" && Number(row[9]) > 0.9), "the column filters let others through");
  await field("batch", "no number");
  expect((await rows()).length === 0 && (await page.run(`document.querySelector(".runs > .remark").textContent`)).startsWith("None of"), "no message although no run matches");
});

for (const theme of ["light", "dark"])
  await check(`follows the system's ${theme} theme`, { features: [{ name: "prefers-color-scheme", value: theme }] }, async (page) => {
    expect((await page.run("document.documentElement.dataset.theme")) === theme, "other colours");
    if (theme === "dark") await shot(page, "dark");
    if (theme === "dark") await shot(page, "dark-whole", "html");
  });

await check("does not move with reduced motion", { sample: true, features: [{ name: "prefers-reduced-motion", value: "reduce" }] }, async (page) => {
  const angle = `${figure("inside/cloud")}.querySelector("output").textContent`;
  await page.run(`${figure("inside/cloud")}.scrollIntoView()`);
  const before = await page.run(angle);
  await wait(400);
  expect((await page.run(angle)) === before, "the cloud rotates");
});

for (const width of [360, 768])
  await check(`fits a screen of ${width} pixels`, { width, height: 780, mobile: true }, async (page) => {
    const [inner, scroll] = await page.run("[document.documentElement.clientWidth, document.documentElement.scrollWidth]");
    expect(scroll <= inner && inner === width, `${scroll} pixels wide`);
    const wide = await page.run(OVERFLOW);
    expect(wide.length === 0, `too wide: ${wide}`);
    await shot(page, `width-${width}`);
    await shot(page, `width-${width}-whole`, "html");
  });

await check("prints every story and no controls", { url: `${url}#theme=dark` }, async (page) => {
  const { data } = await page.send("Page.printToPDF", { printBackground: true });
  const paper = Buffer.from(data, "base64");
  expect(paper.length > 20_000, `the PDF has ${paper.length} bytes`);
  if (shots) writeFileSync(join(shots, "print.pdf"), paper);
  await page.send("Emulation.setEmulatedMedia", { media: "print" });
  const shown = (query) => page.run(`[...document.querySelectorAll(${JSON.stringify(query)})].filter((node) => node.getBoundingClientRect().height > 0).length`);
  const [steps, all] = [await shown(".step"), await page.run('document.querySelectorAll(".step").length')];
  const controls = await shown(".player, .tools, .filters, .contents, .copy, .saves, .play-bar, .play-presets, .play-settings, .controls, .exercise button");
  expect(steps === all, "a step is not printed");
  expect(controls === 0, `${controls} controls are printed`);
});

await browser.close();
if (failures.length) console.log(failures.map((failure) => `  ${failure}`).join("\n"));
process.exit(failures.length ? 1 : 0);
