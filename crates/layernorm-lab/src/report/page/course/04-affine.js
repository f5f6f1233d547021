// Chapter affine: what γ, β and ε do to rows with different statistics.
const SIZE = 240; // values in a row
const DEFAULT_EPS = 1e-5;
const ROWS = [{ name: "row A", mean: 2.4, deviation: 0.5 }, { name: "row B", mean: -2, deviation: 1.2 }, { name: "row C", mean: 0.6, deviation: 0.3 }];
const UNDONE = 0.01; // a largest |y − x| below this counts as undone

// Rows with mean 0 and standard deviation 1.
function standard(calls, x, size) {
  const { mean, deviation } = calls.statistics(x, [x.length / size, size, 1]);
  return calls.evaluate("(x - mean) / deviation", { x }, { rows: { mean, deviation }, width: size, double: true });
}

// Three shapes, so that one can see that the norm keeps the shape: a bell, a slope and a box.
function sampleRows() {
  const random = lab.random(4);
  const shapes = [() => lab.clamp(random.normal(), -2.4, 2.4), () => random.uniform() ** 2, () => random.uniform()];
  return Float64Array.from(shapes.flatMap((shape) => Array.from({ length: SIZE }, shape)));
}
const given = (name) => Float64Array.from(ROWS, (row) => row[name]);

// What the exercise about row C looks at.
let undoing = null;

function makeAffine(view) {
  const drawn = sampleRows();
  const RANGE = [-8, 8];
  const BINS = 64;
  const TALLEST = 84; // values in a bin, with room for a name above it
  let width = 0;
  let found = null;
  const trouble = lab.trouble();
  const gain = lab.slider(view, { name: "gain", label: "γ (gain)", min: 0, max: 2, step: 0.01, start: 1, text: (value) => value.toFixed(2), changed: () => ask() });
  const bias = lab.slider(view, { name: "bias", label: "β (bias)", min: -3, max: 3, step: 0.01, start: 0, text: (value) => value.toFixed(2).replace("-", "−"), changed: () => ask() });
  const put = (g, b) => () => { gain.set(g); bias.set(b); };
  const looks = lab.looks(ROWS.map(({ name }) => name)).map((look, index) => ({ ...look, dash: ["", "7 4", "2 3"][index] }));
  const legend = lab.legend(looks, "fill", view);
  const panels = lab.el("div", { class: "affine-panels holder" });
  const body = lab.el("tbody", {});
  const rows = lab.el("div", { class: "affine-rows" }, lab.wide("The rows' statistics", lab.el("table", {},
    lab.el("thead", {}, lab.el("tr", {}, ["", "μ of x", "σ of x", "mean of y", "std of y", "largest |y − x|"].map((text) => lab.el(text ? "th" : "td", { scope: text ? "col" : null }, text)))), body)));

  const ask = lab.latest(
    async () => {
      const calls = lab.calls();
      const x = calls.evaluate("mean + deviation * x", { x: standard(calls, drawn, SIZE) }, { rows: { mean: given("mean"), deviation: given("deviation") }, width: SIZE });
      const { y } = calls.norm({ kind: "layer", x, shape: [ROWS.length, SIZE], gain: new Float32Array(SIZE).fill(gain.value), bias: new Float32Array(SIZE).fill(bias.value), eps: DEFAULT_EPS });
      const rows = (values) => calls.statistics(values, [ROWS.length, SIZE, 1]);
      const [before, after] = [x, y].map((values) => { const { mean, deviation } = rows(values); return { mean, deviation }; });
      const made = await calls.run({ x, y, before, after, error: rows(calls.evaluate("abs(y - x)", { x, y })).most });
      const counting = lab.calls();
      const counts = (values, row) => counting.histogram(values.slice(row * SIZE, (row + 1) * SIZE), ...RANGE, BINS);
      const histograms = await counting.run(ROWS.map((_, row) => ({ from: counts(made.x, row), to: counts(made.y, row) })));
      return { ...made, histograms };
    },
    ({ before, after, error, histograms }) => {
      found = ROWS.map(({ name }, row) => {
        const of = ({ mean, deviation }) => ({ mean: mean[row], deviation: deviation[row] });
        return { name, ...histograms[row], before: of(before), after: of(after), error: error[row] };
      });
      trouble.clear();
      paint();
    },
    trouble.show);
  undoing = () => ({ gain: gain.value, bias: bias.value, target: ROWS[2], error: found?.[2].error ?? Infinity });

  function panel(heading, pick, panelWidth) {
    const plot = lab.plot({ width: panelWidth, height: 210, x: { axis: { label: "value" }, domain: RANGE }, y: { axis: { label: "values per bin" }, domain: [0, TALLEST] },
      label: `${heading}. ${found.map((row) => { const { mean, deviation } = pick === "from" ? row.before : row.after; return `${row.name}: mean ${lab.number(mean, 3)}, standard deviation ${lab.number(deviation, 3)}`; }).join("; ")}` });
    found.forEach(({ [pick]: { edges, counts: heights } }, row) => {
      if (!legend.shown(row)) return;
      const used = heights.map((_, at) => at).filter((at) => heights[at] > 0);
      const ground = plot.y.at(0);
      const points = [];
      for (let at = used[0]; at <= used.at(-1); at += 1) points.push([plot.x.at(edges[at]), plot.y.at(heights[at])], [plot.x.at(edges[at + 1]), plot.y.at(heights[at])]);
      plot.marks.append(lab.svg("path", { class: "hill", d: lab.path([[points[0][0], ground], ...points, [points.at(-1)[0], ground]]), style: `fill:${looks[row].color};stroke:${looks[row].color}`, "stroke-dasharray": looks[row].dash }));
      const middle = Math.floor(((ROWS[row].mean - RANGE[0]) / (RANGE[1] - RANGE[0])) * BINS);
      if (pick === "from") plot.svg.append(lab.svg("text", { class: "inside", x: plot.x.at(ROWS[row].mean), y: plot.y.at(Math.max(...heights.slice(middle - 2, middle + 3))) - 6, "text-anchor": "middle" }, ROWS[row].name.slice(4)));
    });
    return lab.el("div", {}, lab.el("h4", {}, heading), plot.svg);
  }
  function paint() {
    if (!width || !found) return;
    const columns = width >= 540 ? 2 : 1;
    panels.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const each = columns === 2 ? Math.floor((width - 20) / 2) : width;
    panels.replaceChildren(panel("Before: x", "from", each), panel("After: y", "to", each));
    body.replaceChildren(...found.map(({ name, before, after, error }) => lab.el("tr", {}, lab.el("th", { scope: "row" }, name),
      [before.mean, before.deviation, after.mean, after.deviation].map((value) => lab.el("td", {}, Math.abs(value) < 5e-7 ? "0" : lab.number(value, 3))),
      lab.el("td", { class: error < UNDONE ? "undone" : "apart" }, `${lab.number(error, 2)}${error < UNDONE ? " ✓ undone" : ""}`))));
  }
  return {
    parts: [lab.controls(gain.node, bias.node, lab.el("div", { class: "affine-buttons" },
      lab.el("button", { type: "button", class: "affine-undo", onclick: put(ROWS[0].deviation, ROWS[0].mean) }, "Undo for row A: γ = σ, β = μ"),
      lab.el("button", { type: "button", class: "affine-start", onclick: put(1, 0) }, "Start: γ = 1, β = 0"))),
    legend.node, panels, rows, trouble.node],
    notes: ["Layer norm of three rows of 240 values, ε = 10⁻⁵. What remains of |y − x| after the button is ε: the exact inverse is γ = √(σ² + ε). With a small γ the bins after the norm are higher than the plot."],
    draw(to) {
      width = to;
      if (found) paint();
      else ask();
    },
    table: () => ({ columns: ["row", "μ of x", "σ of x", "γ", "β", "mean of y", "std of y", "largest |y − x|"], rows: (found ?? []).map(({ name, before, after, error }) => [name, before.mean, before.deviation, gain.value, bias.value, after.mean, after.deviation, error]) }),
    restore() {
      gain.restore();
      bias.restore();
      legend.refresh();
      if (width) ask();
    },
  };
}

function makeEpsilon(view) {
  const COUNT = 16;
  const random = lab.random(11);
  const drawn = Float64Array.from({ length: COUNT }, random.normal);
  const curve = Array.from({ length: 73 }, (_, at) => 10 ** (-6 + at / 12));
  let width = 0;
  let found = null;
  let plot = null;
  const trouble = lab.trouble();
  const spread = lab.slider(view, { name: "spread", label: "σ: standard deviation of the row", min: -6, max: 0, step: 0.05, start: 0.01, log: true, changed: () => ask() });
  const eps = lab.slider(view, { name: "eps", label: "ε", min: -12, max: -1, step: 0.25, start: DEFAULT_EPS, log: true, text: (value) => lab.number(value, 2), changed: () => ask() });
  const holder = lab.el("div", { class: "affine-plot holder" });
  const readout = lab.el("p", { class: "readout", "aria-live": "off" });

  const ask = lab.latest(
    async () => {
      const here = { sigma: spread.value, eps: eps.value };
      const calls = lab.calls();
      const base = standard(calls, drawn, COUNT);
      const measured = (deviations, eps) => {
        const x = calls.evaluate("deviation * x", {}, { rows: { deviation: Float64Array.from(deviations) }, columns: { x: base }, width: COUNT });
        const shape = [deviations.length, COUNT];
        return calls.statistics(calls.norm({ kind: "layer", x, shape, eps }).y, [...shape, 1]).deviation;
      };
      const formula = (text) => calls.evaluate(text, here, { double: true });
      const made = await calls.run({ now: measured([...curve, here.sigma], here.eps), usual: measured(curve, DEFAULT_EPS), square: formula("sigma * sigma"), root: formula("sqrt(eps)"), predicted: formula("sigma / sqrt(sigma * sigma + eps)") });
      return { ...here, now: made.now.at(-1), measured: made.now.subarray(0, -1), usual: made.usual, square: made.square[0], root: made.root[0], predicted: made.predicted[0] };
    },
    (result) => {
      found = result;
      trouble.clear();
      paint();
    },
    trouble.show);

  function move(event) {
    if (!plot || !(event.buttons & 1)) return;
    spread.set(lab.clamp(plot.x.back(lab.pointer(event, plot.svg)[0]), 1e-6, 1));
  }
  function paint() {
    if (!width || !found) return;
    const { sigma, eps: e, now, measured, usual, square, root, predicted } = found;
    plot = lab.plot({ width, height: lab.clamp(Math.round(width * 0.42), 220, 320), x: { axis: { label: "σ of the row", log: true }, domain: [1e-6, 1] }, y: { axis: { label: "std of the output", low: 0 }, domain: [0, 1.08] }, top: 14,
      label: `Standard deviation of the normalized row against that of the row, for ε = ${lab.number(e, 2)}. At σ = ${lab.number(sigma, 3)} it is ${lab.number(now, 3)}.` });
    const line = (values) => lab.path(curve.map((value, at) => [plot.x.at(value), plot.y.at(values[at])]));
    plot.marks.append(lab.svg("path", { class: "affine-mark", d: `M${plot.left},${plot.y.at(1)}H${plot.right}` }));
    if (root >= 1e-6) {
      const at = plot.x.at(root);
      const flip = at > plot.right - 40;
      plot.marks.append(lab.svg("path", { class: "affine-mark", d: `M${at},${plot.top}V${plot.bottom}` }));
      plot.svg.append(lab.svg("text", { x: at + (flip ? -6 : 6), y: plot.bottom - 8, "text-anchor": flip ? "end" : "start" }, "√ε"));
    }
    plot.marks.append(lab.svg("path", { class: "line ghost", d: line(usual), style: "stroke:var(--c6)", "stroke-dasharray": "7 4" }),
      lab.svg("path", { class: "line", d: line(measured), style: "stroke:var(--c0)" }));
    plot.svg.append(lab.svg("path", { class: "affine-now", d: lab.marker("circle", 7), transform: `translate(${plot.x.at(sigma)} ${plot.y.at(now)})`, style: "fill:var(--c4)" }));
    // The same element stays while the point is dragged, so that the drag is not lost.
    const old = holder.firstElementChild;
    if (old) {
      old.setAttribute("viewBox", plot.svg.getAttribute("viewBox"));
      old.setAttribute("aria-label", plot.svg.getAttribute("aria-label"));
      old.replaceChildren(...plot.svg.childNodes);
      plot.svg = old;
    } else {
      holder.replaceChildren(plot.svg);
      plot.svg.addEventListener("pointerdown", (event) => { plot.svg.setPointerCapture?.(event.pointerId); move(event); });
      plot.svg.addEventListener("pointermove", move);
    }
    const item = (name, value) => lab.el("span", {}, `${name} `, lab.el("b", {}, value));
    readout.replaceChildren(item("σ²", lab.number(square, 3)), item("√ε", lab.number(root, 3)), item("std of the output, measured", lab.number(now, 4)), item("by the formula", lab.number(predicted, 4)));
  }
  return {
    parts: [lab.controls(spread.node, eps.node), holder, readout, trouble.node],
    notes: ["Solid: measured from layer norm's output for 73 rows of 16 values, mean 0. Dashed: the same with ε = 10⁻⁵, the usual default. Drag in the plot to move the point."],
    draw(to) {
      width = to;
      if (found) paint();
      else ask();
    },
    table: () => ({ columns: ["σ of the row", "ε", "std of the output", "std with ε = 10⁻⁵"], rows: found ? curve.map((value, at) => [value, found.eps, found.measured[at], found.usual[at]]) : [] }),
    restore() {
      spread.restore();
      eps.restore();
      if (width) ask();
    },
  };
}

lab.chapter("affine", {
  figures: {
    affine: {
      title: "One γ and one β for three rows",
      see: "Before the norm, the three rows have different means and spreads. After it, all have mean β and standard deviation γ; only their shapes differ. The button undoes the norm for row A: B and C then take A's mean and spread, far from their own.",
      make: makeAffine,
    },
    epsilon: {
      title: "ε against a small variance",
      see: "The curve falls from 1 to 0 where σ passes √ε. Move ε and the whole curve moves: one hundred times the ε shifts it by a factor of ten in σ.",
      make: makeEpsilon,
    },
  },
  exercises: [
    {
      id: "undo", kind: "numbers", labels: ["γ", "β"], answer: [Math.sqrt(5), 4], tolerance: 0.006,
      mistakes: [
        { answer: [Math.sqrt(20 / 3), 4], why: "That is the unbiased standard deviation. The norm divides the sum of squares by n = 4, not by n − 1." },
        { answer: [5, 4], why: "γ is the variance here. The norm divides by its root." },
        { answer: [20 / 3, 4], why: "γ is the unbiased variance here. Divide by n, and take the root." },
        { answer: [1 / Math.sqrt(5), 4], why: "γ is the reciprocal: that divides once more. To undo a division by σ, multiply by σ." },
        { answer: [Math.sqrt(5), -4], why: "β has the wrong sign: μ was subtracted, so it has to be added." },
        { answer: [4, Math.sqrt(5)], why: "γ and β are swapped." },
        { answer: [1, 0], why: "That is the start: it leaves the row normalized." },
      ],
      mistake: ([g, b]) => (Math.abs(b - 4) > 0.006 ? "β must be the mean of the row." : Math.abs(g - Math.sqrt(5)) < 0.05 ? "Almost: give γ with two or three decimals." : "β is right. γ must be the standard deviation of the row, with division by n."),
      why: "μ = 4 and σ = √5 ≈ 2.236.",
      hint: "The mean is 4. The squared deviations are 9, 1, 1, 9.",
      solution: "μ = 16 / 4 = 4 and σ² = (9 + 1 + 1 + 9) / 4 = 5, so γ = √5 ≈ 2.236 and β = 4.",
    },
    {
      id: "row-c", kind: "task", button: "Check the figure",
      check: async () => {
        const { gain, bias, target, error } = undoing();
        if (error < UNDONE) return { right: true, why: `γ = ${target.deviation} and β = ${target.mean}: row C is back, and rows A and B are not.` };
        if (gain === 1 && bias === 0) return { right: false, why: "The sliders are at their start: the row is normalized." };
        if (gain === ROWS[0].deviation && bias === ROWS[0].mean) return { right: false, why: "That undoes row A. Row C has another μ and σ." };
        const parts = [Math.abs(bias - target.mean) > 0.005 && `β is ${bias < target.mean ? "too small" : "too large"}`, Math.abs(gain - target.deviation) > 0.0025 && `γ is ${gain < target.deviation ? "too small" : "too large"}`].filter(Boolean);
        return { right: false, why: `Largest |y − x| of row C: ${lab.number(error, 2)}. ${parts.join(", and ")}. Arrow keys move a slider by 0.01.` };
      },
      hint: "The table below the histograms lists μ and σ of each row.",
      solution: "β = μ = 0.6 and γ = σ = 0.3.",
    },
    {
      id: "all-rows", kind: "choice",
      options: [
        { text: "Yes: γ = σ and β = μ.", why: "Of which row? Each of the 32 rows has its own μ and σ, but all get the same γ and β." },
        { text: "Yes, because every unit has its own pair.", why: "For each unit there are two numbers but 32 equations, one for each row. In general two rows can be fitted, not 32." },
        { text: "No, unless all rows have the same μ and σ or happen to fit.", right: true, why: "Two numbers for each unit cannot meet 32 conditions. The norm removes each row's own mean and spread for good." },
        { text: "No, because γ and β are not learned.", why: "They are learned, like weights. That does not help: they do not depend on the row." },
      ],
      hint: "Count, for one unit, the unknowns and the equations.",
      solution: "No. To restore all rows, γ and β of a unit would have to satisfy 32 equations, one for each row. Two unknowns can satisfy two of them in general; all 32 only in special cases, such as rows with the same μ and σ.",
    },
    {
      id: "small", kind: "numbers", labels: ["standard deviation"], answer: [1 / Math.sqrt(11)], tolerance: 0.0016,
      mistakes: [
        { answer: [1], why: "That is without ε. Here ε = 10⁻⁵ is ten times σ² = 10⁻⁶." },
        { answer: [1e-3 / (1e-3 + 1e-5)], why: "ε is inside the root, added to the variance, not to σ." },
        { answer: [1e-3 / (1e-3 + Math.sqrt(1e-5))], why: "The root of a sum is not the sum of the roots: add σ² and ε first." },
        { answer: [1 / 11], why: "That is the variance of the output. Take the root." },
        { answer: [1e-3 / Math.sqrt(1e-3 + 1e-5)], why: "Under the root stands the variance σ² = 10⁻⁶, not σ." },
        { answer: [Math.sqrt(11)], why: "That is the reciprocal. The output has less spread than 1, never more." },
      ],
      why: "10⁻³ / √(10⁻⁶ + 10⁻⁵) = 1/√11 ≈ 0.302.",
      hint: "σ² = 10⁻⁶, so the variance plus ε is 1.1 × 10⁻⁵.",
      solution: "σ / √(σ² + ε) = 10⁻³ / √(1.1 × 10⁻⁵) = 1/√11 ≈ 0.302.",
    },
  ],
});
