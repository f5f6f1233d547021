// Chapter axes: what an output uses, what an edit moves, a batch of one, and four exercises.
const figure = '[id="at:axes/both"]';
const exercise = (id) => `[data-chapter="axes"] [data-exercise="${id}"]`;
const output = (norm, row, column) => `${figure} table[aria-label="Output of ${norm}"] tbody tr:nth-child(${row}) td:nth-of-type(${column})`;
const input = (row, column) => `${figure} input[aria-label="sample ${row}, unit ${column}"]`;

export default async function ({ page, hand, expect }) {
  await hand.until(output("batch norm", 2, 2), /1\.397/);
  const used = () => page.run(`[...document.querySelectorAll(${JSON.stringify(`${figure} .axes-input td`)})].map((td, at) => (td.classList.contains("used") ? at : -1)).filter((at) => at >= 0).join()`);
  // An output shows the numbers that it uses: its row or its column.
  await hand.hover(output("layer norm", 2, 3));
  await hand.until(`${figure} .explain`, /Layer norm, sample 2, unit 3: mean and variance of the 4 units of sample 2/);
  const [row, column] = [await used(), (await hand.hover(output("batch norm", 2, 3)), await hand.until(`${figure} .explain`, /Batch norm, sample 2, unit 3: mean and variance of unit 3 of all 3 samples/), await used())];
  expect(row !== column && row.split(",").length === 4 && column.split(",").length === 3, `layer norm uses ${row}, batch norm ${column}`);
  await hand.focus(output("layer norm", 1, 1));
  await hand.key("ArrowDown");
  await hand.until(`${figure} .explain`, /sample 2, unit 1/);
  // An edit moves the row under layer norm and the column under batch norm.
  await hand.focus(input(1, 2));
  await hand.until(`${figure} .explain`, /used by 4 outputs of layer norm .* and 3 outputs of batch norm/);
  await hand.type(input(1, 2), "7");
  await hand.until(`${figure} .axes-moved`, /changed sample 1, unit 2.*layer norm: 4 outputs moved, in sample 1\..*batch norm: 3 outputs moved, in samples 1, 2 and 3\./);
  const moved = (norm) => page.run(`document.querySelectorAll(${JSON.stringify(`${figure} table[aria-label="Output of ${norm}"] td.moved`)}).length`);
  expect((await moved("layer norm")) === 4 && (await moved("batch norm")) === 3, "the marks disagree with the text");

  await hand.click(`${exercise("single")} .check`);
  await hand.until(`${exercise("single")} .feedback`, /✕ With 3 samples/);
  const batch = (value) => hand.click(`${figure} .controls input[value="${value}"]`);
  await batch(4);
  await hand.until(output("layer norm", 4, 1), /−/);
  await batch(1);
  await page.until(`[1, 2, 3, 4].every((column) => document.querySelector(${JSON.stringify(output("batch norm", 1, 1))}.replace("nth-of-type(1)", "nth-of-type(" + column + ")")).textContent === "0.000")`, "zeros for a batch of one");
  await hand.type(input(1, 1), "50");
  await hand.until(`${figure} .axes-moved`, /layer norm: 4 outputs moved.*batch norm: no output moved/);
  await hand.click(`${exercise("single")} .check`);
  await hand.until(`${exercise("single")} .feedback`, /✓ Correct/);
  await batch(3);
  await hand.click(`${figure} .controls > button`);
  await hand.until(output("batch norm", 1, 2), /−0\.889/);

  const answers = async (id, list) => {
    for (const [values, why] of list) {
      for (const [at, value] of values.entries()) await hand.type(`${exercise(id)} .answers label:nth-child(${at + 1}) input`, value);
      await hand.click(`${exercise(id)} .check`);
      await hand.until(`${exercise(id)} .feedback`, why);
    }
  };
  await answers("count", [[["3", "4"], /Swapped/], [["1", "1"], /also moves/], [["12", "12"], /Neither norm mixes/], [["4", "3"], /✓ Correct/]]);
  await answers("column", [[["-0.535"], /layer norm: you used the row/], [["1.141"], /biased variance/], [["-1.397"], /sign/], [["0.177"], /root of the variance/], [["1.397"], /✓ Correct/]]);

  // Which pixels each preprocessing step moves when others are inverted: none, or some.
  const digits = '[id="at:axes/digits"]';
  await page.until(`document.querySelectorAll(${JSON.stringify(`${digits} .axes-digit`)}).length === 3`, "the digit");
  for (const [step, moves] of [["rows", { images: false, rows: false, columns: true }], ["image", { images: false, rows: true, columns: true }], ["mean", { images: true, rows: false, columns: false }], ["threshold", { images: false, rows: false, columns: false }]]) {
    await hand.click(`${digits} input[value="${step}"]`);
    for (const [kind, some] of Object.entries(moves)) {
      await hand.click(`${digits} fieldset:last-of-type input[value="nothing"]`);
      await hand.until(`${digits} .axes-moved`, /Invert something/);
      await hand.click(`${digits} fieldset:last-of-type input[value="${kind}"]`);
      await hand.until(`${digits} .axes-moved`, some ? /moved, by up to/ : /No other pixel/);
    }
  }

  const choose = (item, option) => hand.choose(`${exercise("preprocessing")} .match-item:nth-child(${item}) select`, String(option));
  const note = (item) => `${exercise("preprocessing")} .match-item:nth-child(${item}) .match-note`;
  const check = () => hand.click(`${exercise("preprocessing")} .check`);
  for (const [item, option] of [[1, 0], [2, 3], [3, 1]]) await choose(item, option);
  await check();
  await hand.until(`${exercise("preprocessing")} .feedback`, /✕ 0 of 4/);
  for (const [item, why] of [[1, /row of pixels inside one image/], [2, /change one pixel/], [3, /mean over other images/], [4, /Choose an answer/]]) await hand.until(note(item), why);
  for (const [item, option] of [[1, 1], [2, 1], [3, 0], [4, 1]]) await choose(item, option);
  await check();
  await hand.until(`${exercise("preprocessing")} .feedback`, /✕ 3 of 4/);
  await hand.until(note(4), /threshold is a constant/);
  await choose(4, 3);
  await check();
  await hand.until(`${exercise("preprocessing")} .feedback`, /✓ Correct/);
}
