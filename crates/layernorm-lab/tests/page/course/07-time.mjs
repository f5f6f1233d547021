// In time: the parts of the cell, the run over time, the statistics by step, and the exercises.
const at = (name) => `[id="at:time/${name}"]`;
const exercise = (id) => `[data-chapter="time"] [data-exercise="${id}"]`;
const slider = (name, place) => `${at(name)} .controls label:nth-of-type(${place}) input`;

export default async function ({ page, hand, expect }) {
  // Pointing shows a part for the moment, a click keeps it, keys move on.
  const equation = () => hand.text(`${at("cell")} .equation`);
  const lit = () => page.run(`document.querySelector('${at("cell")} .part.lit').dataset.part`);
  const first = await equation();
  expect(first.includes("LN") && first.includes("γ"), `the equation at first is ${first}`);
  await hand.hover(`${at("cell")} [data-part="uh"] rect`);
  expect((await lit()) === "uh" && /previous state/.test(await equation()), "pointing at U does not show its equation");
  await hand.hover(`${at("cell")} figcaption`);
  expect((await lit()) === "lnx", "the chosen part does not return");
  await hand.click(`${at("cell")} [data-part="gates"] rect`);
  expect((await lit()) === "gates" && /σ/.test(await equation()), "a click on a gate does not keep it");
  await hand.focus(`${at("cell")} input:checked`);
  await hand.key("ArrowRight");
  expect((await lit()) === "c" && /carried to the next step/i.test(await equation()), "an arrow key does not move to the cell state");
  await page.until('location.hash.includes("time.cell.part=c")', "the part in the hash");

  // Two biases.
  const told = (id) => hand.text(`${exercise(id)} .feedback`);
  const option = (place) => hand.click(`${exercise("biases")} .option:nth-of-type(${place}) input`);
  for (const [place, pattern] of [[1, /grows by 2/], [3, /own normalized term/], [4, /memory/]]) {
    await option(place);
    expect(pattern.test(await told("biases")), `option ${place} says ${await told("biases")}`);
  }
  await option(2);
  expect((await told("biases")).startsWith("✓"), "the right change is not accepted");

  // The run: what happens at other scales.
  const shown = async () => (await hand.text(`${at("run")} .readout`)) ?? "";
  const values = async () => [...(await shown()).matchAll(/(?:no|layer) norm ([\d.×⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/g)].map(([, text]) => Number(text));
  const changed = async (old) => page.until(`(({ textContent, ariaBusy }) => textContent !== ${JSON.stringify(old)} && ariaBusy !== "true")(document.querySelector('${at("run")} .readout'))`, "another run");
  await hand.until(`${at("run")} .readout`, /step 100/);
  const [, , saturated] = await values();
  expect(saturated > 40, `with weights × 5, ${saturated} % of the gates are saturated`);
  const layer = (await values())[1];
  await hand.click(`${exercise("fade")} .check`);
  await hand.until(`${exercise("fade")} .feedback`, /other direction/);
  let old = await shown();
  await hand.slide(slider("run", 1), 0.5);
  await changed(old);
  await hand.click(`${exercise("fade")} .check`);
  await hand.until(`${exercise("fade")} .feedback`, /Not yet/);
  old = await shown();
  await hand.slide(slider("run", 1), 0.05);
  await changed(old);
  old = await shown();
  await hand.slide(slider("run", 2), 0.05);
  await changed(old);
  const [faded, still] = await values();
  expect(faded < 0.05 && Math.abs(still / layer - 1) < 0.05, `small scales give ${faded} and, with layer norm, ${still} after ${layer}`);
  await hand.click(`${exercise("fade")} .check`);
  await hand.until(`${exercise("fade")} .feedback`, /^✓/);
  old = await shown();
  await hand.focus(slider("run", 3));
  await hand.key("End");
  await changed(old);
  await hand.until(`${at("run")} .readout`, /step 200/);
  expect((await page.run(`document.querySelectorAll('${at("run")} .plot').length`)) === 4, "there are not four plots");
  await hand.click(`${at("run")} .legend .key`);
  expect((await page.run(`document.querySelectorAll('${at("run")} .series').length`)) === 4, "hiding a network leaves its curves");
  await hand.click(`${at("run")} .legend .key`);
  await hand.click(`${at("run")} .data summary`);
  await page.until(`document.querySelectorAll('${at("run")} .data tbody tr').length === 200`, "a table with all steps");

  // Batch norm's statistics.
  const curve = () => page.run(`document.querySelector('${at("steps")} .series .line')?.getAttribute("d") ?? ""`);
  await page.until(`document.querySelectorAll('${at("steps")} .series').length === 3`, "the statistics by step");
  const before = await curve();
  await hand.focus(slider("steps", 1));
  await hand.key("ArrowRight");
  const another = await curve();
  expect(another !== before, "another unit has the same curve");
  await hand.slide(slider("steps", 2), 0);
  await page.until(`document.querySelector('${at("steps")} .series .line').getAttribute("d") !== ${JSON.stringify(another)}`, "a small batch");
  for (const [answer, pattern] of [["", /Answer first/], ["1024", /one set for all steps/], ["7168", /Half of it/], ["3584", /four numbers per unit/], ["5", /Not yet/]]) {
    await hand.type(`${exercise("stored")} input`, answer || " ");
    await hand.click(`${exercise("stored")} .check`);
    await hand.until(`${exercise("stored")} .feedback`, pattern);
  }
  await hand.type(`${exercise("stored")} input`, "14336");
  await hand.key("Enter");
  await hand.until(`${exercise("stored")} .feedback`, /^✓/);
  expect((await page.run(`document.querySelectorAll('[data-chapter="time"] .exercise[data-solved]').length`)) === 3, "not all exercises are solved");
}
