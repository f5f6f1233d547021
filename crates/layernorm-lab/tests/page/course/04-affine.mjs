// Chapter affine: γ, β and ε.
const AFFINE = '[id="at:affine/affine"]';
const EPSILON = '[id="at:affine/epsilon"]';
const EXERCISE = (id) => `[data-chapter="affine"] [data-exercise="${id}"]`;
const ROW = (number) => `${AFFINE} .affine-rows tbody tr:nth-child(${number})`;

export default async function ({ page, hand, expect }) {
  const number = async (query, pattern) => Number((await hand.text(query)).match(pattern)?.[1].replace("−", "-"));
  const solve = async (id, values, words) => {
    for (const [at, value] of values.entries()) await hand.type(`${EXERCISE(id)} label:nth-of-type(${at + 1}) input`, value);
    await hand.click(`${EXERCISE(id)} .check`);
    await hand.until(`${EXERCISE(id)} .feedback`, words);
  };

  // γ and β give every row the same mean and spread.
  await hand.until(ROW(1), /row A2\.40\.5013\.6/);
  await hand.slide(`${AFFINE} .control:nth-of-type(2) input`, 0.75);
  await hand.slide(`${AFFINE} .control:nth-of-type(1) input`, 0.25);
  const sliders = await page.run(`[...document.querySelectorAll('${AFFINE} input[type=range]')].map((input) => Number(input.value))`);
  expect(Math.abs(sliders[0] - 0.5) < 0.05 && Math.abs(sliders[1] - 1.5) < 0.1, `the sliders are at ${sliders}`);
  await page.until(`[1, 2, 3].every((row) => { const cells = [...document.querySelectorAll(\`${AFFINE} .affine-rows tbody tr:nth-child(\${row}) td\`)].map((cell) => Number(cell.textContent.replace("−", "-"))); return Math.abs(cells[2] - ${sliders[1]}) < 0.01 && Math.abs(cells[3] - ${sliders[0]}) < 0.01; })`, "the same mean and deviation in all rows");

  // The norm undone for row A, and only for it.
  await hand.click(`${AFFINE} .affine-undo`);
  await hand.until(ROW(1), /✓ undone/);
  expect(!/undone/.test(await hand.text(ROW(2))) && !/undone/.test(await hand.text(ROW(3))), "another row is undone too");
  await page.until('location.hash.includes("affine.affine.gain=0.5")', "γ in the hash");
  await hand.click(`${AFFINE} .key:nth-child(2)`);
  expect((await page.run(`document.querySelectorAll('${AFFINE} .hill').length`)) === 4, "row B is not hidden");
  await hand.click(`${AFFINE} .key:nth-child(2)`);

  // Row C by hand: feedback says what is off; then with keys.
  const row = `${EXERCISE("row-c")}`;
  await hand.click(`${row} .check`);
  await hand.until(`${row} .feedback`, /undoes row A/);
  await hand.click(`${AFFINE} .affine-start`);
  await hand.until(ROW(1), /3\.6/);
  await hand.click(`${row} .check`);
  await hand.until(`${row} .feedback`, /at their start/);
  await hand.focus(`${AFFINE} .control:nth-of-type(2) input`);
  for (let press = 0; press < 60; press += 1) await hand.key("ArrowRight");
  await hand.click(`${row} .check`);
  await hand.until(`${row} .feedback`, /✕.*γ is too large/);
  expect(!/β is/.test(await hand.text(`${row} .feedback`)), "β = 0.6 is called wrong");
  await hand.focus(`${AFFINE} .control:nth-of-type(1) input`);
  for (let press = 0; press < 70; press += 1) await hand.key("ArrowLeft");
  await hand.until(ROW(3), /✓ undone/);
  await hand.click(`${row} .check`);
  await hand.until(`${row} .feedback`, /✓ Correct.*row C is back/);

  // ε: the measured deviation is the formula's; the point can be dragged.
  await hand.until(`${EPSILON} .readout`, /measured 0\.9535by the formula 0\.9535/);
  await hand.slide(`${EPSILON} .control:nth-of-type(1) input`, 0.5);
  await hand.until(`${EPSILON} .readout`, /σ² .*measured 0\.30\d+by the formula 0\.30\d+/);
  await hand.slide(`${EPSILON} .control:nth-of-type(2) input`, 0.2);
  await page.until(`/measured (0\\.9\\d*|1)by/.test(document.querySelector('${EPSILON} .readout').textContent)`, "a small ε has no effect");
  const before = await hand.text(`${EPSILON} .control:nth-of-type(1) output`);
  await hand.drag(`${EPSILON} .plot`, [0.5, 0.5], [0.3, 0.5]);
  await page.until(`document.querySelector('${EPSILON} .control:nth-of-type(1) output').textContent !== ${JSON.stringify(before)}`, "a dragged point");
  expect((await number(`${EPSILON} .readout`, /measured ([\d.]+)/)) <= 1, "the deviation is over 1");

  await solve("undo", ["2.582", "4"], /✕.*unbiased/);
  await solve("undo", ["5", "4"], /✕.*variance here/);
  await solve("undo", ["2.236", "-4"], /✕.*wrong sign/);
  await solve("undo", ["4", "2.236"], /✕.*swapped/);
  await solve("undo", ["2.236", "3"], /✕.*β must be the mean/);
  await solve("undo", ["2.236", "4"], /✓ Correct/);
  for (const [option, words] of [[1, /Of which row/], [2, /32 equations/], [4, /They are learned/], [3, /✓ Correct/]]) {
    await hand.click(`${EXERCISE("all-rows")} .option:nth-child(${option}) input`);
    await hand.until(`${EXERCISE("all-rows")} .feedback`, words);
  }
  await solve("small", ["1"], /✕.*without ε/);
  await solve("small", ["0.990"], /✕.*inside the root/);
  await solve("small", ["0.0909"], /✕.*Take the root/);
  await solve("small", ["0.302"], /✓ Correct/);
}
