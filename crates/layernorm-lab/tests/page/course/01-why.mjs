// Chapter why: saturation, vanishing and layer norm in the deep network; the step of layer 1; three exercises.
const layers = '[id="at:why/layers"]';
const drift = '[id="at:why/drift"]';
const exercise = (id) => `[data-chapter="why"] [data-exercise="${id}"]`;

export default async function ({ page, hand, expect }) {
  // The numbers beside the histograms, row by row, and the histograms.
  const read = async () => JSON.parse(await page.run(`JSON.stringify({ numbers: [...document.querySelectorAll(${JSON.stringify(`${layers} .reading`)})].map((node) => node.textContent), hills: [...document.querySelectorAll(${JSON.stringify(`${layers} .hill`)})].map((node) => node.getAttribute("d")) })`));
  const wait = (what, test) => page.until(`(() => { const cells = [...document.querySelectorAll(${JSON.stringify(`${layers} .reading`)})].map((node) => Number(node.textContent.replace(/ %|< /g, "").replace(/×10⁻(.)/, (_, power) => "e-" + "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(power)).replace(/^10⁻(.)/, (_, power) => "1e-" + "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(power)))); return cells.length === 20 && (${test}); })()`, what);

  await page.run(`document.querySelector(${JSON.stringify(layers)}).scrollIntoView()`);
  await wait("the first histograms", "cells[16] > 0.2 && cells[17] < 1");
  await hand.click(`${exercise("saturate")} .check`);
  await hand.until(`${exercise("saturate")} .feedback`, /✕.*Go on/);
  // Small weights: the last layer vanishes, and so does the gradient.
  await hand.slide(`${layers} input[type=range]`, 0);
  await wait("vanishing activations", "cells[16] < 1e-4 && cells[3] < 1e-3");
  await hand.click(`${exercise("saturate")} .check`);
  await hand.until(`${exercise("saturate")} .feedback`, /✕.*vanish/);
  // Large weights: saturated, the gradient explodes.
  await hand.slide(`${layers} input[type=range]`, 1);
  await wait("saturation", "cells[17] > 50 && cells[18] < 0.2 && cells[3] > 2");
  const loud = await read();
  await hand.click(`${layers} input[role=switch]`);
  await wait("layer norm in range", "cells[17] < 6 && cells[16] > 0.5 && cells[3] > 0.3 && cells[3] < 3");
  const calm = await read();
  expect(loud.hills.join() !== calm.hills.join(), "layer norm does not change the histograms");
  await hand.click(`${exercise("saturate")} .check`);
  await hand.until(`${exercise("saturate")} .feedback`, /✕ Layer norm is on/);
  // With layer norm the scale cancels.
  await hand.slide(`${layers} input[type=range]`, 0.2);
  await hand.until(`${layers} output`, /0\.2/);
  await hand.key("ArrowRight");
  await wait("layer norm at a small scale", "cells[17] < 6 && cells[16] > 0.5 && cells[3] > 0.3 && cells[3] < 3");
  expect((await read()).numbers[16] === calm.numbers[16], "with layer norm, the spread depends on the scale");
  await hand.click(`${layers} input[role=switch]`);
  await hand.slide(`${layers} input[type=range]`, 0.95);
  await wait("saturation again", "cells[17] > 50");
  await hand.click(`${exercise("saturate")} .check`);
  await hand.until(`${exercise("saturate")} .feedback`, /✓ Correct/);

  for (const [wrong, why] of [["0.0001", /layer 4/], ["0.5", /multiply; they do not add/], ["0.02", /not divided/], ["0.1", /layer 1/], ["x", /“x” is not a number/], ["10^-4", /layer 4/], ["10⁻⁶", /five factors/]]) {
    await hand.type(`${exercise("vanish")} input`, wrong);
    await hand.click(`${exercise("vanish")} .check`);
    await hand.until(`${exercise("vanish")} .feedback`, why);
  }
  await hand.type(`${exercise("vanish")} input`, "10⁻⁵");
  await hand.key("Enter");
  await hand.until(`${exercise("vanish")} .feedback`, /✓ Correct/);

  for (const [option, why] of [[1, /weights stay/], [3, /without layer norm too/], [4, /never mixes samples/], [2, /✓ Correct/]]) {
    await hand.click(`${exercise("cancel")} .option:nth-child(${option}) input`);
    await hand.until(`${exercise("cancel")} .feedback`, why);
  }

  // No step moves nothing; a large one moves the inputs, but not each sample's spread with layer norm.
  await hand.slide(`${drift} input[type=range]`, 0);
  await page.until(`[...document.querySelectorAll(${JSON.stringify(`${drift} .why-panels .remark`)})].filter((node) => /moved by 0 standard/.test(node.textContent)).length === 2`, "no shift without a step");
  await hand.slide(`${drift} input[type=range]`, 1);
  await page.until(`[...document.querySelectorAll(${JSON.stringify(`${drift} .why-panels .remark`)})].every((node) => !/moved by 0 standard/.test(node.textContent))`, "a shift");
  const remarks = await page.run(`[...document.querySelectorAll(${JSON.stringify(`${drift} .why-panels .remark`)})].map((node) => node.textContent)`);
  expect(/sample: 1 before, 1 after/.test(remarks[1]), `layer norm's samples have other spreads: ${remarks[1]}`);
  expect(/ to .* before, .* to .* after/.test(remarks[0]), `without a norm: ${remarks[0]}`);
}
