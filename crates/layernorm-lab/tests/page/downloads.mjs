// Downloads figures with their buttons and looks into the files.
//   export default async function ({ page, hand, browser, expect, ids, shots })
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const SCALE = 2; // pixels of a PNG for each of the page
const HTML = ["h4", ".key > span:not(.value)", ".extra", ".scalename", ".ends > span", ".gradient-key > span", ".blind-key > span"].map((each) => `.picture ${each}`).join(", ");

// The records of a CSV file (RFC 4180).
function records(text) {
  const rows = [[]];
  const cells = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n|$)/y;
  while (cells.lastIndex < text.length) {
    const found = cells.exec(text);
    if (!found) throw new Error(`no CSV after ${JSON.stringify(text.slice(0, 60))}`);
    const [, cell, end] = found;
    rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end === "\r\n" && cells.lastIndex < text.length) rows.push([]);
  }
  return rows;
}

// What a reader sees of a figure: its title, and the words of headings, legend and scales.
const SEEN = (id) => `(() => {
  const figure = document.getElementById(${JSON.stringify(`at:${id}`)});
  figure.scrollIntoView({ behavior: "instant" });
  const shown = [...figure.querySelectorAll(${JSON.stringify(HTML)})].filter((node) => node.getBoundingClientRect().width > 0).map((node) => node.textContent.trim());
  return { title: figure.querySelector("h3").lastChild.textContent, words: [...new Set(shown.filter(Boolean))], legend: figure.querySelectorAll(".key").length, saves: [...figure.querySelectorAll(".save")].map((node) => node.textContent) };
})()`;

// The table below a figure, opened.
const TABLE = (id) => `(() => {
  const details = document.getElementById(${JSON.stringify(`at:${id}`)}).querySelector(".data");
  details.open = true;
  return new Promise((done) => details.addEventListener("toggle", () => setTimeout(() => { const [head, ...rows] = [...details.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent)); const sampled = details.textContent.match(/of ([\\d\\s\\u202f,]+) rows, evenly/); details.open = false; done({ head, rows: rows.length, all: sampled ? Number(sampled[1].replace(/\\D/g, "")) : rows.length, first: rows[0] }); }), { once: true }));
})()`;

// The texts of an SVG file as Chromium draws them, with their places.
const DRAWN = `({ size: [innerWidth, innerHeight], svg: ["width", "height"].map((name) => Number(document.documentElement.getAttribute(name))), marks: document.querySelectorAll("path, rect, circle, image, line").length,
  texts: [...document.querySelectorAll("text")].filter((node) => getComputedStyle(node).display !== "none").map((node) => { const { left, top, right, bottom } = node.getBoundingClientRect(); return { words: node.textContent, own: node.parentElement === document.documentElement, box: [left, top, right, bottom] }; }) })`;

// Of a PNG: its size, the share of pixels that are not background, and the colours in each of some boxes.
const PAINTED = (base64, boxes) => `(async () => {
  const bytes = Uint8Array.from(atob(${JSON.stringify(base64)}), (letter) => letter.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const colours = (x, y, width, height) => { const { data } = context.getImageData(x, y, width, height); const all = new Map(); for (let at = 0; at < data.length; at += 4) { const key = data.slice(at, at + 4).join(); all.set(key, (all.get(key) ?? 0) + 1); } return all; };
  const all = colours(0, 0, image.width, image.height);
  const ground = colours(1, 1, 1, 1).keys().next().value;
  return { width: image.width, height: image.height, colours: all.size, painted: 1 - (all.get(ground) ?? 0) / (image.width * image.height), boxes: ${JSON.stringify(boxes)}.map((box) => colours(...box).size) };
})()`;

// The page breaks lines where the drawing has several texts.
const plain = (text) => text.replace(/\s+/g, "");

async function svg({ browser, expect, id, seen, path }) {
  const text = readFileSync(path, "utf8").replace(/"data:image[^"]*"/g, '""');
  expect(text.startsWith("<?xml"), `${id}: the SVG begins with ${text.slice(0, 20)}`);
  for (const bad of ["var(", "oklab(", "color-mix(", "NaN", "undefined", ' class="']) expect(!text.includes(bad), `${id}: the SVG needs a browser or has ${bad}`);
  const tab = await browser.open(pathToFileURL(path).href, { ready: 'document.readyState === "complete" && document.documentElement.localName === "svg"' });
  const drawn = await tab.run(DRAWN);
  await tab.close();
  const words = plain(drawn.texts.map((each) => each.words).join(""));
  for (const each of [seen.title, ...seen.words]) expect(words.includes(plain(each)), `${id}: the SVG lacks “${each}”`);
  expect(drawn.marks > 3, `${id}: the SVG has ${drawn.marks} marks`);
  const [width, height] = drawn.svg;
  const outside = drawn.texts.filter(({ own, box: [left, top, right, bottom] }) => own && (left < -1 || top < -1 || right > width + 1 || bottom > height + 1));
  expect(outside.length === 0, `${id}: outside the SVG: ${outside.map((each) => each.words)}`);
  return drawn;
}

async function png({ page, expect, id, drawn, path }) {
  const bytes = readFileSync(path);
  expect(bytes.subarray(1, 4).toString() === "PNG", `${id}: the PNG is none`);
  const [width, height] = drawn.svg;
  const boxes = drawn.texts.filter(({ own }) => own).map(({ box: [left, top, right, bottom] }) => [left, top, right - left, bottom - top].map((value) => Math.round(value * SCALE)));
  const found = await page.run(PAINTED(bytes.toString("base64"), boxes));
  expect(found.width === SCALE * width && found.height === SCALE * height, `${id}: the PNG has ${found.width} × ${found.height} pixels, the SVG ${width} × ${height}`);
  expect(found.painted > 0.01 && found.colours > 8, `${id}: ${found.painted} of the PNG is painted, in ${found.colours} colours`);
  expect(found.boxes.every((count) => count > 2), `${id}: the PNG lacks ${drawn.texts.filter(({ own }) => own).filter((_, at) => found.boxes[at] <= 2).map((each) => each.words)}`);
}

async function csv({ page, expect, id, path }) {
  const rows = records(readFileSync(path, "utf8"));
  const table = await page.run(TABLE(id));
  expect(rows.every((row) => row.length === rows[0].length), `${id}: the rows of the CSV have ${[...new Set(rows.map((row) => row.length))]} cells`);
  expect(JSON.stringify(rows[0]) === JSON.stringify(table.head), `${id}: the CSV's columns are ${rows[0]}`);
  expect(rows.length - 1 === table.all, `${id}: the CSV has ${rows.length - 1} rows, the figure ${table.all}`);
  // A small report may have no finding for the helper's case.
  expect(table.all > 0 || id === "choose/helper", `${id}: the table is empty`);
  // A number in the CSV is the number of the table, before it was rounded.
  const number = (text) => Number(text.replace("−", "-").replaceAll("\u202f", ""));
  rows[1]?.forEach((cell, at) => {
    const shown = number(table.first[at] || "x");
    if (cell !== "" && !Number.isNaN(shown)) expect(Math.abs(Number(cell) - shown) <= 0.01 * Math.abs(shown) + 1e-12, `${id}: the CSV has ${cell} where the table has ${table.first[at]}`);
  });
}

export default async function ({ page, hand, browser, expect, ids, shots }) {
  const folder = mkdtempSync(join(tmpdir(), "layernorm-downloads-"));
  for (const id of ids) {
    const seen = await page.run(SEEN(id));
    const paths = {};
    for (const [at, kind] of seen.saves.entries()) {
      const into = mkdtempSync(join(folder, "one-"));
      // Real clicks: a page may not download several files without any.
      paths[kind] = await page.download(into, () => hand.click(`[id="at:${id}"] .save:nth-of-type(${at + 1})`));
      expect(basename(paths[kind]) === `${id.replace("/", "-")}.${kind.toLowerCase()}`, `${id}: the file's name is ${basename(paths[kind])}`);
      if (shots) {
        mkdirSync(join(shots, "downloads"), { recursive: true });
        copyFileSync(paths[kind], join(shots, "downloads", basename(paths[kind])));
      }
    }
    if (paths.SVG) await png({ page, expect, id, drawn: await svg({ browser, expect, id, seen, path: paths.SVG }), path: paths.PNG });
    if (paths.CSV) await csv({ page, expect, id, path: paths.CSV });
  }
  rmSync(folder, { recursive: true, force: true });
}
