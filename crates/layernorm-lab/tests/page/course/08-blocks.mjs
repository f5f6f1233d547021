// In a Transformer: the block, the stack, RMS norm, and the exercises.
const at = (name) => `[id="at:blocks/${name}"]`;
const exercise = (id) => `[data-chapter="blocks"] [data-exercise="${id}"]`;
const slider = (name, place) => `${at(name)} .controls label:nth-of-type(${place}) input`;

export default async function ({ page, hand, expect }) {
  // The place and the kind of the norm.
  const label = () => page.run(`document.querySelector('${at("block")} .diagram').getAttribute("aria-label")`);
  const norms = (name) => page.run(`document.querySelectorAll('${at("block")} .${name}').length`);
  expect(/pre-norm/.test(await label()) && (await norms("norm")) === 2, "the block does not start with pre-norm");
  await hand.click(`${at("block")} .segments label:nth-of-type(2) input`);
  expect(/post-norm/.test(await label()) && /Post-norm/.test(await hand.text(`${at("block")} .equation`)), "the block does not switch to post-norm");
  await hand.click(`${at("block")} .controls fieldset:nth-of-type(2) label:nth-of-type(2) input`);
  expect((await norms("rms")) === 2 && /RMS/.test(await hand.text(`${at("block")} .equation`)), "the block does not switch to RMS norm");

  async function answer(id, values, pattern) {
    for (const [place, value] of values.entries()) await hand.type(`${exercise(id)} label:nth-of-type(${place + 1}) input`, value);
    await hand.click(`${exercise(id)} .check`);
    await page.until(`${pattern}.test(document.querySelector(${JSON.stringify(`${exercise(id)} .feedback`)}).textContent)`, `${id}: ${values} gives ${pattern}`);
  }
  for (const [value, pattern] of [["49", /take the root/], ["48", /Add 1/], ["6.928", /input has variance 1/], ["9.85", /48 blocks, which have 96 branches/], ["97", /asks for the root/], ["9.798", /not 48 blocks/], ["5", /A block has two/], ["1", /post-norm/], ["16777216", /growth without a norm/]]) await answer("grow", [value], pattern);
  await answer("grow", ["7"], /^✓/);

  // The stack.
  const shown = () => hand.text(`${at("depth")} .readout`);
  const changed = (old) => page.until(`(({ textContent, ariaBusy }) => textContent !== ${JSON.stringify(old)} && ariaBusy !== "true")(document.querySelector('${at("depth")} .readout'))`, "another stack");
  await hand.until(`${at("depth")} .readout`, /there: /);
  expect((await page.run(`document.querySelectorAll('${at("depth")} .series').length`)) === 6, "there are not two plots of three curves");
  await hand.click(`${exercise("ratio")} .check`);
  await hand.until(`${exercise("ratio")} .feedback`, /12 branches are not enough/);
  let old = await shown();
  await hand.slide(slider("depth", 1), 1);
  await changed(old);
  const deviation = Number(/pre-norm ([\d.]+)/.exec(await shown())[1]);
  expect(Math.abs(deviation - 7) < 0.5, `after 48 branches the stream has a standard deviation of ${deviation}`);
  old = await shown();
  await hand.slide(slider("depth", 2), 0.1);
  await changed(old);
  await hand.click(`${exercise("ratio")} .check`);
  await hand.until(`${exercise("ratio")} .feedback`, /Change σ/);
  old = await shown();
  await hand.slide(slider("depth", 2), 0.67);
  await changed(old);
  await hand.click(`${exercise("ratio")} .check`);
  await hand.until(`${exercise("ratio")} .feedback`, /^✓/);
  await page.until('location.hash.includes("blocks.depth.blocks=48")', "the number of blocks in the hash");

  // RMS norm.
  const read = async () => /difference: ([^a]+)angle: ([\d.]+)/.exec(await hand.text(`${at("rms")} .readout`))?.slice(1).map((text) => text.trim());
  await hand.until(`${at("rms")} .readout`, /angle/);
  expect((await read())[1] === "63.4", `mean 2 and deviation 1 give an angle of ${await read()}`);
  await hand.slide(slider("rms", 1), 0.5);
  await hand.until(`${at("rms")} .readout`, /difference: (0|[\d.]+×10⁻[⁵⁶⁷⁸⁹])/);
  await hand.focus(slider("rms", 1));
  await hand.key("End");
  await hand.until(`${at("rms")} .readout`, /angle: 78\.7/);
  await hand.slide(slider("rms", 2), 0.95);
  await page.until(`parseFloat(/angle: ([0-9.]+)/.exec(document.querySelector('${at("rms")} .readout').textContent)[1]) < 40`, "a smaller angle at a larger deviation");
  for (const [values, pattern] of [[["4", "36.87"], /layer norm's divisor/], [["7", "36.87"], /Squares add/], [["5", "53.13"], /constant vector/], [["5", "0.6435"], /radians/], [["25", "36.87"], /mean square/], [["5", "10"], /divisor is right/]]) await answer("angle", values, pattern);
  await answer("angle", ["5", "36.87"], /^✓/);
  expect((await page.run(`document.querySelectorAll('[data-chapter="blocks"] .exercise[data-solved]').length`)) === 3, "not all exercises are solved");
}
