// Chapter backward: the gradient of layer norm, taken apart, and checked against finite differences.
const NAMES = ["x", "dy", "γ"];
const PLACES = ["1", "2", "3", "4"];
const N = 4;
const UNIT = 2 ** -24; // half the distance from 1 to the next 32-bit number
const BEST = 2 ** -7; // step of the differences in units of the standard deviation
const EPS = 1e-5;

const floats = (values) => Float32Array.from(values);
const doubles = (values) => Float64Array.from(values);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
const greatest = (values) => Math.max(...[...values].map(Math.abs));
const shown = (value) => (Math.abs(value) < 1e-12 ? "0" : lab.number(value, 3));

const asNumbers = (view, changed, start) => lab.numbers(view, { name: "row", label: "x, dy and γ of one row", start, rowNames: NAMES, columnNames: PLACES, changed });

// ---- The gradient in four steps.

let silent = null; // what the exercise about a dx of zero looks at

function makeGradient(view) {
  let width = 0;
  let found = null;
  const trouble = lab.trouble();
  const numbers = asNumbers(view, () => ask(), [[1, 2, 4, 5], [-0.5, 1, 0.25, 2], [1, 1, 2, 1]]);
  const eps = lab.options(view, { name: "eps", label: "ε", options: [["0", "0"], ["1e-5", "10⁻⁵"], ["1", "1"]], start: "0", changed: () => ask() });
  const panels = lab.el("div", { class: "gradient-panels holder" });
  const body = lab.el("tbody", {});
  const sums = lab.el("p", { class: "readout" });
  const key = (mark, text) => lab.el("span", {}, lab.svg("svg", { class: "swatch", width: 22, height: 12, viewBox: "0 0 22 12", "aria-hidden": "true" }, mark), text);

  const ask = lab.latest(
    async () => {
      const [x, dy, gain] = numbers.value.map((row) => [...row]);
      const each = Number(eps.value);
      const shape = [1, N];
      const calls = lab.calls();
      const { y: xhat, rstd } = calls.norm({ kind: "layer", x: floats(x), shape, eps: each });
      const { dx, dgain, dbias } = calls.normBackward({ kind: "layer", x: floats(x), dy: floats(dy), gain: floats(gain), shape, eps: each });
      const evaluate = (formula, values, rows = {}) => calls.evaluate(formula, values, { rows, width: N, double: true });
      const over = (values) => calls.statistics(values, [1, N, 1]);
      const dxhat = evaluate("dy * gain", { dy: doubles(dy), gain: doubles(gain) });
      const along1 = over(dxhat).mean;
      const alongX = over(evaluate("d * xhat", { d: dxhat, xhat })).mean;
      const centered = evaluate("d - along1", { d: dxhat }, { along1 });
      const rest = evaluate("d - xhat * alongX", { d: centered, xhat }, { alongX });
      const sums = Object.fromEntries(Object.entries({ dxhat, centered, rest, dx }).map(([name, values]) => [name, [over(values).sum, over(evaluate("d * xhat", { d: values, xhat })).sum]]));
      const made = await calls.run({ xhat, rstd, dx, dgain, dbias, dxhat, along1, alongX, centered, rest, sums, along: evaluate("xhat * alongX", { xhat }, { alongX }), remains: evaluate("eps * rstd * rstd", { eps: each, rstd }) });
      const lists = Object.fromEntries(["xhat", "dx", "dgain", "dbias", "dxhat", "centered", "rest", "along"].map((name) => [name, [...made[name]]]));
      const single = Object.fromEntries(["rstd", "along1", "alongX", "remains"].map((name) => [name, made[name][0]]));
      return { x, dy, gain, eps: each, sums: made.sums, ...lists, ...single };
    },
    (result) => {
      if (!result.dx.every(lab.isNumber) || !lab.isNumber(result.rstd)) {
        found = null;
        panels.replaceChildren();
        body.replaceChildren();
        sums.replaceChildren();
        const equal = result.x.every((value) => value === result.x[0]);
        trouble.show(new Error(equal ? "all x are equal and ε = 0, so the norm divides by zero. Choose a larger ε, or other x." : "the numbers are too large or too close together for 32 bits."));
        return;
      }
      trouble.clear();
      found = result;
      paint();
    },
    trouble.show);
  silent = () => found;

  function panel({ heading, values, sums: [[sum], [along]], before = null, removed = null, color, domain, label }, each) {
    const plot = lab.plot({ width: each, height: 180, x: { axis: { label }, names: PLACES }, y: { axis: { label: "" }, domain }, bare: true, label: `${heading}: ${values.map((value) => lab.number(value, 3)).join(", ")}. Sum ${shown(clean(sum))}, sum of products with x̂ ${shown(clean(along))}.` });
    const half = plot.x.step * 0.34;
    const zero = plot.y.at(0);
    values.forEach((value, at) => {
      const box = (height) => ({ x: plot.x.at(at) - half, width: 2 * half, y: Math.min(plot.y.at(height), zero), height: Math.abs(plot.y.at(height) - zero) });
      if (before) plot.marks.append(lab.svg("rect", { class: "gradient-before", ...box(before[at]) }));
      plot.marks.append(lab.svg("rect", { class: "gradient-bar", ...box(value), style: `fill:${color}` }));
      if (removed) plot.marks.append(lab.svg("path", { class: "gradient-removed", d: `M${plot.x.at(at) - half - 3},${plot.y.at(removed[at])}h${2 * half + 6}` }));
    });
    plot.marks.append(lab.svg("path", { class: "baseline", d: `M${plot.left},${zero}H${plot.right}` }));
    const item = (name, value) => [`${name}: `, lab.el("b", {}, shown(clean(value)))];
    return lab.el("div", {}, lab.el("h4", {}, heading), plot.svg, lab.el("p", {}, item("sum", sum), lab.el("br", {}), item("sum of products with x̂", along)));
  }
  // Sums of four 32-bit numbers: what is below their rounding is zero.
  const clean = (value) => (Math.abs(value) <= 16 * UNIT * Math.max(greatest(found.dxhat), found.rstd * greatest(found.dxhat)) ? 0 : value);
  function paint() {
    if (!width || !found) return;
    const { dxhat, centered, rest, dx, xhat, rstd, along1, along, remains } = found;
    const columns = width >= 640 ? 4 : 2;
    panels.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const each = Math.floor((width - (columns - 1) * 17) / columns);
    const domain = lab.domain({}, [...dxhat, ...centered, ...rest, along1, ...along], { zero: true, pad: 0.08 });
    // A round number for dx, so that its axis has ticks; rounding errors do not fill it.
    const most = Math.max(greatest(dx), 1e-3 * rstd * greatest(dxhat)) || 1;
    const round = 10 ** Math.floor(Math.log10(most));
    const limit = round * [1, 2, 5, 10].find((each) => each * round >= most * 0.999);
    const last = [-limit, limit];
    panels.replaceChildren(...[
      { heading: "1. dx̂ = γ · dy", values: dxhat, sums: found.sums.dxhat, removed: dxhat.map(() => along1), color: "var(--c6)", domain },
      { heading: "2. minus mean(dx̂)", values: centered, sums: found.sums.centered, before: dxhat, removed: along, color: "color-mix(in oklab, var(--c0) 55%, var(--paper))", domain },
      { heading: "3. minus x̂ · mean(dx̂ · x̂)", values: rest, sums: found.sums.rest, before: centered, color: "color-mix(in oklab, var(--c0) 55%, var(--paper))", domain },
      { heading: `4. times rstd (${lab.number(rstd, 3)}): dx`, values: dx, sums: found.sums.dx, color: "var(--c0)", domain: last },
    ].map((one) => panel({ label: "", ...one }, each)));
    const row = (name, values) => lab.el("tr", {}, lab.el("th", { scope: "row" }, name), values.map((value) => lab.el("td", {}, shown(clean(value)))));
    body.replaceChildren(row("x̂", xhat), row("dx", dx), row("dγ", found.dgain), row("dβ", found.dbias));
    sums.replaceChildren(
      lab.el("span", {}, "Σ dx = ", lab.el("b", {}, shown(clean(found.sums.dx[0][0])))),
      lab.el("span", {}, "Σ dx · x̂ = ", lab.el("b", {}, shown(clean(found.sums.dx[1][0])))),
      lab.el("span", {}, found.eps ? `share of the x̂ component that remains: ε/(σ² + ε) = ${lab.number(remains, 3)}` : "nothing of the x̂ component remains"));
  }
  return {
    parts: [lab.el("div", { class: "difference-top" }, lab.wide("The row", numbers.node), lab.controls(eps.node)), trouble.node,
      lab.el("div", { class: "gradient-key" },
        key(lab.svg("path", { class: "gradient-removed", d: "M2,6h18" }), "removed in the next step"),
        key(lab.svg("rect", { class: "gradient-before", x: 5, y: 1, width: 12, height: 10 }), "before this step")),
      panels, lab.el("div", { class: "gradient-result" }, lab.wide("Results", lab.el("table", {}, lab.el("thead", {}, lab.el("tr", {}, lab.el("td", {}), PLACES.map((text) => lab.el("th", { scope: "col" }, text)))), body))), sums],
    notes: ["x̂, rstd, dx, dγ and dβ are those of the library’s layer norm; the steps between them follow the formula. Sums below the rounding of 32-bit numbers are shown as 0."],
    draw(to) {
      width = to;
      if (found) paint();
      else ask();
    },
    table: () => ({ columns: ["position", "x", "dy", "γ", "x̂", "dx̂", "dx̂ − mean", "without the x̂ component", "dx", "dγ", "dβ"], rows: found ? PLACES.map((place, at) => [Number(place), found.x[at], found.dy[at], found.gain[at], found.xhat[at], found.dxhat[at], found.centered[at], found.rest[at], found.dx[at], found.dgain[at], found.dbias[at]]) : [] }),
    restore() {
      numbers.restore();
      eps.restore();
      if (width) ask();
    },
  };
}

// ---- Finite differences.

// Central differences of L = Σ dy·y for all steps at once, from the engine's forward, and the engine's backward.
// Two bounds for each: rounding: y has an error of about UNIT · (largest |x| · rstd + 3 |x̂|) for each γ, all signs bad, in
// both rows, divided by the step; truncation: Richardson's estimate, a third of the difference from the double step.
async function differences({ x, dy, gain }, factors) {
  const points = [...floats(x)];
  const double = true;
  const first = lab.calls();
  const { mean: middle, variance } = first.statistics(doubles(points), [1, N, 1]);
  const of = await first.run({ middle, scale: first.evaluate("sqrt(variance + eps)", { variance, eps: EPS }, { double }) });
  const [m, scale] = [of.middle[0], of.scale[0]];
  const steps = factors.flatMap((factor) => [factor * scale, 2 * factor * scale]);
  const rows = [];
  const widths = [];
  for (const h of steps)
    for (let j = 0; j < N; j += 1) {
      const [up, down] = [Math.fround(points[j] + h), Math.fround(points[j] - h)];
      widths.push(up - down);
      rows.push(...points.map((value, at) => (at === j ? up : value)), ...points.map((value, at) => (at === j ? down : value)));
    }
  const calls = lab.calls();
  const count = rows.length / N;
  const { y } = calls.norm({ kind: "layer", x: floats(rows), gain: floats(gain), shape: [count, N], eps: EPS });
  const { dx } = calls.normBackward({ kind: "layer", x: floats(points), dy: floats(dy), gain: floats(gain), shape: [1, N], eps: EPS });
  const loss = calls.statistics(calls.evaluate("dy * y", { y }, { columns: { dy: doubles(dy) }, width: N, double }), [count, N, 1]).sum;
  // Of pairs of lines, the first minus the second.
  const apart = (values, shape) => calls.statistics(calls.evaluate("sign * x", { x: values }, { rows: { sign: Float64Array.from({ length: 2 * shape[0] }, (_, at) => (at % 2 ? -1 : 1)) }, width: shape[2], double }), shape).sum;
  const slope = calls.evaluate("change / width", { change: apart(loss, [count / 2, 2, 1]), width: doubles(widths) }, { double });
  const noise = calls.statistics(calls.evaluate("unit * abs(dy * gain) * (largest + 3 * abs(x - m)) / scale", { unit: UNIT, dy: doubles(dy), gain: doubles(gain), largest: greatest(points), x: doubles(points), m, scale }, { double }), [1, N, 1]).sum;
  const wide = { rows: { noise }, width: factors.length, double };
  const rounding = calls.evaluate("2 * noise / h", { h: doubles(factors.map((factor) => factor * scale)) }, wide);
  const tolerance = calls.evaluate("rounding + 2 * abs(change) / 3", { change: apart(slope, [factors.length, 2, N]) }, { rows: { rounding }, width: N, double });
  const gaps = calls.evaluate("abs(slope - dx)", { slope }, { columns: { dx }, width: N, double });
  const made = await calls.run({ dx, slope, rounding, tolerance, gaps, error: calls.statistics(gaps, [2 * factors.length, N, 1]).most });
  // Each step is followed by the double one.
  const part = (values, at, stride) => [...values.subarray(stride * at, stride * at + N)];
  return {
    exact: [...made.dx], scale, mean: m, points,
    at: factors.map((factor, at) => ({ h: factor * scale, slope: part(made.slope, at, 2 * N), gaps: part(made.gaps, at, 2 * N), rounding: made.rounding[at], tolerance: part(made.tolerance, at, N), error: made.error[2 * at] })),
  };
}

// What a learner may have computed instead.
function wrongGradients({ x, dy, gain }) {
  const n = x.length;
  const dxhat = dy.map((value, at) => value * gain[at]);
  const m = mean(x);
  const sum = dot(x.map((value) => value - m), x.map((value) => value - m));
  const with_ = (rstd, parts) => {
    const xhat = x.map((value) => (value - m) * rstd);
    return parts(xhat, rstd);
  };
  const rstd = 1 / Math.sqrt(sum / n + EPS);
  const unbiased = 1 / Math.sqrt(sum / (n - 1) + EPS);
  const full = (from, keep1 = 1, keep2 = 1) => (xhat, r) => from.map((value, at) => r * (value - keep1 * mean(from) - keep2 * xhat[at] * (dot(from, xhat) / n)));
  const over = (divisor) => (xhat, r) => dxhat.map((value, at) => r * (value - (dot(dxhat, xhat.map(() => 1))) / n - (xhat[at] * dot(dxhat, xhat)) / divisor));
  return [
    [with_(rstd, full(dxhat, 0, 1)), "The mean term is missing: subtract mean(dx̂). Your dx does not sum to 0; μ depends on every x too."],
    [with_(rstd, full(dxhat, 1, 0)), "The x̂ term is missing: subtract x̂ · mean(dx̂ · x̂). It is there because σ depends on every x too."],
    [with_(rstd, full(dxhat, 0, 0)), "Both means are missing: μ and σ are no constants, they depend on every x."],
    [with_(rstd, full(dxhat)).map((value) => value / rstd), "The factor rstd is missing: multiply everything by 1/√(σ² + ε)."],
    [with_(rstd, full(dxhat)).map((value) => value / rstd ** 2), "You multiplied by σ. The factor is rstd = 1/√(σ² + ε)."],
    [with_(rstd, full(dy)), "γ is missing: start from dx̂ = γ · dy."],
    [with_(rstd, full(dy)).map((value, at) => value * gain[at]), "γ comes first: dx̂ = γ · dy, then the means. You multiplied by γ at the end."],
    [with_(unbiased, full(dxhat)), "That is with the unbiased variance, divided by n − 1. Layer norm divides by n."],
    [with_(unbiased, over(n - 1)), "That is the gradient of a norm with the unbiased variance, divided by n − 1. Layer norm divides by n."],
    [with_(rstd, (xhat, r) => dxhat.map((value, at) => r * (value - mean(dxhat) + (xhat[at] * dot(dxhat, xhat)) / n))), "The x̂ term has the wrong sign: it is subtracted."],
    [with_(rstd, (xhat, r) => dxhat.map((value, at) => r * (value + mean(dxhat) - (xhat[at] * dot(dxhat, xhat)) / n))), "The mean term has the wrong sign: it is subtracted."],
    [with_(rstd, full(dxhat)).map((value) => -value), "The sign is the opposite."],
    [with_(rstd, (xhat, r) => dxhat.map((value, at) => r * (value - n * mean(dxhat) - xhat[at] * dot(dxhat, xhat)))), "These are sums where the means belong: divide both by n = 4."],
    [with_(rstd, (xhat, r) => dxhat.map((value, at) => r * (value - mean(dxhat) - dot(dxhat, xhat) / n))), "The second mean is multiplied by x̂ of each position before it is subtracted."],
    [dxhat, "That is dx̂. It still has to go back through the division and the two statistics."],
  ];
}

let compared = null; // the example of the figure and its differences, for the exercise

function makeDifference(view) {
  // Up to an eighth of the standard deviation: beyond it, doubling the step no longer tells the truncation.
  const FACTORS = Array.from({ length: 35 }, (_, at) => 2 ** (-20 + at / 2));
  let width = 0;
  let found = null;
  const trouble = lab.trouble();
  const numbers = asNumbers(view, () => ask(), [[1, 3, 3, 9], [1, 0, -1, 2], [2, 1, 1, 1]]);
  const step = lab.slider(view, { name: "step", label: "step h, in units of √(σ² + ε)", min: Math.log10(2 ** -20), max: Math.log10(2 ** -3), step: Math.log10(2) / 2, start: BEST, log: true, text: (value) => `2${power(Math.round(2 * Math.log2(value)) / 2)}`, changed: () => ask() });
  const reveal = lab.toggle(view, { name: "reveal", label: "Show the gradients", changed: () => paint() });
  const holder = lab.el("div", { class: "holder" });
  const readout = lab.el("p", { class: "readout" });
  const body = lab.el("tbody", {});
  const result = lab.el("div", { class: "gradient-result", hidden: true }, lab.wide("Gradients", lab.el("table", {}, lab.el("thead", {}, lab.el("tr", {}, lab.el("td", {}), ["central difference", "normBackward", "difference", "tolerance"].map((text) => lab.el("th", { scope: "col" }, text)))), body)));
  const example = () => { const [x, dy, gain] = numbers.value.map((row) => [...row]); return { x, dy, gain }; };
  compared = async () => { const now = example(); return { ...now, ...(await differences(now, [BEST])) }; };

  const ask = lab.latest(
    async () => {
      const chosen = step.value;
      const all = await differences(example(), [...FACTORS, chosen]);
      return { ...all, curve: all.at.slice(0, -1), now: all.at.at(-1) };
    },
    (made) => {
      if (!made.exact.every(lab.isNumber)) throw new Error("the numbers are too large for 32 bits.");
      found = made;
      trouble.clear();
      paint();
    },
    trouble.show);

  function paint() {
    if (!width || !found) return;
    const { curve, now, exact } = found;
    const bound = (one) => greatest(one.tolerance);
    const floor = 1e-8;
    const positive = (value) => (lab.isNumber(value) ? Math.max(value, floor) : NaN);
    const values = curve.flatMap((one) => [positive(one.error), positive(bound(one))]);
    const plot = lab.plot({ width, height: lab.clamp(Math.round(width * 0.42), 230, 310), x: { axis: { label: "step h", log: true }, domain: [curve[0].h, curve.at(-1).h] }, y: { axis: { label: "largest error of dx", log: true }, domain: lab.domain({ log: true }, [...values, positive(now.error)]) },
      label: `Largest difference between central differences and the backward pass against the step, falling, then rising. At h = ${lab.number(now.h, 2)} it is ${lab.number(now.error, 2)}; the tolerance there is ${lab.number(bound(now), 2)}.` });
    const line = (pick) => lab.path(curve.map((one) => [plot.x.at(one.h), plot.y.at(positive(pick(one)))]));
    plot.marks.append(lab.svg("path", { class: "line", d: line(bound), style: "stroke:var(--c1)", "stroke-dasharray": "7 4" }),
      lab.svg("path", { class: "line", d: line((one) => one.error), style: "stroke:var(--c0)" }));
    if (lab.isNumber(now.error)) plot.svg.append(lab.svg("path", { class: "difference-now", d: lab.marker("circle", 6.5), transform: `translate(${plot.x.at(now.h)} ${plot.y.at(positive(now.error))})`, style: "fill:var(--c4);stroke:var(--ink);stroke-width:1.6" }));
    const named = (text, one, pick, dy) => plot.svg.append(lab.svg("text", { class: "inside", x: plot.x.at(one.h) + 4, y: plot.y.at(positive(pick(one))) + dy }, text));
    named("tolerance", curve[6], bound, -8);
    named("error", curve[2], (one) => one.error, 20);
    holder.replaceChildren(plot.svg);
    const item = (name, value) => lab.el("span", {}, `${name} `, lab.el("b", {}, value));
    readout.replaceChildren(item("h", lab.number(now.h, 3)), item("largest error", lab.number(now.error, 2)), item("tolerance", lab.number(bound(now), 2)));
    result.hidden = !reveal.value;
    body.replaceChildren(...exact.map((value, at) => {
      const apart = now.gaps[at];
      const good = apart <= now.tolerance[at];
      return lab.el("tr", {}, lab.el("th", { scope: "row" }, `dx${"₁₂₃₄"[at]}`), lab.el("td", {}, lab.number(now.slope[at], 6)), lab.el("td", {}, lab.number(value, 6)), lab.el("td", { class: good ? "agrees" : "differs" }, `${good ? "✓ " : "✕ "}${lab.number(apart, 2)}`), lab.el("td", {}, lab.number(now.tolerance[at], 2)));
    }));
  }
  return {
    parts: [lab.el("div", { class: "difference-top" }, lab.wide("The row", numbers.node), lab.controls(step.node, reveal.node)), trouble.node, holder, readout, result],
    notes: ["Tolerance, for each dx: rounding, 2 · 2⁻²⁴ · Σ |γ dy| (max|x| · rstd + 3 |x̂|) / h, because every y carries a rounding error of this size and the sum over it is divided by h; plus truncation, ⅔ of the change when h is doubled (twice Richardson's estimate, which holds up to about h = σ/8). ε = 10⁻⁵."],
    draw(to) {
      width = to;
      if (found) paint();
      else ask();
    },
    table: () => ({ columns: ["h", "largest error", "largest tolerance"], rows: (found?.curve ?? []).map((one) => [one.h, one.error, greatest(one.tolerance)]) }),
    restore() {
      numbers.restore();
      step.restore();
      reveal.restore();
      if (width) ask();
    },
  };
}
const power = (exponent) => (Number.isInteger(exponent) ? lab.power(exponent).slice(2) : `^${lab.number(exponent, 3)}`);

// The learner's numbers are rounded: half a percent of the largest, on top of the differences' own tolerance.
let last = null;
const room = () => Math.max(...last.at[0].tolerance) + 0.005 * greatest(last.exact);

lab.chapter("backward", {
  figures: {
    gradient: {
      title: "The gradient loses two components",
      see: "Bars are the gradient at the four positions. Step 2 removes the mean, so the bars sum to zero. Step 3 removes the part that follows x̂, so that its sum of products with x̂ is zero, exactly if ε = 0. Step 4 scales what is left.",
      make: makeGradient,
    },
    difference: {
      title: "Finite differences, step by step size",
      see: "Error of the central differences against the engine's backward pass. To the left rounding dominates, to the right curvature; the dashed tolerance, derived from both, stays above the error.",
      make: makeDifference,
    },
  },
  exercises: [
    {
      id: "silent", kind: "task", button: "Check the figure",
      check: async () => {
        const now = silent();
        if (!now) return { right: false, why: "The figure shows no gradient. Scroll to it, and give x that are not all equal." };
        if (now.eps !== 0) return { right: false, why: `ε is ${lab.number(now.eps, 2)}. Set it to 0: otherwise a part along x̂ remains.` };
        if (now.gain.some((value) => value !== 1)) return { right: false, why: "Set every γ to 1, so that dx̂ = dy." };
        const size = greatest(now.dy);
        if (size === 0) return { right: false, why: "dy is zero everywhere: that is too easy." };
        if (greatest(now.dx) <= 0.002 * size * now.rstd) return { right: true, why: "This dy is a combination of (1, …, 1) and x̂, the two directions that the norm removes." };
        const [flat, follows] = [greatest(now.centered) <= 1e-6 * size, Math.abs(now.alongX) > 1e-3 * size];
        return { right: false, why: `The largest |dx| is ${lab.number(greatest(now.dx), 2)}. ${flat ? "" : follows ? "Step 3 leaves something: choose a dy that is wholly removed, by step 2 or by step 3." : "Nothing of dy is along x̂ here. Which dy has only a mean?"}` };
      },
      hint: "The norm does not notice a constant added to the row.",
      solution: "Any constant dy, such as (1, 1, 1, 1); or dy = x, which is a constant plus a multiple of x̂; or a sum of such.",
    },
    {
      id: "your-gradient", kind: "numbers", labels: ["dx₁", "dx₂", "dx₃", "dx₄"],
      answer: async () => {
        last = await compared();
        return last.at[0].slope;
      },
      tolerance: room,
      mistake: (found) => {
        const largest = greatest(last.exact);
        const close = ([values]) => greatest(values.map((value, at) => value - found[at])) <= Math.max(room(), 0.005 * greatest(values));
        const known = wrongGradients(last).find(close);
        if (known) return known[1];
        const off = greatest(found.map((value, at) => value - last.at[0].slope[at]));
        if (off <= 0.02 * largest) return "Almost: the numbers are rounded too much. Give three decimals.";
        const total = found.reduce((sum, value) => sum + value, 0);
        const wrong = found.map((value, at) => (Math.abs(value - last.at[0].slope[at]) <= room() ? null : `dx${"₁₂₃₄"[at]}`)).filter(Boolean);
        const sum = Math.abs(total) > 0.02 * largest + 4 * room() ? ` Your numbers sum to ${lab.number(total, 3)}; a gradient through layer norm sums to 0.` : "";
        return `${wrong.join(", ")} ${wrong.length > 1 ? "differ" : "differs"} from the finite differences.${sum}`;
      },
      why: () => `Your numbers agree with the central differences. The backward pass agrees with them to ${lab.number(last.at[0].error, 2)}; the tolerance is ${lab.number(greatest(last.at[0].tolerance), 2)}.`,
      hint: "x̂ = (x − 4)/3 and dx̂ = γ · dy. Then the two means, then the formula of step 5.",
      solution: "For the first numbers: x̂ = (−1, −⅓, −⅓, 5/3), dx̂ = (2, 0, −1, 2), mean(dx̂) = 0.75, mean(dx̂ · x̂) = 5/12. So dx = ⅓ (dx̂ − 0.75 − x̂ · 5/12) = (0.556, −0.204, −0.537, 0.185).",
    },
    {
      id: "parameters", kind: "numbers", labels: ["dβ₁", "dβ₂", "dγ₁", "dγ₂"], answer: [1.5, 1, 0.5, 3], tolerance: 0.005,
      mistakes: [
        { answer: [2.5, 0, 1.5, 2], why: "Wrong axis: you summed each row over its units. γ and β belong to units, so sum over the rows." },
        { answer: [0.75, 0.5, 0.25, 1.5], why: "Those are means over the rows. Every row uses the same γ and β, so the gradients add up." },
        { answer: [1.5, 1, 1.5, 1], why: "dβ is right. dγ needs the factor x̂: y = γ x̂ + β." },
        { answer: [0.5, 3, 1.5, 1], why: "dβ and dγ are swapped." },
        { answer: [1.5, 1, 1.5, 3], why: "Check the sign of dγ₁: 0.5 · (−1) + 1 · 1." },
      ],
      mistake: ([b1, b2]) => (Math.abs(b1 - 1.5) > 0.005 || Math.abs(b2 - 1) > 0.005 ? "Start with dβ: add dy of the two rows, unit by unit." : "dβ is right. dγ is the sum over rows of dy · x̂, unit by unit."),
      why: "dβ = (0.5 + 1, 2 − 1), and dγ = (−0.5 + 1, 2 + 1).",
      hint: "Sum over rows, for each unit on its own.",
      solution: "dβ = (0.5 + 1, 2 − 1) = (1.5, 1). dγ = (0.5 · (−1) + 1 · 1, 2 · 1 + (−1) · (−1)) = (0.5, 3).",
    },
  ],
});
