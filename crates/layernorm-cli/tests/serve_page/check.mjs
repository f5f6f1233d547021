// Opens served pages in headless Chromium and does what a reader does.
//   node check.mjs URL OTHER [folder for screenshots]   a server of two folders, the second with finished runs; another server
//   node check.mjs --find                               check only whether there is a Chromium
// Exit status: 0 on success, 1 with a list of failures, 77 if there is no Chromium ($CHROMIUM, or on the path).
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { find, start } from "../../../layernorm-lab/tests/page/browser.mjs";
import { proxy } from "./proxy.mjs";

const [url, other, shots = process.env.LAYERNORM_SHOTS] = process.argv.slice(2);
const program = find();
if (!program) process.exit(77);
if (url === "--find") process.exit(0);
const browser = await start(program);
const failures = [];

function expect(holds, what) {
  if (!holds) failures.push(what);
}

async function shot(page, name) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  const { data } = await page.send("Page.captureScreenshot", { format: "png" });
  writeFileSync(join(shots, `${name}.png`), Buffer.from(data, "base64"));
}

// `quiet`: the console says nothing, and nothing but the server is asked.
async function check(name, address, { quiet = true, ...options }, body) {
  const before = failures.length;
  try {
    const page = await browser.open(address, options);
    await body(page);
    await page.close();
    expect(!quiet || page.complaints.length === 0, `${name}: the console says ${page.complaints.slice(0, 5).join(" | ")}`);
    const outside = page.requests.filter((request) => !request.startsWith(address.split("#")[0]) && !request.startsWith(url) && !/^(blob|data):/.test(request));
    expect(outside.length === 0, `${name}: asked for ${outside}`);
  } catch (error) {
    failures.push(`${name}: ${error.message}`);
  }
  console.log(failures.length === before ? `ok      ${name}` : `FAILED  ${name}`);
}

const live = `document.querySelector("section.live")`;
const phase = `${live}.dataset.phase`;
const button = (name) => `${live}.querySelector('[data-do="${name}"]')`;
const enabled = `["start", "stop", "resume"].filter((name) => !${live}.querySelector(\`[data-do="\${name}"]\`).disabled).join()`;
// The number of runs in the page's table.
const runs = `Number(document.querySelector(".runs [aria-live]")?.textContent.match(/(?:of|the) (\\d+) runs/)?.[1] ?? 0)`;
const stories = `[...document.querySelectorAll("section.story")].map((story) => story.dataset.story).join()`;
// A real click, where the reader would point.
async function click(page, target) {
  await page.run(`${target}.scrollIntoView({ block: "center" })`);
  const { x, y } = await page.run(`(() => { const { x, y, width, height } = ${target}.getBoundingClientRect(); return { x: x + width / 2, y: y + height / 2 }; })()`);
  for (const type of ["mousePressed", "mouseReleased"]) await page.send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
}
async function press(page, key, code) {
  for (const type of ["keyDown", "keyUp"]) await page.send("Input.dispatchKeyEvent", { type, key, code: key, windowsVirtualKeyCode: code, text: type === "keyDown" && key === "Enter" ? "\r" : undefined });
}

await check("starts a study, shows its progress, stops and resumes it", url, {}, async (page) => {
  await page.until(`${phase} === "idle"`, "a connection");
  const landed = await page.run(`({ focus: document.activeElement.id, top: ${live}.getBoundingClientRect().top, first: document.querySelector(".contents a").getAttribute("href") })`);
  expect(landed.focus === "live-title" && Math.abs(landed.top) < 200 && landed.first === "#view=live", `the page begins at ${JSON.stringify(landed)}`);
  expect((await page.run(enabled)) === "start", `enabled: ${await page.run(enabled)}`);
  expect((await page.run(stories)) === "", "stories without runs");
  await click(page, `${live}.querySelector(".live-controls summary")`);
  await click(page, `${live}.querySelector('[value="train-test"]')`);
  expect((await page.run(`${live}.querySelector(".live-controls summary").textContent`)) === "Studies: train-test", "the choice is not shown");
  await page.run(`${live}.querySelector('[name="seeds"]').focus()`);
  await page.send("Input.insertText", { text: "6" });
  await click(page, button("start"));
  await page.until(`${phase} === "running" && ${live}.querySelector(".live-runs li") !== null`, "a run in progress");
  await page.until(`/loss \\d/.test(${live}.querySelector(".live-runs").textContent)`, "a loss");
  expect((await page.run(enabled)) === "stop", `enabled while running: ${await page.run(enabled)}`);
  expect((await page.run(`${live}.querySelector(".live-status").textContent`)) === `Running train-test in lab.`, "the status");
  const share = `Number(${live}.querySelector("progress").value)`;
  const first = await page.run(share);
  await page.until(`${share} > ${first}`, "progress");
  await shot(page, "running");
  // The stop button by keyboard.
  await page.run(`${button("stop")}.focus()`);
  await press(page, "Enter", 13);
  await page.until(`${phase} === "stopped"`, "the end");
  expect((await page.run(enabled)) === "start,resume", `enabled after a stop: ${await page.run(enabled)}`);
  const finished = Number(await page.run(`${live}.dataset.finished`));
  await click(page, button("resume"));
  await page.until(`${phase} === "running" || ${phase} === "finished"`, "a resumed study");
  await page.until(`Number(${live}.dataset.finished) > ${finished}`, "another finished run");
});

await check("stories appear and change in place as runs finish", url, {}, async (page) => {
  await page.until(`${phase} === "finished"`, "the end of the study");
  await page.until(`${stories} === "train-test" && ${runs} === Number(${live}.dataset.finished)`, "the story of all runs");
  await page.run(`document.querySelector("section.story").dataset.mark = "old"; document.querySelector(".runs input").focus(); scrollTo(0, document.querySelector("section.story h2").getBoundingClientRect().top + scrollY);`);
  const top = await page.run("scrollY");
  await page.run(`${live}.querySelectorAll("input:checked").forEach((box) => box.click()); ${live}.querySelector('[value="epsilon"]').click(); ${live}.querySelector('[name="seeds"]').value = 2; ${button("start")}.click()`);
  await page.until(`${stories} === "train-test,epsilon"`, "the second story");
  const seen = await page.run(`({ kept: document.querySelector("section.story").dataset.mark === "old", drawn: [...document.querySelectorAll('[data-story="epsilon"] figure.chart')].every((figure) => figure.dataset.empty !== undefined || figure.querySelector("svg, table, canvas")), contents: document.querySelectorAll(".contents-evidence li").length, headline: document.querySelector(".headline").textContent, focus: document.activeElement.type, top: scrollY, bad: document.querySelector("main").innerText.match(/.*(?:undefined|\\[object).*/)?.[0] ?? null })`);
  expect(seen.kept, "a story that has not changed was built again");
  expect(seen.drawn, "a figure is not drawn");
  expect(seen.contents === 3 && /^\d+ questions: /.test(seen.headline), JSON.stringify(seen));
  expect(seen.focus === "search", `the reader was in the search field, and is now in ${seen.focus}`);
  expect(Math.abs(seen.top - top) < 400, `the page scrolled from ${top} to ${seen.top}`);
  expect(!seen.bad, `the page says ${seen.bad}`);
  // However many reports come meanwhile, the table waits once for the reader to leave it.
  await page.run('fetch("report").then((answer) => answer.json()).then((newer) => [1, 2, 3].forEach(() => lab.update(newer)))');
  const { result: table } = await page.send("Runtime.evaluate", { expression: 'document.querySelector("section.runs")' });
  const { listeners } = await page.send("DOMDebugger.getEventListeners", { objectId: table.objectId });
  const waiting = listeners.filter(({ type }) => type === "focusout").length;
  expect(waiting === 1, `the table waits ${waiting} times`);
  await page.run("document.activeElement.blur()");
  await page.until(`${runs} === Number(${live}.dataset.finished)`, "the new runs in the table, after the reader has left it");
  await shot(page, "finished");
});

const status = `${live}.querySelector(".live-status").textContent`;
const between = await proxy(url);
// Starts a study with more seeds than before, and waits for its end.
async function study(page, name, seeds) {
  const finished = await page.run(`Number(${live}.dataset.finished)`);
  await page.run(`${live}.querySelectorAll("input:checked").forEach((box) => box.click()); ${live}.querySelector('[value="${name}"]').click(); ${live}.querySelector('[name="seeds"]').value = ${seeds}; ${button("start")}.click()`);
  await page.until(`${phase} === "finished" && Number(${live}.dataset.finished) > ${finished}`, `the end of ${name} with ${seeds} seeds`);
}

await check("the last report is shown, even if runs end while an earlier one is on its way", between.url, {}, async (page) => {
  await page.until(`${phase} === "finished"`, "a connection");
  between.hold("report");
  await study(page, "epsilon", 3);
  const [newest, shown] = ["newest", "report"].map((name) => `Number(${live}.dataset.${name})`);
  await page.until(`${newest} > ${shown}`, "a newer report");
  await between.isHeld();
  const first = await page.run(newest);
  await study(page, "epsilon", 4);
  await page.until(`${newest} > ${first}`, "a still newer report");
  between.release();
  await page.until(`${shown} === ${newest} && ${runs} === Number(${live}.dataset.finished)`, "the last report");
  const { live: { number }, runs: all } = await (await fetch(`${url}report`)).json();
  expect((await page.run(`[${shown}, ${runs}].join()`)) === [number, all.length].join(), `the page shows report ${await page.run(shown)} of ${number}`);
});

await check("a lost connection is reported, and no longer when it is back", between.url, { quiet: false }, async (page) => {
  await page.until(`${phase} === "finished"`, "a connection");
  const before = await page.run(status);
  between.cut();
  await page.until(`${live}.dataset.lost === "trying" && /lost; trying to reconnect/.test(${status})`, "word of the lost connection");
  const reload = `${live}.querySelector(".live-reload")`;
  expect(await page.run(`${reload}.hidden`), "it offers to reload although it tries to reconnect");
  between.mend();
  await page.until(`${live}.dataset.lost === undefined`, "the connection");
  expect((await page.run(status)) === before, `connected again, the status is “${await page.run(status)}”, not “${before}”`);
  // A server that was started again has another address: it refuses, and browsers do not try again.
  between.cut();
  between.mend(other);
  await page.until(`${live}.dataset.lost === "closed" && /refuses this connection/.test(${status})`, "word of the refusal");
  await shot(page, "closed");
  between.cut();
  between.mend();
  await click(page, reload);
  await page.until(`document.documentElement?.hasAttribute("data-ready") && ${live}?.dataset.phase === "finished" && ${live}.dataset.lost === undefined`, "the page again");
});
between.close();

await check("folders are compared and can be switched", `${url}#theme=dark`, {}, async (page) => {
  await page.until(`${phase} === "finished"`, "a connection");
  await page.run(`${live}.querySelector(".live-compare").open = true`);
  await page.until(`${live}.querySelectorAll(".live-compare tbody tr").length > 5`, "findings");
  const rows = await page.run(`[...${live}.querySelectorAll(".live-compare tbody tr")].map((row) => ({ rank: Number(row.dataset.rank), cells: row.querySelectorAll("td").length }))`);
  expect(rows.every(({ cells }) => cells === 2), "not every row has both folders");
  expect(rows.every(({ rank }, index) => !index || rank >= rows[index - 1].rank) && rows.some(({ rank }) => rank === 1), `the order is ${rows.map(({ rank }) => rank)}`);
  await shot(page, "compared");
  // What the form would start; nothing is started here.
  await page.run(`{ const real = window.fetch; window.fetch = (path, options) => { if (options?.method !== "POST") return real(path, options); window.sent = JSON.parse(options.body); return Promise.resolve(new Response("{}", { status: 202 })); }; }`);
  for (const name of ["folder", "size"]) {
    await page.run(`${live}.querySelector('[name="${name}"]').focus()`);
    await press(page, "ArrowDown", 40);
  }
  await click(page, button("start"));
  await page.until("window.sent !== undefined", "a request");
  const sent = await page.run("JSON.stringify(window.sent)");
  expect(sent === JSON.stringify({ folder: 1, studies: [], full: true, seeds: null }), `the form sends ${sent}`);
  await click(page, `${live}.querySelector(".live-folders a")`);
  await page.until(`location.search === "?folder=1" && document.documentElement?.hasAttribute("data-ready")`, "the other folder");
  expect((await page.run("location.hash")) === "#theme=dark", "the view is lost");
  expect((await page.run(stories)) === "epsilon", `the other folder has ${await page.run(stories)}`);
});

await check("fits a phone", url, { width: 360, height: 780, mobile: true }, async (page) => {
  await page.until(`${phase} === "finished"`, "a connection");
  await page.run(`${live}.querySelectorAll("details").forEach((details) => { details.open = true; })`);
  const [inner, scroll] = await page.run("[document.documentElement.clientWidth, document.documentElement.scrollWidth]");
  expect(scroll <= inner && inner === 360, `${scroll} pixels wide`);
  const wide = await page.run(`[...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !node.closest(".wide, .matrix, .data, svg, #tip")).map((node) => node.tagName + "." + node.className).slice(0, 5)`);
  expect(wide.length === 0, `too wide: ${wide}`);
  const unnamed = await page.run(`[...document.querySelectorAll(".live button, .live input, .live select, .live progress")].filter((node) => !node.textContent && !node.labels?.length && !node.getAttribute("aria-label")).length`);
  expect(unnamed === 0, `${unnamed} controls have no name`);
  await shot(page, "phone");
});

await browser.close();
if (failures.length) console.log(failures.map((failure) => `  ${failure}`).join("\n"));
process.exit(failures.length ? 1 : 0);
