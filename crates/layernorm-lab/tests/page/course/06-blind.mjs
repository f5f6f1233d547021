// Chapter blind: Table 1 by trying.
const TABLE = '[id="at:blind/table"]';
const EXERCISE = (id) => `[data-chapter="blind"] [data-exercise="${id}"]`;
// The paper's table: which operations batch, weight and layer norm do not see.
const PAPER = { weights: "✓✓✓", recenter: "✕✕✓", unit: "✓✓✕", data: "✓✕✓", offset: "✓✕✕", case: "✕✕✓" };

export default async function ({ page, hand, expect }) {
  const marks = (id) => page.run(`[...document.querySelectorAll('${TABLE} [data-operation="${id}"] td')].map((cell) => cell.textContent[0]).join("")`);
  const check = async (id, words) => {
    await hand.click(`${EXERCISE(id)} .check`);
    await hand.until(`${EXERCISE(id)} .feedback`, words);
  };
  const panel = (kind) => `${TABLE} [data-norm="${kind}"] p`;

  await hand.until(`${TABLE} [data-operation="weights"]`, /✓ invariant/);
  await hand.until(`${TABLE} [data-operation="case"]`, /not tried/);
  await check("fill", /✕.*Not tried: All weights \+ s/);
  await check("broken", /✕.*With ε = 0/);

  // An operation fills its row; what was tried before stays.
  await hand.choose(`${TABLE} select`, "case");
  await hand.until(`${TABLE} [data-operation="case"]`, /✕ moves.*✕ moves.*✓ invariant/);
  await hand.until(panel("layer"), /✓ invariant/);
  expect((await marks("weights")) === PAPER.weights, "the first row is gone");
  expect((await page.run(`document.querySelectorAll('${TABLE} [data-norm="batch"] .blind-changed').length`)) === 5, "the outputs of sample 1 are not marked");
  // A factor of 1 changes nothing.
  await hand.focus(`${TABLE} .control:nth-of-type(2) input`);
  for (let press = 0; press < 10; press += 1) await hand.key("ArrowLeft");
  await hand.until(panel("batch"), /no change made/);
  await hand.until(`${TABLE} [data-operation="case"]`, /k is 1/);
  await hand.click(`${TABLE} .blind-all`);
  await hand.until(`${TABLE} [data-operation="offset"]`, /moves/);
  await check("fill", /✕.*k = 1/);
  await hand.slide(`${TABLE} .control:nth-of-type(2) input`, 0.2);
  await hand.slide(`${TABLE} .control:nth-of-type(3) input`, 0.9);
  await hand.until(`${TABLE} [data-operation="case"]`, /moves/);
  for (const [id, wanted] of Object.entries(PAPER)) expect((await marks(id)) === wanted, `${id}: ${await marks(id)}, in the paper ${wanted}`);
  await check("fill", /✓ Correct.*4 \(batch\), 2 \(weight\) and 4 \(layer\)/);
  await page.until('location.hash.includes("blind.table.tried=")', "the tried operations in the hash");

  // ε is not scaled along.
  await hand.click(`${TABLE} .segments label:nth-child(3) input`);
  await check("broken", /✕.*Choose the operation/);
  await hand.choose(`${TABLE} select`, "weights");
  await hand.until(panel("layer"), /✕ moves/);
  await hand.click(`${TABLE} .segments label:nth-child(2) input`);
  await hand.slide(`${TABLE} .control:nth-of-type(2) input`, 0.9);
  await hand.until(panel("layer"), /✓ invariant/);
  await check("broken", /✕.*Make k small/);
  await hand.slide(`${TABLE} .control:nth-of-type(2) input`, 0.1);
  await hand.until(panel("layer"), /✕ moves/);
  await check("broken", /✓ Correct/);
  await hand.click(`${TABLE} .blind-clear`);
  await hand.until(`${TABLE} [data-operation="data"]`, /not tried/);

  for (const [option, words] of [[1, /cancels in both/], [3, /other way round/], [4, /other way round/], [2, /✓ Correct/]]) {
    await hand.click(`${EXERCISE("predict")} .option:nth-child(${option}) input`);
    await hand.until(`${EXERCISE("predict")} .feedback`, words);
  }
  for (const [value, words] of [["0.8", /not the sign/], ["-1.6", /factor 2 cancels/], ["-0.8", /✓ Correct/]]) {
    await hand.type(`${EXERCISE("negative")} input`, value);
    await hand.click(`${EXERCISE("negative")} .check`);
    await hand.until(`${EXERCISE("negative")} .feedback`, words);
  }
}
