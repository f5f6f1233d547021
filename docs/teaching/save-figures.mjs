// Saves the pictures of docs/teaching.md from a report, with the buttons below its figures:
//   node docs/teaching/save-figures.mjs lab-out/report.html
// It needs Chromium ($CHROMIUM, or on the path).
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { find, start } from "../../crates/layernorm-lab/tests/page/browser.mjs";
import { hand } from "../../crates/layernorm-lab/tests/page/hand.mjs";

// The study's figure that each lesson shows.
const LESSONS = {
  2: "batch-size/errors",
  3: "epsilon/gradient",
  4: "gradient-flow/flow-relu",
  5: "implementations/time",
  6: "dynamics/hidden-lstm",
  7: "depth/depth",
};

const [report] = process.argv.slice(2);
const chromium = find();
if (!report || !chromium) {
  console.error(chromium ? "usage: node docs/teaching/save-figures.mjs REPORT.html" : "Chromium is missing; CHROMIUM sets its path");
  process.exit(2);
}
const browser = await start(chromium);
const page = await browser.open(pathToFileURL(resolve(report)).href);
const folder = mkdtempSync(join(tmpdir(), "layernorm-figures-"));
for (const [lesson, id] of Object.entries(LESSONS)) {
  const figure = `document.getElementById(${JSON.stringify(`at:${id}`)})`;
  if (!(await page.run(`Boolean(${figure})`))) throw new Error(`${report} has no figure ${id}`);
  await page.run(`${figure}.scrollIntoView({ behavior: "instant" })`);
  await page.until(`[...${figure}.querySelectorAll(".save")].some((node) => node.textContent === "SVG")`, `the buttons of ${id}`);
  // A real click, and the first button: a page may not download several files by itself.
  const path = await page.download(folder, () => hand(page).click(`[id="at:${id}"] .save:nth-of-type(1)`));
  const to = fileURLToPath(new URL(`lesson-${lesson}.svg`, import.meta.url));
  renameSync(path, to);
  console.log(`lesson ${lesson}: ${id}`);
}
await browser.close();
rmSync(folder, { recursive: true });
