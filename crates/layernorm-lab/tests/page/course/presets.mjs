// What the playground's presets do, for the sentences beside them:
//   node presets.mjs report.html [seeds] [name of one preset]
// Prints training loss / test accuracy in % after each tenth of the steps.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { find, start } from "../browser.mjs";

const [file, seeds = "3", only = ""] = process.argv.slice(2);
const browser = await start(find());
const page = await browser.open(pathToFileURL(resolve(file)).href);
const presets = (await page.run("lab.play.presets.map(({ name, set }) => [name, Number(set.stop)])")).filter(([name]) => name.startsWith(only));
await page.run("window.worker = lab.worker(); 0");
for (const [name, steps] of presets) {
  console.log(`${name}, ${steps} steps`);
  for (let seed = 1; seed <= Number(seeds); seed += 1)
    for (const at of [0, 1]) {
      const made = `lab.play.preset(lab.play.presets.find(({ name }) => name === ${JSON.stringify(name)}), ${seed})[${at}]`;
      const [number, norm] = await page.run(`(async () => { const options = ${made}; return [await worker.ask("train", { ...options, data: "digits", ...(options.network === "lstm" ? { tested: 200 } : {}) }), options.norm]; })()`);
      const seen = [];
      for (let part = 0; part < 10; part += 1) {
        const { loss, test } = await page.run(`worker.ask("advance", { number: ${number}, count: ${steps / 10}, milliseconds: 1e9, want: { test: true } })`);
        seen.push(`${loss.toFixed(2)}/${(100 * test.accuracy).toFixed(1)}`);
      }
      console.log(`  seed ${seed}  ${norm.padEnd(6)} ${seen.join("  ")}`);
      await page.run(`worker.ask("free", { number: ${number} })`);
    }
}
await browser.close();
