// Chapter steps: every step of the table, editing, the explanations, and four exercises.
const figure = '[id="at:steps/table"]';
const exercise = (id) => `[data-chapter="steps"] [data-exercise="${id}"]`;
const shown = (table, row, column) => `${figure} table[aria-label="${table}"] tbody tr:nth-child(${row}) td:nth-of-type(${column})`;
const input = (name) => `${figure} input[aria-label="${name}"]`;

export default async function ({ page, hand, expect }) {
  await hand.until(shown("μ", 2, 1), /30\.000/);
  const filled = () => page.run(`document.querySelectorAll(${JSON.stringify(`${figure} .numbers-shown tbody td:not(.empty-cell)`)}).length`);
  const outlined = () => page.run(`document.querySelectorAll(${JSON.stringify(`${figure} td.used`)}).length`);
  for (const [name, cells, note] of [["2 variance", 6, /variance/], ["3 ε", 9, /ε/], ["4 divide", 21, /mean 0/], ["5 γ", 33, /γ/], ["6 β", 45, /β/], ["all", 45, /All steps/]]) {
    const value = name === "all" ? "all" : name[0];
    if (value === "2") expect((await filled()) === 3, "step 1 shows more than the means");
    await page.run(`document.querySelectorAll(${JSON.stringify(`${figure} fieldset`)})[0].querySelector('input[value="${value}"]').scrollIntoView({ block: "center" })`);
    await hand.click(`${figure} fieldset input[value="${value}"]`);
    await hand.until(`${figure} .steps-note`, note);
    await page.until(`document.querySelectorAll(${JSON.stringify(`${figure} .numbers-shown tbody td:not(.empty-cell)`)}).length === ${cells}`, `${cells} cells at ${name}`);
  }
  // Each kind of cell explains itself with its row's numbers.
  for (const [table, row, column, formula, used] of [["μ", 2, 1, /10\+20\+30\+60.*4.*=30$/, 4], ["σ²", 3, 1, /\(4−3\).*=3\.5$/, 5], ["√(σ² + ε)", 1, 1, /=1\.8708$/, 1], ["x̂", 2, 2, /20−30.*18\.708.*=−0\.53452$/, 3], ["γ x̂", 1, 4, /0\.5·1\.6036=0\.80178$/, 2], ["y", 3, 3, /=0\+1=1$/, 2]]) {
    await hand.hover(shown(table, row, column));
    await page.until(`${formula}.test(document.querySelector(${JSON.stringify(`${figure} .explain math`)}).textContent.replace(/\\s/g, ""))`, `the formula of ${table} (${row}, ${column})`);
    expect((await outlined()) === used, `${table} outlines ${await outlined()} cells`);
  }
  // By keyboard: arrow keys move between cells.
  await hand.focus(shown("x̂", 1, 1));
  await hand.key("ArrowRight");
  await hand.key("ArrowDown");
  await hand.until(`${figure} .explain p`, /sample 2, unit 2/);
  expect(/10⁻[⁶⁷⁸]|^0$/.test(await hand.text(`${figure} .agree b`)), `the steps differ from the engine by ${await hand.text(`${figure} .agree b`)}`);
  // Editing: x, γ, β and ε.
  await hand.type(input("sample 1, unit 1"), "−3");
  await hand.until(shown("μ", 1, 1), /^2\.000$/);
  await hand.type(input("γ, unit 1"), "3");
  await hand.type(input("β, unit 1"), "10");
  await hand.until(shown("y", 2, 1), /^6\.793$/);
  await hand.type(input("sample 1, unit 1"), "no");
  expect((await page.run(`document.querySelector(${JSON.stringify(input("sample 1, unit 1"))}).getAttribute("aria-invalid")`)) === "true", "text is accepted as a number");
  await hand.type(input("sample 1, unit 1"), "1");
  await page.run(`document.querySelector(${JSON.stringify(figure)}).querySelectorAll("fieldset")[1].querySelector('input[value="1"]').id = "epsilon-of-one"`);
  await hand.click("#epsilon-of-one");
  await hand.until(shown("√(σ² + ε)", 1, 1), /^2\.121$/);
  await hand.click(`${figure} .controls > button`);
  await hand.until(shown("y", 1, 1), /^−1\.069$/);

  const answers = async (id, list) => {
    const fields = `${exercise(id)} .answers input`;
    for (const [values, why] of list) {
      for (const [at, value] of values.entries()) await hand.type(`${exercise(id)} .answers label:nth-child(${at + 1}) input`, value);
      await hand.click(`${exercise(id)} .check`);
      await hand.until(`${exercise(id)} .feedback`, why);
    }
    expect((await page.run(`document.querySelectorAll(${JSON.stringify(fields)}).length`)) === list[0][0].length, `${id} has other fields`);
  };
  await answers("by-hand", [[["5", "6.667", "-1.162"], /divide by H = 4/], [["5", "6.667", "1"], /divides by H = 4/], [["5", "5", "-0.6"], /root of the variance/], [["5", "5", "1.342"], /sign/], [["5", "20", "0"], /H = 4/], [["5", "5", "−1,342"], /can mean 1342 or 1\.342/], [["5", "5", "−1,3416"], /✓ Correct/]]);
  await answers("epsilon", [[["1"], /without ε/], [["0.894"], /outside the root/], [["0.866"], /standard deviation/], [["0.75"], /✓ Correct/]]);
  await answers("affine", [[["1", "2"], /γ², not by γ/], [["0", "4"], /β moves the mean/], [["1", "4"], /✓ Correct/]]);

  const third = async (values) => {
    for (const [at, value] of values.entries()) await hand.type(input(`sample 3, unit ${at + 1}`), String(value));
    await page.until(`document.querySelector(${JSON.stringify(shown("μ", 3, 1))}).textContent === "${(values.reduce((sum, value) => sum + value, 0) / 4).toFixed(3).replace("-", "−")}"`, "the mean of row 3");
    await hand.click(`${exercise("mirror")} .check`);
  };
  await third([5, 10, 15, 30]);
  await hand.until(`${exercise("mirror")} .feedback`, /same x̂ as row 1/);
  await third([7, 7, 7, 7]);
  await hand.until(`${exercise("mirror")} .feedback`, /constant/);
  await third([-1, -2, -3, 5]);
  await hand.until(`${exercise("mirror")} .feedback`, /should be/);
  await third([6, 5, 4, 1]);
  await hand.until(`${exercise("mirror")} .feedback`, /✓ Correct/);
}
