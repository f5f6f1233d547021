// Chapter backward: the gradient in steps, and a learner's gradient against finite differences.
const GRADIENT = '[id="at:backward/gradient"]';
const DIFFERENCE = '[id="at:backward/difference"]';
const EXERCISE = (id) => `[data-chapter="backward"] [data-exercise="${id}"]`;

export default async function ({ page, hand, expect }) {
  const cell = (figure, row, column) => `${figure} .numbers-edit tbody tr:nth-child(${row}) td:nth-of-type(${column}) input`;
  const fill = async (figure, row, values) => { for (const [at, value] of values.entries()) await hand.type(cell(figure, row, at + 1), String(value)); };
  const solve = async (id, values, words) => {
    for (const [at, value] of values.entries()) await hand.type(`${EXERCISE(id)} label:nth-of-type(${at + 1}) input`, String(value));
    await hand.click(`${EXERCISE(id)} .check`);
    await hand.until(`${EXERCISE(id)} .feedback`, words);
  };
  const check = async (words) => {
    await hand.click(`${EXERCISE("silent")} .check`);
    await hand.until(`${EXERCISE("silent")} .feedback`, words);
  };

  // The steps open and close.
  await hand.click('[data-chapter="backward"] .derive:nth-of-type(3) summary');
  expect(!(await page.run(`document.querySelector('[data-chapter="backward"] .derive:nth-of-type(3)').open`)), "a step does not close");
  await hand.click('[data-chapter="backward"] .derive:nth-of-type(3) summary');

  // Four pictures; what is removed has a sum of zero afterwards.
  const panel = (number) => `${GRADIENT} .gradient-panels > div:nth-child(${number}) p`;
  await hand.until(panel(1), /sum: 3sum of products with x̂: 2\.8/);
  await hand.until(panel(2), /sum: 0sum of products with x̂: 2\.8/);
  await hand.until(panel(4), /sum: 0sum of products with x̂: 0$/);
  await hand.click(`${GRADIENT} .segments label:nth-child(3) input`);
  await hand.until(`${GRADIENT} .readout`, /Σ dx = 0.*Σ dx · x̂ = 0\.\d.*remains: ε\/\(σ² \+ ε\) = 0\.286/);
  await check(/✕.*Set it to 0/);
  await hand.click(`${GRADIENT} .segments label:nth-child(1) input`);
  await hand.until(`${GRADIENT} .readout`, /nothing of the x̂/);

  await check(/✕.*every γ to 1/);
  await hand.type(cell(GRADIENT, 3, 3), "1");
  await check(/✕.*Step 3 leaves something/);
  await fill(GRADIENT, 2, [0, 0, 0, 0]);
  await hand.until(panel(1), /sum: 0/);
  await check(/✕.*too easy/);
  // All x equal and ε = 0: an error in words, not NaN.
  await fill(GRADIENT, 1, [2, 2, 2, 2]);
  await hand.until(`${GRADIENT} .trouble`, /divides by zero/);
  await fill(GRADIENT, 1, [1, 2, 4, 5]);
  await fill(GRADIENT, 2, [4, 5, 7, 8]);
  await hand.until(`${GRADIENT} .readout`, /Σ dx = 0/);
  await check(/✓ Correct/);

  // Finite differences: the error grows with a step that is too small.
  await hand.until(`${DIFFERENCE} .readout`, /largest error .*×10⁻⁶/);
  expect(await page.run(`document.querySelector('${DIFFERENCE} .gradient-result').hidden`), "the gradients are shown before they are asked for");
  await hand.slide(`${DIFFERENCE} input[type=range]`, 0.05);
  await page.until(`Number(document.querySelector('${DIFFERENCE} .readout').textContent.match(/largest error ([\\d.]+)tolerance/)?.[1]) > 0.005`, "a larger error of a tiny step");
  await hand.click(`${DIFFERENCE} input[type=checkbox]`);
  expect((await page.run(`document.querySelectorAll('${DIFFERENCE} .gradient-result .agrees').length`)) === 4, "not all differences are within the tolerance");
  await hand.slide(`${DIFFERENCE} input[type=range]`, 0.65);

  // The learner's gradient: every known mistake is named.
  const mistakes = [
    [[0.8056, 0.0463, -0.287, 0.4352], /mean term is missing/],
    [[0.4167, -0.25, -0.5833, 0.4167], /x̂ term is missing/],
    [[0.6667, 0, -0.3333, 0.6667], /Both means are missing/],
    [[1.6667, -0.6111, -1.6111, 0.5556], /factor rstd is missing/],
    [[5, -1.8333, -4.8333, 1.6667], /multiplied by σ/],
    [[0.3889, -0.0926, -0.4259, 0.1296], /γ is missing/],
    [[0.7778, -0.0926, -0.4259, 0.1296], /γ comes first/],
    [[0.451, -0.1864, -0.4752, 0.2105], /unbiased variance/],
    [[-0.5556, 0.2037, 0.537, -0.1852], /sign is the opposite/],
    [[0.3, -0.2037, -0.537, 0.1852], /dx₁ differs from the finite differences.*sum to/],
  ];
  for (const [values, words] of mistakes) await solve("your-gradient", values, words);
  await solve("your-gradient", [0.556, -0.204, -0.537, 0.185], /✓ Correct.*central differences/);
  // Another example has another answer.
  await fill(DIFFERENCE, 2, [0, 0, 0, 3]);
  await solve("your-gradient", [0.556, -0.204, -0.537, 0.185], /✕/);
  await fill(DIFFERENCE, 2, [1, 0, -1, 2]);
  await solve("your-gradient", [0.556, -0.204, -0.537, 0.185], /✓ Correct/);

  await solve("parameters", [2.5, 0, 1.5, 2], /✕.*Wrong axis/);
  await solve("parameters", [0.75, 0.5, 0.25, 1.5], /✕.*means over the rows/);
  await solve("parameters", [1.5, 1, 1.5, 1], /✕.*factor x̂/);
  await solve("parameters", [1.5, 1, 0.5, 3], /✓ Correct/);
}
