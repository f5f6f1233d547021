// Chapter steps: the formula on a small table, one step at a time. The steps are computed by their formulas in f64, and
// compared with mean, 1/√(σ² + ε) and output of layer norm in f32.
const [ROWS, COLUMNS] = [3, 4];
const X = [[1, 2, 3, 6], [10, 20, 30, 60], [4, 5, 3, 0]];
const GAIN = [[1, 2, 1, 0.5]];
const BIAS = [[0, 0, 1, -1]];
const ROW_NAMES = ["sample 1", "sample 2", "sample 3"];
const UNIT_NAMES = ["unit 1", "unit 2", "unit 3", "unit 4"];
const EPSILONS = [["0.00001", "10⁻⁵"], ["0.001", "10⁻³"], ["0.1", "0.1"], ["1", "1"]];

const STEPS = [
  ["1", "1 mean", "Step 1. The mean of each row: add its values and divide by H = 4."],
  ["2", "2 variance", "Step 2. The variance: the mean of the squared distances from μ, divided by H = 4 and not by 3."],
  ["3", "3 ε", "Step 3. Add ε to the variance, then take the root. This is the divisor, and it cannot be 0."],
  ["4", "4 divide", "Step 4. Subtract μ and divide. Every row now has mean 0, and variance 1 but for ε."],
  ["5", "5 γ", "Step 5. Multiply by γ: one learned factor per unit, the same for all samples."],
  ["6", "6 β", "Step 6. Add β: one learned offset per unit. This is the output y."],
  ["all", "all", "All steps. Point at a cell, or reach it with Tab and the arrow keys, to see its formula with its numbers."],
];

function work(calls, x, gain, bias, eps) {
  const double = true;
  const { mean, variance } = calls.statistics(x, [ROWS, COLUMNS, 1]);
  const root = calls.evaluate("sqrt(variance + eps)", { variance, eps }, { double });
  const hat = calls.evaluate("(x - mean) / root", { x }, { rows: { mean, root }, width: COLUMNS, double });
  const scaled = calls.evaluate("gain * hat", { hat }, { columns: { gain }, width: COLUMNS, double });
  const output = calls.evaluate("scaled + bias", { scaled }, { columns: { bias }, width: COLUMNS, double });
  return { mean, variance, root, hat, scaled, output };
}
const lines = (values) => Array.from({ length: ROWS }, (_, r) => [...values.subarray(r * COLUMNS, (r + 1) * COLUMNS)]);

// MathML of numbers and names.
const m = lab.math;
const text = (value) => lab.number(value, 5);
const mi = (name) => m("mi", {}, name);
const mo = (sign) => m("mo", { stretchy: "false" }, sign);
const mn = (value) => (value < 0 ? m("mrow", {}, m("mo", { form: "prefix" }, "−"), m("mn", {}, text(-value))) : m("mn", {}, text(value)));
const closed = (value) => (value < 0 ? m("mrow", {}, mo("("), mn(value), mo(")")) : mn(value));
const row = (...parts) => m("mrow", {}, ...parts);
const over = (above, below) => m("mfrac", {}, above, below);
const sub = (name, index) => m("msub", {}, name, m("mn", {}, String(index)));
const hatted = () => m("mover", {}, mi("x"), mo("^"));
const joined = (parts, sign) => parts.flatMap((part, at) => (at ? [mo(sign), part] : [part]));
const pair = (name, r, c) => m("msub", {}, name, row(m("mn", {}, String(r + 1)), mo(","), m("mn", {}, String(c + 1))));
const minus = (a, b) => row(mn(a), mo("−"), closed(b));

// What each kind of cell says about itself: words, the formula with its numbers, and the cells it uses.
const KINDS = {
  mean: (at, r) => ({
    words: `Mean of ${ROW_NAMES[r]}: its four values, and no other row’s.`,
    formula: row(sub(mi("μ"), r + 1), mo("="), over(row(...joined(at.x[r].map(closed), "+")), mn(COLUMNS)), mo("="), mn(at.mean[r])),
    used: at.x[r].map((_, c) => ["x", r, c]),
  }),
  variance: (at, r) => ({
    words: `Variance of ${ROW_NAMES[r]}: the mean squared distance from ${text(at.mean[r])}.`,
    formula: row(m("msubsup", {}, mi("σ"), mn(r + 1), mn(2)), mo("="),
      over(row(...joined(at.x[r].map((value) => m("msup", {}, row(mo("("), minus(value, at.mean[r]), mo(")")), mn(2))), "+")), mn(COLUMNS)), mo("="), mn(at.variance[r])),
    used: [...at.x[r].map((_, c) => ["x", r, c]), ["mean", r, 0]],
  }),
  root: (at, r) => ({
    words: `Divisor of ${ROW_NAMES[r]}: the root of variance plus ε.`,
    formula: row(m("msqrt", {}, m("msubsup", {}, mi("σ"), mn(r + 1), mn(2)), mo("+"), mi("ε")), mo("="), m("msqrt", {}, mn(at.variance[r]), mo("+"), mn(at.eps)), mo("="), mn(at.root[r])),
    used: [["variance", r, 0]],
  }),
  hat: (at, r, c) => ({
    words: `Normalized value of ${ROW_NAMES[r]}, ${UNIT_NAMES[c]}: how many divisors it is away from the mean.`,
    formula: row(pair(hatted(), r, c), mo("="), over(minus(at.x[r][c], at.mean[r]), mn(at.root[r])), mo("="), mn(at.hat[r][c])),
    used: [["x", r, c], ["mean", r, 0], ["root", r, 0]],
  }),
  scaled: (at, r, c) => ({
    words: `Times γ of ${UNIT_NAMES[c]}.`,
    formula: row(sub(mi("γ"), c + 1), mo("⁢"), pair(hatted(), r, c), mo("="), mn(at.gain[c]), mo("·"), closed(at.hat[r][c]), mo("="), mn(at.scaled[r][c])),
    used: [["gain", 0, c], ["hat", r, c]],
  }),
  output: (at, r, c) => ({
    words: `Output: plus β of ${UNIT_NAMES[c]}. The value in the table is that of the library’s layer norm.`,
    formula: row(pair(mi("y"), r, c), mo("="), mn(at.scaled[r][c]), mo("+"), closed(at.bias[c]), mo("="), mn(at.output[r][c])),
    used: [["scaled", r, c], ["bias", 0, c]],
  }),
};
const AT_STEP = { mean: 1, variance: 2, root: 3, hat: 4, scaled: 5, output: 6 };

const shown = { x: null }; // for the last exercise

function tableFigure(view) {
  const trouble = lab.trouble();
  const note = lab.el("p", { class: "steps-note", "aria-live": "polite" });
  const explain = lab.el("div", { class: "explain", "aria-live": "polite" });
  const agree = lab.el("p", { class: "agree" });
  const point = (kind) => (r, c) => { asked = [kind, r, c]; mark(); };
  let asked = null;
  let found = null;
  let drawn = false;

  const edited = () => ask();
  const x = lab.numbers(view, { name: "x", label: "Input x, to edit", start: X, rowNames: ROW_NAMES, columnNames: UNIT_NAMES, changed: edited });
  const gain = lab.numbers(view, { name: "gain", label: "Factors γ, to edit", start: GAIN, rowNames: ["γ"], columnNames: UNIT_NAMES, changed: edited });
  const bias = lab.numbers(view, { name: "bias", label: "Offsets β, to edit", start: BIAS, rowNames: ["β"], columnNames: UNIT_NAMES, changed: edited });
  const eps = lab.options(view, { name: "eps", label: "ε", options: EPSILONS, changed: edited });
  const step = lab.options(view, { name: "step", label: "Step", options: STEPS.map(([value, name]) => [value, name]), changed: () => { asked = null; show(); } });
  const reset = lab.el("button", { type: "button", onclick: () => { [[x, X], [gain, GAIN], [bias, BIAS]].forEach(([table, start]) => table.set(start)); eps.set(EPSILONS[0][0]); } }, "Reset numbers");

  const column = (kind, name) => lab.cells({ label: name, rows: ROWS, columns: 1, rowNames: ["1", "2", "3"], columnNames: [name], pointed: point(kind) });
  const square = (kind, name) => lab.cells({ label: name, rows: ROWS, columns: COLUMNS, rowNames: ["1", "2", "3"], pointed: point(kind) });
  const tables = { mean: column("mean", "μ"), variance: column("variance", "σ²"), root: column("root", "√(σ² + ε)"), hat: square("hat", "x̂"), scaled: square("scaled", "γ x̂"), output: square("output", "y") };
  const block = (kind, name) => lab.el("div", { class: "steps-block" }, lab.el("h4", {}, name), tables[kind].node);
  const blocks = { hat: block("hat", "x̂: normalized"), scaled: block("scaled", "γ x̂: scaled"), output: block("output", "y: the output") };
  x.node.classList.add("narrow");
  // γ and β stand below x, in the same columns.
  const body = x.node.querySelector("tbody");
  for (const one of [gain, bias]) {
    const line = one.node.querySelector("tbody tr");
    line.classList.add("apart");
    body.append(line);
  }
  const cellOf = ([kind, r, c]) => ({ x, gain, bias })[kind]?.cells[r][c] ?? tables[kind].cells[r][c];
  const everyCell = () => [x, gain, bias, ...Object.values(tables)].flatMap(({ cells }) => cells.flat());

  const now = () => ("print" in document.documentElement.dataset ? "all" : step.value);
  const open = (kind) => now() === "all" || AT_STEP[kind] <= Number(now());
  function show() {
    note.textContent = STEPS.find(([value]) => value === now())[2];
    if (!found) return;
    const values = { ...found, mean: found.mean.map((value) => [value]), variance: found.variance.map((value) => [value]), root: found.root.map((value) => [value]), output: found.engine };
    for (const [kind, table] of Object.entries(tables)) {
      table.show((r, c) => (open(kind) ? lab.fixed(values[kind][r][c]) : null), () => (AT_STEP[kind] === Number(now()) ? "fresh" : ""));
      blocks[kind]?.classList.toggle("waiting", !open(kind));
    }
    agree.replaceChildren("The steps are computed in 64 bits, y by the library’s layer norm in 32 bits. Largest difference in μ, 1/√(σ² + ε) and y: ", lab.el("b", {}, lab.number(found.apart, 2)), ".");
    mark();
  }
  // The explanation of a cell, and the cells that it uses.
  function mark() {
    everyCell().forEach((td) => td.classList.remove("used", "asked"));
    const kind = asked && open(asked[0]) ? asked : [Object.keys(AT_STEP)[now() === "all" ? 5 : Number(now()) - 1], 0, 0];
    if (!found) return;
    const { words, formula, used } = KINDS[kind[0]](found, kind[1], kind[2]);
    explain.replaceChildren(lab.el("p", {}, words), lab.el("div", { class: "sum", tabindex: "0", role: "region", "aria-label": "Figure 2.1: formula with numbers" }, m("math", { display: "block" }, formula)));
    cellOf(kind).classList.add("asked");
    used.forEach((place) => cellOf(place).classList.add("used"));
  }
  const ask = lab.latest(async () => {
    const at = { x: x.value.map((line) => [...line]), gain: [...gain.value[0]], bias: [...bias.value[0]], eps: Number(eps.value) };
    const calls = lab.calls();
    const { y, mean, rstd } = calls.norm({ kind: "layer", x: Float32Array.from(at.x.flat()), shape: [ROWS, COLUMNS], gain: Float32Array.from(at.gain), bias: Float32Array.from(at.bias), eps: at.eps });
    const steps = work(calls, Float64Array.from(at.x.flat()), Float64Array.from(at.gain), Float64Array.from(at.bias), at.eps);
    const apart = (formula, a, b, count) => calls.statistics(calls.evaluate(formula, { a, b }, { double: true }), [1, count, 1]).most;
    const made = await calls.run({ ...steps, engine: y, apart: [apart("abs(a - b)", steps.mean, mean, ROWS), apart("abs(1 / a - b)", steps.root, rstd, ROWS), apart("abs(a - b)", steps.output, y, ROWS * COLUMNS)] });
    const tables = Object.fromEntries(["hat", "scaled", "output", "engine"].map((name) => [name, lines(made[name])]));
    const columns = Object.fromEntries(["mean", "variance", "root"].map((name) => [name, [...made[name]]]));
    return { ...at, ...columns, ...tables, apart: Math.max(...made.apart.map(([value]) => value)) };
  }, (result) => { found = result; shown.x = result.x; trouble.clear(); show(); }, trouble.show);

  return {
    parts: [lab.controls(step.node, eps.node, reset), note, trouble.node,
      lab.wide("Input, mean, variance and divisor", lab.el("div", { class: "steps-top steps-table" }, x.node, tables.mean.node, tables.variance.node, tables.root.node)),
      lab.el("div", { class: "steps-bottom" }, Object.values(blocks)), explain, agree],
    draw() {
      if (!drawn) ask();
      drawn = true;
      show();
    },
    restore() {
      [x, gain, bias, eps, step].forEach((control) => control.restore());
      if (drawn) ask();
    },
    table: () => ({
      columns: ["sample", "unit", "x", "μ", "σ²", "√(σ² + ε)", "x̂", "γ x̂", "y", "y of layer norm"],
      rows: found ? found.x.flatMap((line, r) => line.map((value, c) => [r + 1, c + 1, value, found.mean[r], found.variance[r], found.root[r], found.hat[r][c], found.scaled[r][c], found.output[r][c], found.engine[r][c]])) : [],
    }),
  };
}

async function mirrorCheck() {
  if (!shown.x) return { right: false, why: "Scroll to figure 2.1 first." };
  const { y, rstd } = await lab.compute("norm", { kind: "layer", x: Float32Array.from(shown.x.flat()), shape: [ROWS, COLUMNS] });
  const line = (r) => Array.from(y.slice(r * COLUMNS, (r + 1) * COLUMNS));
  const [first, third] = [line(0), line(2)];
  const near = (a, b) => a.every((value, c) => Math.abs(value - b[c]) < 0.01);
  if (Math.max(...first.map(Math.abs)) < 0.1) return { right: false, why: "Row 1 is constant, so its x̂ is 0 and has no signs. Give it different values." };
  if (near(third, first.map((value) => -value))) return { right: true, why: "Any negative multiple of row 1, plus any constant, does it." };
  if (near(third, first)) return { right: false, why: "Row 3 has the same x̂ as row 1: a positive factor and an added constant cancel. Now reverse the signs." };
  if (rstd[2] > 300) return { right: false, why: "Row 3 is constant, so its x̂ is 0." };
  const wrong = third.map((value, c) => (Math.abs(value + first[c]) < 0.01 ? null : c + 1)).filter(Boolean);
  return { right: false, why: `Not yet: x̂ of row 3 is (${third.map((value) => lab.number(value, 3)).join(", ")}) and should be (${first.map((value) => lab.number(-value, 3)).join(", ")}). One changed value moves the whole row, because it moves μ and σ${wrong.length < 4 ? `; unit ${wrong.join(", ")} differs` : ""}.` };
}

lab.chapter("steps", {
  figures: {
    table: {
      title: "Layer norm in six steps",
      see: "Top: the input x with γ and β below it (all editable), then μ, σ² and the divisor of each row. Below: x − μ, x̂ and y. Point at a cell for its formula; the cells that it uses are outlined.",
      make: tableFigure,
    },
  },
  exercises: [
    {
      id: "by-hand", kind: "numbers", labels: ["mean μ", "variance σ²", "x̂ of the first unit"], answer: [5, 5, -1.3416], tolerance: 0.006,
      mistakes: [
        { answer: [5, 6.6667, -1.1619], why: "You divided the sum of squares by 3. Layer norm uses the biased variance: divide by H = 4." },
        { answer: [5, 5, -0.6], why: "μ and σ² are right, but x̂ divides by the root of the variance, not by the variance." },
        { answer: [5, 5, 1.3416], why: "The sign: x̂ is (x − μ)/σ, and 2 lies below the mean." },
        { answer: [5, 2.2361, -1.3416], why: "2.236 is σ, the standard deviation. The variance is its square." },
        { answer: [5, 5, 0.8944], why: "Subtract the mean before dividing." },
        { answer: [5, 20, -0.6708], why: "20 is the sum of the squared distances. The variance is their mean." },
      ],
      mistake: ([, variance]) => (Math.abs(variance - 6.6667) < 0.01 ? "The variance was divided by 3. Layer norm divides by H = 4." : variance === 20 ? "20 is the sum of the squared distances; divide it by H = 4." : variance === 30 ? "30 is the mean of x². Subtract the mean before squaring." : null),
      why: "The distances are −3, −1, 1, 3; the mean of their squares is 20/4 = 5; −3/√5 = −1.342.",
      hint: "Write down the four distances from the mean first.", solution: "μ = 20/4 = 5; σ² = (9 + 1 + 1 + 9)/4 = 5; x̂₁ = (2 − 5)/√5 ≈ −1.342.",
    },
    {
      id: "epsilon", kind: "numbers", labels: ["variance of x̂"], answer: [0.75], tolerance: 0.006,
      mistakes: [
        { answer: [1], why: "That would be right without ε. Here ε is a quarter of the divisor’s square." },
        { answer: [0.866], why: "That is the standard deviation of x̂. The variance is its square." },
        { answer: [0.8938], why: "You added ε to σ, outside the root. It is added to σ², inside." },
        { answer: [1.3333], why: "Upside down: ε makes the divisor larger and x̂ smaller." },
        { answer: [3], why: "That is σ²/ε. The divisor is √(σ² + ε)." },
      ],
      why: "Dividing by √(σ² + ε) divides the variance by σ² + ε: 0.03/0.04 = 0.75.",
      hint: "Dividing all values by d divides their variance by d².", solution: "σ²/(σ² + ε) = 0.03/0.04 = 0.75.",
    },
    {
      id: "affine", kind: "numbers", labels: ["mean of y", "variance of y"], answer: [1, 4], tolerance: 0.006,
      mistakes: [
        { answer: [1, 2], why: "The mean is right. The variance is multiplied by γ², not by γ." },
        { answer: [0, 4], why: "The variance is right, but β moves the mean." },
        { answer: [1, 5], why: "β moves all values by the same amount, so it does not change the variance." },
        { answer: [1, 1], why: "Multiplying by γ = 2 also changes the variance." },
        { answer: [2, 4], why: "x̂ has mean 0, and 2 · 0 + 1 is not 2." },
        { answer: [0, 1], why: "Those are the mean and variance of x̂, before γ and β." },
      ],
      why: "2 · 0 + 1 = 1 and 2² · 1 = 4: with γ and β the network can choose any mean and spread.",
      hint: "x̂ has mean 0 and variance 1.", solution: "Mean 2 · 0 + 1 = 1, variance 2² · 1 = 4.",
    },
    { id: "mirror", kind: "task", check: mirrorCheck, button: "Check the figure", hint: "What does x̂ of row 1 do if you multiply the row by a negative number?", solution: "For example −1, −2, −3, −6; or 6, 5, 4, 1, which is 7 minus row 1." },
  ],
});
