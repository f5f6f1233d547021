// Which norm when: the questions, the table and the exercises, with any report: a small one has few situations.
const at = (name) => `[id="at:choose/${name}"]`;
const exercise = (id) => `[data-chapter="choose"] [data-exercise="${id}"]`;

export default async function ({ page, hand, expect }) {
  const rows = await page.run(`(lab.storyOf("which-norm")?.charts[0].rows ?? []).map((row) => row[0])`);
  if (!rows.length) {
    for (const name of ["helper", "guide"]) expect(/lacks/.test(await hand.text(`${at(name)} .empty`)), `${name} does not say that the report lacks the studies`);
  } else {
    expect((await page.run(`document.querySelectorAll('${at("guide")} tbody tr').length`)) === rows.length, "the table lacks situations");
    const shown = () => page.run(`[...document.querySelectorAll('${at("helper")} .case h4')].map((node) => node.textContent)`);
    const choose = (place, value) => hand.choose(`${at("helper")} .controls label:nth-of-type(${place}) select`, value);
    const press = (group, place) => hand.click(`${at("helper")} .controls fieldset:nth-of-type(${group}) label:nth-of-type(${place}) input`);
    const has = (name) => rows.some((row) => row.startsWith(name));
    // Each answer leads to its situations, and no other is shown.
    const wanted = async (...names) => {
      const cases = await shown();
      expect(cases.length === names.filter(has).length && names.filter(has).every((name) => cases.some((each) => each.startsWith(name))), `expected ${names}, found ${cases}`);
      const lacking = names.length - names.filter(has).length;
      if (lacking) expect((await hand.text(`${at("helper")} .verdict-box`)).includes(`lacks ${lacking}`), "situations that the report lacks are not counted");
    };
    await wanted("Batches of 1 to 4", "Recurrent");
    await press(1, 3);
    await wanted("Recurrent");
    await press(2, 3);
    await wanted("Sequences of varying", "Recurrent");
    await press(2, 2);
    await choose(1, "deep");
    await wanted("Streams", "Deep");
    await press(2, 1);
    await choose(1, "mlp");
    await choose(2, "rate");
    await wanted("MLP", "Uncertain learning");
    await page.until('location.hash.includes("choose.helper.network=mlp")', "the network in the hash");
    // The findings open, and a link leads to its finding.
    await hand.click(`${at("helper")} .case summary`);
    const target = await page.run(`document.querySelector('${at("helper")} .case details a').getAttribute("href").slice(6)`);
    await hand.click(`${at("helper")} .case details a`);
    await page.until(`Math.abs(document.getElementById("at:" + decodeURIComponent(${JSON.stringify(target)})).getBoundingClientRect().top) < 400`, "the finding of a link");
    // The exercise: a clear case, then one that nothing decides.
    const clear = /Clear/.test(await hand.text(`${at("helper")} .verdict-box`));
    await hand.click(`${exercise("open")} .check`);
    await hand.until(`${exercise("open")} .feedback`, clear ? /Here is a clear pair/ : /^✓/);
    await choose(1, "cnn");
    await choose(2, "none");
    await press(1, 2);
    await wanted();
    expect(/No situation/.test(await hand.text(`${at("helper")} .verdict-box`)), "a case without evidence is not named");
    await hand.click(`${at("guide")} .data summary`);
    const lines = () => page.run(`document.querySelectorAll('${at("guide")} .guide-table tbody tr').length`);
    await hand.click(`${at("guide")} .toggle input`);
    expect((await lines()) < rows.length, "all situations are clear");
    await hand.click(`${at("guide")} .toggle input`);
    expect((await lines()) === rows.length, "the table does not return");
  }
  await hand.click(`${exercise("open")} .check`);
  await hand.until(`${exercise("open")} .feedback`, /^✓/);
  for (const [id, right, feedback] of [["counts", 3, [/mixed/, /different comparisons/, null, /how large/]], ["interval", 2, [/contains zero/, null, /Not shown to differ/, /whole interval/]]]) {
    for (const [place, pattern] of feedback.entries()) {
      if (!pattern) continue;
      await hand.click(`${exercise(id)} .option:nth-of-type(${place + 1}) input`);
      await hand.until(`${exercise(id)} .feedback`, pattern);
    }
    await hand.click(`${exercise(id)} .option:nth-of-type(${right}) input`);
    await hand.until(`${exercise(id)} .feedback`, /^✓/);
  }
  expect((await page.run(`document.querySelectorAll('[data-chapter="choose"] .exercise[data-solved]').length`)) === 3, "not all exercises are solved");
}
