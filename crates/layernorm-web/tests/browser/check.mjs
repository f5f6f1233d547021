// Opens a page with the module in a headless browser, from disk, and compares the bits of random cases with the native ones.
//   node check.mjs BROWSER FOLDER SEED CASES    FOLDER has web-cases.txt: the native hash of each case, then the checksum
//   node check.mjs BROWSER --find               check only whether there is this browser: chromium or firefox
// Exit status: 0 on success, 1 with what differs, 77 if there is no such browser ($CHROMIUM or $FIREFOX, or on the path).
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as chromium from "../../../layernorm-lab/tests/page/browser.mjs";
import * as firefox from "../../../layernorm-lab/tests/page/firefox.mjs";

const [name, folder, seed, count] = process.argv.slice(2);
const { find, start } = { chromium, firefox }[name];
const program = find();
if (!program) process.exit(77);
if (folder === "--find") process.exit(0);

const here = (path) => new URL(`../../${path}`, import.meta.url);
const engine = readFileSync(here("js/engine.js"), "utf8");
const module = readFileSync(here("assets/layernorm.wasm")).toString("base64");
const golden = readFileSync(join(folder, "web-cases.txt"), "utf8").trim().split("\n");
const checksum = golden.pop();

// The worker answers { call, options } with { result } or { error }; "speed" measures steps of training.
const WORKER = `${engine}
const loaded = new Promise((done) => { self.onmessage = ({ data }) => { if (data.bytes) done(Engine.load(data.bytes)); else answer(data); }; });
async function answer({ id, call, args }) {
  const engine = await loaded;
  try { self.postMessage({ id, result: call === "speed" ? speed(engine, ...args) : engine[call](...args) }); }
  catch (error) { self.postMessage({ id, error: error.message }); }
}
function speed(engine, network, norm) {
  const count = 320, x = new Float32Array(count * 196).map((_, i) => (i * i % 255) / 255), labels = new Uint8Array(count).map((_, i) => i % 10);
  const trainer = engine.trainer({ network, norm, layers: [64], hidden: 64, steps: 14, inputs: 14, classes: 10, optimizer: "adam", learningRate: 0.001, batch: 32, seed: 1, data: { x, labels, testX: x, testLabels: labels } });
  const steps = network === "mlp" ? 25 : 2;
  trainer.step(4 * steps);
  let best = 0;
  for (let round = 0; round < 8; round++) { const before = performance.now(); trainer.step(steps); best = Math.max(best, steps / (performance.now() - before) * 1000); }
  const { finite } = trainer.step(1);
  trainer.free();
  return { best, finite };
}`;

// Scripts run and the module is compiled; nothing can be fetched.
const POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:";
const escaped = (text) => JSON.stringify(text).replaceAll("<", "\\u003c");
const page = `<!doctype html><html lang="en" data-ready><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><title>layernorm-web</title></head><body><script>
const bytes = Uint8Array.from(atob("${module}"), (letter) => letter.charCodeAt(0));
const worker = new Worker(URL.createObjectURL(new Blob([${escaped(WORKER)}], { type: "text/javascript" })));
const waiting = new Map();
worker.onmessage = ({ data }) => waiting.get(data.id)(data);
worker.onerror = (event) => console.error("the worker: " + event.message);
worker.postMessage({ bytes });
const complaints = [];
addEventListener("error", (event) => complaints.push(event.message));
addEventListener("unhandledrejection", (event) => complaints.push(String(event.reason)));
function complained() { return complaints; }
let last = 0;
function ask(call, ...args) {
  return new Promise((done) => { last += 1; waiting.set(last, done); worker.postMessage({ id: last, call, args }); });
}
</script></body></html>`;
const file = join(folder, `web-page-${name}.html`);
writeFileSync(file, page);

const failures = [];
const browser = await start(program);
try {
  const tab = await browser.open(pathToFileURL(file).href);
  const ask = async (...words) => {
    const { result, error } = await tab.run(`ask(${words.map((word) => JSON.stringify(word)).join(", ")})`);
    if (error) throw new Error(error);
    return result;
  };
  const different = [];
  // Small enough parts for the driver's patience.
  for (let first = 0; first < +count; first += 500) {
    const hashes = await ask("cases", +seed, first, Math.min(500, count - first));
    hashes.forEach((hash, at) => { if (hash !== golden[first + at]) different.push(first + at); });
  }
  console.log(`${count} cases, ${different.length} with other bits than the native library`);
  if (different.length) failures.push(`cases with other bits: ${different.slice(0, 20).join(", ")}${different.length > 20 ? ", …" : ""}`);
  const found = await ask("checksum", +seed, +count);
  if (found !== checksum) failures.push(`the checksum: expected ${checksum}, found ${found}`);
  const refused = await tab.run(`ask("norm", { kind: "layer", x: new Float32Array(4), shape: [2, 4] })`);
  const expected = "norm: x: expected 8 elements for [2, 4], found 4";
  if (refused.error !== expected) failures.push(`a wrong shape: expected ${expected}, found ${JSON.stringify(refused)}`);
  // Arrays of both widths, there and back.
  const made = await tab.run(`ask("evaluate", { formula: "x / r", values: { x: new Float32Array([1, 2]) }, rows: { r: new Float64Array([3]) }, width: 2, double: true }).then(({ result, error }) => error ?? [result.y.constructor.name, ...result.y])`);
  if (JSON.stringify(made) !== JSON.stringify(["Float64Array", 1 / 3, 2 / 3])) failures.push(`a formula: found ${JSON.stringify(made)}`);
  // Measured, not judged: other programs may be using the processor.
  for (const [network, norm] of [["mlp", "none"], ["mlp", "batch"], ["mlp", "layer"], ["mlp", "rms"], ["lstm", "none"], ["lstm", "batch"], ["lstm", "layer"], ["lstm", "rms"]]) {
    const { best, finite } = await ask("speed", network, norm);
    console.log(`${network}, ${norm}: ${best.toFixed(0)} steps per second`);
    if (!finite) failures.push(`${network}, ${norm}: the numbers are not finite`);
  }
  // What Chromium's console says, and what the page itself noticed, in any browser.
  const complaints = [...(tab.complaints ?? []), ...(await tab.run("complained()"))];
  if (complaints.length) failures.push(`the console says ${complaints.join(" | ")}`);
} catch (error) {
  failures.push(error.message);
}
await browser.close();
failures.forEach((failure) => console.log(`FAILED  ${failure}`));
process.exit(failures.length ? 1 : 0);
