// Chapter blind: which operations on data and weights three norms cannot see.
const [CASES, INPUTS, UNITS] = [6, 4, 5];
const KINDS = ["batch", "weight", "layer"];
const NORMS = { batch: "batch norm", weight: "weight norm", layer: "layer norm" };
// With ε = 0, an invariant output changes only by rounding: weights or data and a have a relative error of 2⁻²⁴, so the output
// one of about 2⁻²⁴ · max|a| / σ: at most 1.1·10⁻⁶ over all k and s of the sliders. What is not invariant changes by at least 0.1.
const LIMIT = 1e-4;

// All numbers of a matrix × k or + s, or one row × k.
const scaled = (calls, matrix, k) => calls.evaluate("k * x", { x: matrix, k });
const shifted = (calls, matrix, s) => calls.evaluate("x + s", { x: matrix, s });
const firstScaled = (calls, matrix, k) => calls.evaluate("k * x", { x: matrix }, { rows: { k: Float64Array.from({ length: matrix.length / INPUTS }, (_, row) => (row ? 1 : k)) }, width: INPUTS });

// In the order of the paper's table. `unit`, `sample`: the unit or the sample that is changed.
const OPERATIONS = [
  { id: "weights", text: "All weights × k", by: "k", apply: (calls, x, w, k) => [x, scaled(calls, w, k)] },
  { id: "recenter", text: "All weights + s", by: "s", apply: (calls, x, w, k, s) => [x, shifted(calls, w, s)] },
  { id: "unit", text: "Weights of unit 1 × k", by: "k", unit: 0, apply: (calls, x, w, k) => [x, firstScaled(calls, w, k)] },
  { id: "data", text: "All data × k", by: "k", apply: (calls, x, w, k) => [scaled(calls, x, k), w] },
  { id: "offset", text: "All data + s", by: "s", apply: (calls, x, w, k, s) => [shifted(calls, x, s), w] },
  { id: "case", text: "Sample 1 × k", by: "k", sample: 0, apply: (calls, x, w, k) => [firstScaled(calls, x, k), w] },
];
const operation = (id) => OPERATIONS.find((one) => one.id === id);

function layer() {
  const random = lab.random(21);
  const matrix = (rows, make) => Float32Array.from({ length: rows * INPUTS }, make);
  return { x: matrix(CASES, () => 0.6 + random.normal()), w: matrix(UNITS, () => 0.2 + 0.8 * random.normal()) };
}

// The outputs of the three norms: weight norm changes the weights, the others the products.
function outputs(calls, x, w, eps) {
  const product = (weights) => calls.product(x, weights, [CASES, INPUTS, UNITS], "b");
  const norm = (kind) => calls.norm({ kind, x: product(w), shape: [CASES, UNITS], eps }).y;
  return { batch: norm("batch"), weight: product(calls.norm({ kind: "weight", x: w, shape: [UNITS, INPUTS] }).y), layer: norm("layer") };
}
const forKinds = (make) => Object.fromEntries(KINDS.map((kind) => [kind, make(kind)]));
// The largest change of an output.
const apart = (calls, a, b) => calls.statistics(calls.evaluate("abs(a - b)", { a, b }), [1, CASES * UNITS, 1]).most;

let state = null; // for the exercises

function makeTable(view) {
  const { x, w } = layer();
  const looks = Object.fromEntries(lab.looks(Object.values(NORMS)).map((look, at) => [KINDS[at], look]));
  let width = 0;
  let found = null;
  const trouble = lab.trouble();
  const choice = lab.menu(view, { name: "operation", label: "Operation", options: OPERATIONS.map(({ id, text }) => [id, text]), changed: (id) => { remember([last, id]); last = id; ask(); } });
  let last = choice.value;
  const factor = lab.slider(view, { name: "k", label: "factor k", min: -1.5, max: 1, step: 0.05, start: 10 ** 0.5, log: true, changed: () => ask() });
  const shift = lab.slider(view, { name: "s", label: "shift s", min: -3, max: 3, step: 0.1, start: 1, text: (value) => value.toFixed(1).replace("-", "−"), changed: () => ask() });
  const eps = lab.options(view, { name: "eps", label: "ε", options: [["0", "0"], ["1e-5", "10⁻⁵"], ["1e-3", "10⁻³"]], changed: () => ask() });
  const panels = lab.el("div", { class: "blind-panels holder" });
  const body = lab.el("tbody", {});
  const all = lab.el("button", { type: "button", class: "blind-all", onclick: () => { remember(OPERATIONS.map(({ id }) => id)); ask(); } }, "Try all");
  const clear = lab.el("button", { type: "button", class: "blind-clear quiet", onclick: () => { view.set("tried", null); ask(); } }, "Clear");
  const table = lab.el("div", { class: "blind-table" },
    lab.el("div", { class: "blind-line" }, lab.el("span", {}, "Largest change of an output"), lab.el("span", {}, all, clear)),
    lab.wide("Which norm sees which operation", lab.el("table", {}, lab.el("thead", {}, lab.el("tr", {}, lab.el("td", {}), KINDS.map((kind) => lab.el("th", { scope: "col" }, NORMS[kind])))), body)));

  // What has been tried, with the operation that is shown.
  const tried = () => new Set([...view.get("tried", "").split(",").filter((id) => operation(id)), choice.value]);
  const remember = (ids) => view.set("tried", [...new Set([...tried(), ...ids])].join(","));

  const ask = lab.latest(
    async () => {
      const [k, s, e, now] = [factor.value, shift.value, Number(eps.value), choice.value];
      const calls = lab.calls();
      const before = outputs(calls, x, w, e);
      const after = Object.fromEntries(OPERATIONS.map((one) => [one.id, outputs(calls, ...one.apply(calls, x, w, k, s), e)]));
      const changes = Object.fromEntries(OPERATIONS.map(({ id }) => [id, forKinds((kind) => apart(calls, before[kind], after[id][kind]))]));
      const made = await calls.run({ before, after, changes });
      const idle = Object.fromEntries(OPERATIONS.map(({ id, by }) => [id, by === "k" ? Math.abs(k - 1) < 1e-9 : Math.abs(s) < 1e-9]));
      return { k, s, eps: e, now, ...made, idle, changes: Object.fromEntries(OPERATIONS.map(({ id }) => [id, forKinds((kind) => made.changes[id][kind][0])])) };
    },
    (made) => {
      found = made;
      trouble.clear();
      paint();
    },
    trouble.show);
  state = () => ({ ...found, tried: tried() });

  const verdict = (change) => (change < LIMIT ? ["blind-stays", "✓ invariant"] : ["blind-moves", "✕ moves"]);
  function panel(kind, each) {
    const { id, unit = null, sample = null } = operation(found.now);
    const [before, after, change] = [found.before[kind], found.after[id][kind], found.changes[id][kind]];
    const most = Math.max(2.4, ...[...before, ...after].map(Math.abs)) * 1.06;
    const plot = lab.plot({ width: each, height: Math.round(lab.clamp(each * 0.95, 190, 240)), x: { axis: { label: "before" }, domain: [-most, most] }, y: { axis: { label: "after" }, domain: [-most, most] }, label: `${NORMS[kind]}, outputs after against before: largest change ${lab.number(change, 2)}` });
    plot.marks.append(lab.svg("path", { class: "blind-diagonal", d: `M${plot.x.at(-most)},${plot.y.at(-most)}L${plot.x.at(most)},${plot.y.at(most)}` }));
    before.forEach((value, at) => {
      const special = (unit !== null && at % UNITS === unit) || (sample !== null && Math.floor(at / UNITS) === sample);
      const place = { transform: `translate(${plot.x.at(value).toFixed(1)} ${plot.y.at(after[at]).toFixed(1)})` };
      plot.marks.append(lab.svg("path", { class: "blind-point dot", d: lab.marker("circle", 3.8), ...place, style: `fill:${looks[kind].color}` }));
      if (special) plot.marks.append(lab.svg("path", { class: "blind-changed", d: lab.marker("square", 6.5), ...place }));
    });
    lab.tip.follow(plot.svg, (px, py) => {
      const near = [...before].map((value, at) => [Math.hypot(plot.x.at(value) - px, plot.y.at(after[at]) - py), at]).sort((a, b) => a[0] - b[0])[0];
      return near[0] > 12 ? null : [`sample ${Math.floor(near[1] / UNITS) + 1}, unit ${(near[1] % UNITS) + 1}`, `before ${lab.number(before[near[1]], 4)}`, `after ${lab.number(after[near[1]], 4)}`];
    });
    const [style, words] = found.idle[id] ? ["", "no change made"] : verdict(change);
    return lab.el("div", { "data-norm": kind }, lab.el("h4", {}, NORMS[kind]), plot.svg, lab.el("p", {}, lab.el("b", { class: style }, words), lab.el("br", {}), `largest change ${lab.number(change, 2)}`));
  }
  function paint() {
    if (!width || !found) return;
    const columns = width >= 600 ? 3 : 1;
    panels.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const each = columns === 3 ? Math.floor((width - 38) / 3) : width;
    panels.replaceChildren(...KINDS.map((kind) => panel(kind, each)));
    key.hidden = !["unit", "case"].includes(found.now);
    keyText.textContent = found.now === "unit" ? "outputs of unit 1" : "outputs of sample 1";
    const known = tried();
    body.replaceChildren(...OPERATIONS.map(({ id, text, by }) => lab.el("tr", { class: id === found.now ? "now" : null, "data-operation": id }, lab.el("th", { scope: "row" }, text),
      KINDS.map((kind) => {
        if (!known.has(id)) return lab.el("td", {}, lab.el("span", {}, "not tried"));
        if (found.idle[id]) return lab.el("td", {}, lab.el("span", {}, by === "k" ? "k is 1" : "s is 0"));
        const [style, words] = verdict(found.changes[id][kind]);
        return lab.el("td", {}, lab.el("b", { class: style }, words), lab.el("span", {}, lab.number(found.changes[id][kind], 2)));
      }))));
  }
  const keyText = lab.el("span", {});
  const key = lab.el("p", { class: "blind-key", hidden: true }, lab.svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", class: "swatch", "aria-hidden": "true" }, lab.svg("path", { class: "blind-changed", d: lab.marker("square", 6) })), keyText);
  return {
    parts: [lab.controls(choice.node, factor.node, shift.node, eps.node), trouble.node, panels, key, table],
    notes: ["“Invariant” means a largest change below 10⁻⁴. With ε = 0 only rounding to 32 bits is left, about 2⁻²⁴ · max|a|/σ: below 2 · 10⁻⁶ for every k and s here. A change that a norm does see is above 0.1. ε belongs to batch and layer norm; weight norm has none."],
    draw(to) {
      width = to;
      if (found) paint();
      else ask();
    },
    table: () => ({
      columns: ["operation", "k or s", "ε", ...KINDS.map((kind) => NORMS[kind])],
      rows: found ? OPERATIONS.filter(({ id }) => tried().has(id)).map(({ id, text, by }) => [text, found[by], found.eps, ...KINDS.map((kind) => found.changes[id][kind])]) : [],
    }),
    restore() {
      [choice, factor, shift, eps].forEach((control) => control.restore());
      last = choice.value;
      if (width) ask();
    },
  };
}

lab.chapter("blind", {
  figures: {
    table: {
      title: "Table 1, measured",
      see: "Each point is one output: of one unit for one sample. On the diagonal, before and after are the same. Weight norm ignores only the scale of weights; batch norm and layer norm also ignore that of the data; only layer norm ignores that of a single sample.",
      make: makeTable,
    },
  },
  exercises: [
    {
      id: "predict", kind: "choice",
      options: [
        { text: "All weights × k", why: "k cancels in both: the mean and the standard deviation grow with it, over samples and over units." },
        { text: "One sample × k", right: true, why: "Layer norm divides each sample by its own spread. Batch norm's statistics mix this sample with the others, so its output moves, and theirs too." },
        { text: "One unit's weights × k", why: "That is the other way round: batch norm has statistics for each unit, layer norm mixes the units." },
        { text: "All data + s", why: "That is the other way round: each unit shifts by the same amount in all samples, which batch norm subtracts. Different units shift differently, which layer norm sees." },
      ],
      hint: "Over what does each norm take its mean?",
      solution: "One sample × k. Layer norm divides it by its own standard deviation, so k cancels; batch norm's statistics are over all samples, so k does not cancel.",
    },
    {
      id: "negative", kind: "numbers", labels: ["output"], answer: [-0.8], tolerance: 0.001,
      mistakes: [
        { answer: [0.8], why: "The factor 2 cancels, but not the sign: a standard deviation is positive, √(4σ²) = 2σ." },
        { answer: [-1.6], why: "The sign is right, but the factor 2 cancels: the standard deviation doubles too." },
        { answer: [1.6], why: "The standard deviation doubles too, and it is positive, so only the sign remains." },
        { answer: [-0.4], why: "The sign is right. The numerator grows by 2 as well as the denominator." },
      ],
      why: "(−2a + 2μ)/(2σ) = −0.8. Invariance is for k > 0; a negative k changes the sign.",
      hint: "Write the formula with ka, kμ and |k|σ.",
      solution: "The numerator becomes −2(a − μ), the standard deviation 2σ. The output is −0.8.",
    },
    {
      id: "fill", kind: "task", button: "Check the table",
      check: async () => {
        const { tried, eps, idle, changes } = state();
        if (!changes) return { right: false, why: "The figure has computed nothing yet. Scroll to it." };
        const missing = OPERATIONS.filter(({ id }) => !tried.has(id));
        if (missing.length) return { right: false, why: `Not tried: ${missing.map(({ text }) => text).join("; ")}.` };
        if (eps !== 0) return { right: false, why: "Set ε to 0: the table of the paper is about exact arithmetic without ε." };
        const nothing = OPERATIONS.filter(({ id }) => idle[id]);
        if (nothing.length) return { right: false, why: `Nothing is changed by ${nothing[0].by === "k" ? "k = 1" : "s = 0"}. Move the slider.` };
        const count = (kind) => OPERATIONS.filter(({ id }) => changes[id][kind] < LIMIT).length;
        return { right: true, why: `Invariant to ${count("batch")} (batch), ${count("weight")} (weight) and ${count("layer")} (layer) of 6 operations, as in the paper.` };
      },
      hint: "“Try all” does it, but predict each row first.",
      solution: "Batch norm: weights × k, one unit × k, data × k, data + s. Weight norm: weights × k, one unit × k. Layer norm: weights × k, weights + s, data × k, one sample × k.",
    },
    {
      id: "broken", kind: "task", button: "Check the figure",
      check: async () => {
        const { now, eps, k, changes } = state();
        if (!changes) return { right: false, why: "The figure has computed nothing yet. Scroll to it." };
        if (now !== "weights") return { right: false, why: "Choose the operation “All weights × k”." };
        if (changes.weights.layer >= LIMIT) return { right: true, why: `With ε = ${lab.number(eps, 1)} and k = ${lab.number(k, 2)}, ε is no longer small beside k²σ².` };
        if (eps === 0) return { right: false, why: "With ε = 0, k cancels exactly, whatever it is." };
        return { right: false, why: k >= 1 ? "A larger k makes ε matter less. Make k small." : "Nearly: make k smaller, or ε larger." };
      },
      hint: "What in the formula is not multiplied by k?",
      solution: "For example ε = 10⁻³ and k = 0.1: then k²σ² is of the size of ε, and the outputs shrink.",
    },
  ],
});
