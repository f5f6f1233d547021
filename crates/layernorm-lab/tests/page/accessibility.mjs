// Checks a report with axe-core, in every theme and size, and with Lighthouse.
//   node accessibility.mjs report.html NODE_MODULES    NODE_MODULES has axe-core and lighthouse
//   node accessibility.mjs URL NODE_MODULES            what `layernorm serve` prints: axe-core only
// Exit status: 0 on success, 1 with a list of failures, 77 if there is no Chromium ($CHROMIUM, or on the path).
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { find, start } from "./browser.mjs";

const LEAST = 95; // of Lighthouse's 100 points
const [file, modules] = process.argv.slice(2);
const served = /^http:/.test(file);
const address = served ? file : pathToFileURL(resolve(file)).href;
const program = find();
if (!program) {
  console.log("Chromium not found");
  process.exit(77);
}
const axe = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");
const failures = [];

const LANDMARKS = ["banner-is-top-level", "complementary-is-top-level", "contentinfo-is-top-level", "main-is-top-level", "no-duplicate-banner", "no-duplicate-contentinfo", "no-duplicate-main", "one-main", "unique"];
const WHOLE = ["bypass", "document-title", "html-has-lang", "html-lang-valid", "page-has-heading-one", "region", "skip-link", ...LANDMARKS.map((name) => `landmark-${name}`)];

// axe's rules, those for good practice included, over the whole document with every chapter and figure drawn.
async function violations(browser, theme, width) {
  const page = await browser.open(`${address}#theme=${theme}`, {
    width, height: 900, mobile: width < 600, features: [{ name: "prefers-reduced-motion", value: "reduce" }],
  });
  await page.run("lab.drawAll()");
  await page.run('document.querySelectorAll("details").forEach((one) => { one.open = true; })');
  await page.until('!document.querySelector("[aria-busy=true]")', "figures that are computed");
  await page.run(`${axe}; 0`);
  const seen = new Map();
  const look = async (context, options) => {
    const found = await page.run(`axe.run(${context}, { resultTypes: ["violations"], ...${JSON.stringify(options)} }).then(({ violations }) => violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.map((node) => ({ target: node.target.join(" "), why: node.failureSummary })) })))`);
    for (const each of found) seen.set(each.id, [...(seen.get(each.id) ?? []), ...each.nodes.map((node) => ({ ...node, help: each.help, impact: each.impact }))]);
  };
  // Rules about the page as a whole, such as those on landmarks and skip links, see the whole document. All others are about single
  // elements and are checked part by part: with every figure and table, a call for the whole document would take minutes.
  await look("document", { runOnly: WHOLE });
  const parts = await page.run('[...document.querySelectorAll("main > *, body > :not(script, template, #page), #page > :not(main)")].map((part, at) => { part.setAttribute("data-axe", at); return at; })');
  const rest = { rules: Object.fromEntries(WHOLE.map((rule) => [rule, { enabled: false }])) };
  for (const part of parts) await look(`'[data-axe="${part}"]'`, rest);
  await page.close();
  return seen;
}

const browser = await start(program, { patience: 600_000 });
for (const theme of ["light", "dark"])
  for (const width of [360, 1280]) {
    // A served page adds one panel: each theme and each size once.
    if (served && (theme === "light") === (width === 360)) continue;
    const seen = await violations(browser, theme, width);
    console.log(`axe-core, ${theme}, ${width} pixels: ${seen.size} rules violated`);
    for (const [id, nodes] of seen)
      failures.push(`${theme}, ${width}: ${id} (${nodes[0].impact}): ${nodes[0].help}, ${nodes.length} times\n${nodes.slice(0, 4).map(({ target, why }) => `    ${target}\n      ${why.replaceAll("\n", "\n      ")}`).join("\n")}`);
  }
await browser.close();

// Lighthouse opens only what a server sends.
async function lighthouse() {
  const server = createServer((request, response) => {
    const found = request.url === "/";
    response.writeHead(found ? 200 : 404, { "content-type": "text/html; charset=utf-8" });
    response.end(found ? readFileSync(file) : "");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const folder = mkdtempSync(join(tmpdir(), "layernorm-lighthouse-"));
  const output = join(folder, "result.json");
  const flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking";
  const child = spawn(process.execPath, [
    join(modules, "lighthouse", "cli", "index.js"), `http://127.0.0.1:${server.address().port}/`, "--quiet", "--output=json", `--output-path=${output}`,
    "--only-categories=accessibility,best-practices", `--chrome-flags=${flags}`, "--no-enable-error-reporting", "--max-wait-for-load=60000",
  ], { stdio: "inherit", env: { ...process.env, CHROME_PATH: program } });
  const status = await new Promise((done) => child.once("exit", done));
  server.close();
  if (status) failures.push(`Lighthouse ended with status ${status}`);
  else {
    const { categories, audits } = JSON.parse(readFileSync(output, "utf8"));
    for (const { title, score, auditRefs } of Object.values(categories)) {
      const points = Math.round(score * 100);
      console.log(`Lighthouse, ${title}: ${points}`);
      const bad = auditRefs.map(({ id }) => audits[id]).filter((audit) => audit.score !== null && audit.score < 1);
      for (const audit of bad) console.log(`    ${audit.id}: ${audit.title}`);
      if (!(points >= LEAST)) failures.push(`Lighthouse, ${title}: expected at least ${LEAST}, found ${points}`);
    }
  }
  rmSync(folder, { recursive: true, force: true });
}
if (!served) await lighthouse();
if (failures.length) console.log(failures.map((failure) => `FAILED  ${failure}`).join("\n"));
process.exit(failures.length ? 1 : 0);
