// In a Transformer: where the norm stands, what it does to a deep stack, and RMS norm.
const m = (tag, ...children) => lab.math(tag, {}, ...children);
const mi = (text) => m("mi", text);
const mo = (text) => lab.math("mo", { stretchy: "false" }, text);

// ---- The block, with the norm in the branch or in the stream ----

const PLACES = {
  pre: { words: "Pre-norm: the norm is the first part of the branch. The green stream has no norm from the input to the output, so values and gradients pass it unchanged. One more norm follows the last block." },
  post: { words: "Post-norm: the norm follows the addition. Every value and every gradient in the stream passes two norms in each block." },
};
const NORMS = { layer: ["LN", "norm"], rms: ["RMS", "norm rms"] };

function formula(place, norm) {
  const normed = (...inner) => [mi(NORMS[norm][0]), mo("("), ...inner, mo(")")];
  const branch = (...inner) => [mi("F"), mo("("), ...inner, mo(")")];
  const right = place === "pre" ? [mi("x"), mo("+"), ...branch(...normed(mi("x")))] : normed(mi("x"), mo("+"), ...branch(mi("x")));
  return m("math", mi("x"), mo("←"), ...right);
}

// Drawn from left to right; on a narrow screen from top to bottom.
function blockDiagram(place, norm, narrow) {
  const at = ([x, y]) => (narrow ? [78 + (132 - y) * 1.75, 26 + x * 0.68] : [x, y]);
  const size = narrow ? [340, 524] : [720, 190];
  const [label, name] = NORMS[norm];
  const svg = lab.svg("svg", { class: "diagram", viewBox: `0 0 ${size.join(" ")}`, role: "img", style: `max-width:${size[0] * 1.15}px`,
    "aria-label": place === "pre" ? "A pre-norm block: a norm, then attention, added to the stream; a norm, then an MLP, added to the stream. No norm is in the stream itself." : "A post-norm block: attention is added to the stream and a norm follows; an MLP is added to the stream and a norm follows." });
  const stream = lab.svg("g", { class: "stream" });
  const rest = lab.svg("g", {});
  const line = (group, ...points) => group.append(...lab.diagram.arrow(points.map(at)));
  const box = (x, y, text, className = null) => rest.append(lab.svg("g", { class: className }, lab.diagram.box(...at([x, y]), text.length > 5 ? 94 : 58, text)));
  // Half the size of a box in the direction of the flow, in the units of x.
  const half = (text) => (narrow ? 16 / 0.68 : text.length > 5 ? 47 : 29);
  const round = narrow ? 11 / 0.68 : 11;
  const rise = narrow ? 11 / 1.75 : 11;
  let from = 26;
  for (const [index, text] of ["attention", "MLP"].entries()) {
    const start = 40 + 335 * index;
    const sum = start + (place === "pre" ? 290 : 212);
    const boxes = place === "pre" ? [[start + 74, label, name], [start + 194, text]] : [[start + 106, text]];
    const turn = start + 4;
    let last = [[turn, 132], [turn, 52]];
    for (const [x, words, className] of boxes) {
      line(rest, ...last, [x - half(words), 52]);
      box(x, 52, words, className);
      last = [[x + half(words), 52]];
    }
    line(rest, ...last, [sum, 52], [sum, 132 - rise]);
    line(stream, [from, 132], [sum - round, 132]);
    rest.append(lab.diagram.dot(...at([sum, 132]), "+"));
    from = sum + round;
    if (place === "post") {
      const x = sum + 68;
      line(stream, [from, 132], [x - half(label), 132]);
      box(x, 132, label, name);
      from = x + half(label);
    }
  }
  line(stream, [from, 132], [706, 132]);
  svg.append(stream, rest, ...[[10, "x", "in"], [706, "x", "out"]].map(([x, text, below]) => lab.diagram.word(...(narrow ? [30, x === 10 ? 44 : 506] : [x + (x === 10 ? 8 : -8), 160]), text, below)),
    lab.diagram.word(...(narrow ? [34, 270] : [500, 172]), narrow ? "stream" : "residual stream", "", "small"));
  return svg;
}

function blockFigure(view) {
  const place = lab.options(view, { name: "place", label: "Place of the norm", options: [["pre", "pre-norm"], ["post", "post-norm"]], changed: () => paint() });
  const norm = lab.options(view, { name: "norm", label: "Norm", options: [["layer", "layer norm"], ["rms", "RMS norm"]], changed: () => paint() });
  const holder = lab.el("div", { class: "holder" });
  const told = lab.el("div", { class: "equation", "aria-live": "polite" });
  let across = 0;
  function paint() {
    if (across) holder.replaceChildren(blockDiagram(place.value, norm.value, across < 560));
    told.replaceChildren(formula(place.value, norm.value), lab.el("p", {}, PLACES[place.value].words));
  }
  return {
    parts: [lab.controls(place.node, norm.node), holder, told],
    draw(width) { across = width; paint(); },
    table: () => ({ columns: ["place of the norm", "norm", "one branch", "where the norm is"],
      rows: Object.keys(PLACES).flatMap((where) => Object.keys(NORMS).map((kind) => [`${where}-norm`, NORMS[kind][0], lab.mathText(formula(where, kind)), PLACES[where].words])) }),
    restore() { place.restore(); norm.restore(); paint(); },
  };
}

// ---- A stack of residual branches: the stream forward, the gradient backward ----

const [WIDTH, HIDDEN, ROWS] = [64, 64, 16];
const SHAPE = [ROWS, WIDTH];
const KINDS = ["pre", "post", "none"];
const NAMES = { pre: "pre-norm", post: "post-norm", none: "no norm" };

const normal = (seed, length, spread) => { const random = lab.random(seed); return Float32Array.from({ length }, () => spread * random.normal()); };
const cache = [];
// A branch is W₂ max(0, W₁ v); the block of figure 8.1 has two. Of a row v with variance 1 it makes values of variance 1 on average.
function weights(block) {
  cache[block] ??= { first: normal(1000 + 2 * block, HIDDEN * WIDTH, Math.sqrt(1 / WIDTH)), second: normal(1001 + 2 * block, WIDTH * HIDDEN, Math.sqrt(2 / HIDDEN)) };
  return cache[block];
}

const WHOLE = [1, ROWS * WIDTH, 1];

async function stack({ blocks, scale }) {
  const calls = lab.calls();
  const norm = (x) => calls.norm({ kind: "layer", x, shape: SHAPE }).y;
  const normBack = (x, dy) => calls.normBackward({ kind: "layer", x, dy, shape: SHAPE }).dx;
  // Rows × matrixᵀ, and rows × matrix for the way back. A matrix is [outer, inner].
  const forward = (rows, matrix, inner, outer) => calls.product(rows, matrix, [ROWS, inner, outer], "b");
  const backward = (rows, matrix, inner, outer) => calls.product(rows, matrix, [ROWS, outer, inner]);
  const spread = (x) => calls.statistics(x, WHOLE).deviation;
  const start = normal(1, ROWS * WIDTH, 1);
  const x = { pre: start, post: start, none: start };
  const deviations = Object.fromEntries(KINDS.map((kind) => [kind, [spread(start)]]));
  const kept = [];
  for (let block = 0; block < blocks; block += 1) {
    const { first, second } = weights(block);
    const now = Object.fromEntries(KINDS.map((kind) => {
      const hidden = calls.evaluate("max(0, z)", { z: forward(kind === "pre" ? norm(x.pre) : x[kind], first, WIDTH, HIDDEN) });
      return [kind, { input: x[kind], hidden, sum: calls.evaluate("x + scale * f", { x: x[kind], scale, f: forward(hidden, second, HIDDEN, WIDTH) }) }];
    }));
    kept.push(now);
    Object.assign(x, { pre: now.pre.sum, post: norm(now.post.sum), none: now.none.sum });
    KINDS.forEach((kind) => deviations[kind].push(spread(x[kind])));
  }
  // A random gradient of length 1 enters at the output; with pre-norm through the final norm.
  const entering = normal(2, ROWS * WIDTH, 1);
  const unit = calls.evaluate("d / size", { d: entering }, { rows: { size: calls.statistics(entering, WHOLE).length }, width: ROWS * WIDTH });
  const dx = { pre: normBack(x.pre, unit), post: unit, none: unit };
  const gradients = { pre: [], post: [], none: [] };
  for (let block = blocks - 1; block >= 0; block -= 1) {
    const { first, second } = weights(block);
    const now = kept[block];
    dx.post = normBack(now.post.sum, dx.post);
    for (const kind of KINDS) {
      gradients[kind][block] = calls.statistics(dx[kind], WHOLE).length;
      const hidden = calls.evaluate("scale * d * (h > 0)", { scale, d: backward(dx[kind], second, HIDDEN, WIDTH), h: now[kind].hidden });
      const branch = backward(hidden, first, WIDTH, HIDDEN);
      dx[kind] = calls.evaluate("d + branch", { d: dx[kind], branch: kind === "pre" ? normBack(now.pre.input, branch) : branch });
    }
  }
  const last = (kind) => gradients[kind].at(-1);
  const ratio = calls.evaluate("post / pre", { post: last("post"), pre: last("pre") }, { double: true });
  const made = await calls.run({ deviations, gradients, ratio });
  const numbers = (values) => Object.fromEntries(KINDS.map((kind) => [kind, values[kind].map(([value]) => value)]));
  return { blocks, scale, deviations: numbers(made.deviations), gradients: numbers(made.gradients), ratio: made.ratio[0] };
}

let deepest = null; // the newest result, for the exercise

function depthFigure(view) {
  const controls = {
    blocks: lab.slider(view, { name: "blocks", label: "Branches, N", min: 1, max: 48, step: 1, start: 12, text: String, changed: () => compute() }),
    scale: lab.slider(view, { name: "scale", label: "Scale of a branch, σ", min: -1, max: 0.5, step: 0.05, start: 1, log: true, text: (value) => lab.number(value, 2), changed: () => compute() }),
  };
  const trouble = lab.trouble();
  const panels = lab.plots(2);
  const told = lab.el("p", { class: "readout", "aria-live": "polite" });
  let started = false;
  const series = (values, from) => KINDS.map((kind) => ({ name: NAMES[kind], x: values[kind].map((_, at) => at + from), y: values[kind] }));
  const run = lab.latest(() => stack({ blocks: controls.blocks.value, scale: controls.scale.value }), (result) => {
    trouble.clear();
    deepest = result;
    panels.show([
      ["Standard deviation of the stream", { label: "standard deviation", log: true }, series(result.deviations, 0)],
      ["Gradient reaching each branch", { label: "length of the gradient", log: true }, series(result.gradients, 1)],
    ].map(([title, y, of], index) => ({ title, chart: lab.charts.lines({ id: `depth-${index}`, title, see: "By branch, for three places of the norm.", x: { label: index ? "branch" : "after branch" }, y, series: of }, view) })));
    const say = (name, values) => lab.el("span", {}, `${name}: `, KINDS.flatMap((kind, at) => [at ? ", " : "", `${NAMES[kind]} `, lab.el("b", {}, lab.number(values[kind].at(-1), 3))]));
    told.replaceChildren(say("Stream after the last branch", result.deviations), say("Gradient at the last branch", result.gradients),
      lab.el("span", {}, "post-norm / pre-norm there: ", lab.el("b", {}, lab.number(result.ratio, 3))));
  }, trouble.show);
  async function compute() {
    told.setAttribute("aria-busy", "true");
    await run();
    if (deepest?.blocks === controls.blocks.value && deepest.scale === controls.scale.value) told.removeAttribute("aria-busy");
  }
  return {
    parts: [lab.controls(controls.blocks.node, controls.scale.node), trouble.node, ...panels.parts, told],
    draw(width) {
      panels.draw(width);
      if (!started) compute();
      started = true;
    },
    table() {
      if (!deepest) return { columns: ["branch"], rows: [] };
      const columns = ["branch", ...KINDS.map((kind) => `${NAMES[kind]}: standard deviation after it`), ...KINDS.map((kind) => `${NAMES[kind]}: gradient`)];
      return { columns, rows: Array.from({ length: deepest.blocks }, (_, at) => [at + 1, ...KINDS.map((kind) => deepest.deviations[kind][at + 1]), ...KINDS.map((kind) => deepest.gradients[kind][at])]) };
    },
    notes: [`${ROWS} rows of ${WIDTH} values. A branch is a random linear layer, ReLU and a random linear layer; it makes values of variance σ² from a row of variance 1. The gradient is that of the sum x + F at each branch, when a random gradient of length 1 enters at the output; pre-norm has a final norm. There is no attention.`],
    restore() {
      Object.values(controls).forEach((control) => control.restore());
      panels.restore();
      if (started) compute();
    },
  };
}

// ---- RMS norm and layer norm on one row ----

const VALUES = 12;
const MEANS = Array.from({ length: 41 }, (_, at) => (at - 20) / 4);
const raw = normal(5, VALUES, 1);
const LINES = [MEANS.length + 1, VALUES, 1];

async function compareNorms({ mean, deviation }) {
  const calls = lab.calls();
  // The row with mean 0 and standard deviation 1, then scaled and shifted.
  const base = calls.statistics(raw, [1, VALUES, 1]);
  const standard = calls.evaluate("(v - mean) / spread", { v: raw }, { rows: { mean: base.mean, spread: base.deviation }, width: VALUES, double: true });
  const x = calls.evaluate("center + deviation * v", { deviation }, { rows: { center: Float64Array.from([mean, ...MEANS]) }, columns: { v: standard }, width: VALUES });
  const [layer, rms] = ["layer", "rms"].map((kind) => calls.norm({ kind, x, shape: LINES.slice(0, 2) }).y);
  const dot = calls.statistics(calls.evaluate("a * b", { a: layer, b: rms }, { double: true }), LINES).sum;
  const [a, b] = [layer, rms].map((y) => calls.statistics(y, LINES).length);
  const angles = calls.evaluate(`acos(max(-1, min(1, dot / (a * b)))) * 180 / ${Math.PI}`, { dot, a, b }, { double: true });
  const difference = calls.statistics(calls.evaluate("abs(a - b)", { a: layer, b: rms }), LINES).most;
  const made = await calls.run({ x, layer, rms, angles, difference });
  const first = (values) => [...values.subarray(0, VALUES)];
  return { mean, deviation, layer: first(made.layer), rms: first(made.rms), input: first(made.x), angle: made.angles[0], angles: [...made.angles.subarray(1)], difference: made.difference[0] };
}

function rmsFigure(view) {
  const controls = {
    mean: lab.slider(view, { name: "mean", label: "Mean of the row", min: -5, max: 5, step: 0.25, start: 2, text: (value) => lab.number(value, 3), changed: () => compute() }),
    deviation: lab.slider(view, { name: "deviation", label: "Standard deviation of the row", min: -1, max: 1, step: 0.05, start: 1, log: true, text: (value) => lab.number(value, 2), changed: () => compute() }),
  };
  const trouble = lab.trouble();
  const panels = lab.plots(2, { common: false });
  const told = lab.el("p", { class: "readout", "aria-live": "polite" });
  let result = null;
  let started = false;
  const compute = lab.latest(() => compareNorms({ mean: controls.mean.value, deviation: controls.deviation.value }), (found) => {
    trouble.clear();
    result = found;
    const x = Array.from({ length: VALUES }, (_, at) => at + 1);
    // Each plot keeps its own hidden lines.
    const own = (id) => ({ get: (name, fallback) => view.get(`${id}-${name}`, fallback), set: (name, value) => view.set(`${id}-${name}`, value), redraw: () => panels.draw() });
    const lines = (id, title, axes, series) => ({ title, chart: lab.charts.lines({ id, title, see: "RMS norm and layer norm.", ...axes, series }, own(id)) });
    panels.show([
      lines("outputs", "Outputs for one row", { x: { label: "value of the row" }, y: { label: "output", low: -3.2, high: 3.2 } }, [{ name: "layer norm", x, y: [...found.layer] }, { name: "RMS norm", x, y: [...found.rms], dashed: true }]),
      lines("angle", "Angle between them", { x: { label: "mean of the row" }, y: { label: "angle", unit: "degrees", low: 0, high: 90 } }, [{ name: "every mean", x: MEANS, y: found.angles }, { name: "this row", x: [found.mean], y: [found.angle] }]),
    ]);
    told.replaceChildren(...[["Largest difference", lab.number(found.difference, 3)], ["angle", `${lab.number(found.angle, 3)}°`]].map(([name, text]) => lab.el("span", {}, `${name}: `, lab.el("b", {}, text))));
  }, trouble.show);
  return {
    parts: [lab.controls(controls.mean.node, controls.deviation.node), trouble.node, ...panels.parts, told],
    draw(width) {
      panels.draw(width);
      if (!started) compute();
      started = true;
    },
    table: () => ({ columns: ["value", "input", "layer norm", "RMS norm"], rows: result ? result.input.map((value, at) => [at + 1, value, result.layer[at], result.rms[at]]) : [] }),
    restore() {
      Object.values(controls).forEach((control) => control.restore());
      panels.restore();
      if (started) compute();
    },
  };
}

lab.chapter("blocks", {
  figures: {
    block: { title: "The norm in the branch, or in the stream", see: "Follow the green residual stream from left to right, or from top to bottom on a narrow screen: with pre-norm no norm is in its way.", make: blockFigure },
    depth: { title: "A stack of residual branches at the start of training", see: "The stream grows slowly with pre-norm, stays at 1 with post-norm, and explodes without a norm. At the last branches, pre-norm's gradient is small and post-norm's is not.", make: depthFigure },
    rms: { title: "RMS norm and layer norm of one row", see: "Both give the same numbers when the mean of the row is 0. The larger the mean is against the standard deviation, the more RMS norm's outputs are the same number.", make: rmsFigure },
  },
  exercises: [
    {
      id: "grow", kind: "numbers", labels: ["standard deviation"], answer: [7], tolerance: 0.005,
      mistakes: [
        { answer: [49], why: "That is the variance: take the root." },
        { answer: [48], why: "That is the variance without that of the input. Add 1, and take the root." },
        { answer: [Math.sqrt(48)], why: "The input has variance 1 too." },
        { answer: [Math.sqrt(97)], why: "That is the answer for 48 blocks, which have 96 branches. The question counts branches." },
        { answer: [97], why: "That is the variance after 48 blocks, which have 96 branches. The question counts branches, and asks for the root." },
        { answer: [Math.sqrt(96)], why: "The question counts 48 branches, not 48 blocks with two each. And the input has variance 1 too." },
        { answer: [5], why: "That is √(1 + 24): one branch for each of 24 blocks. A block has two." },
        { answer: [1], why: "That is post-norm. With pre-norm there is no norm in the stream." },
      ],
      mistake: ([value]) => (value > 1e3 ? "That is growth without a norm. With pre-norm each branch reads a normalized row, so each adds the same variance." : null),
      hint: "Variances of independent values add.",
      solution: "The variance is 1 + 48 · 1 = 49, so the standard deviation is 7. Set figure 8.2 to 48 branches and σ = 1 to compare.",
      why: "√(1 + 48) = 7. In figure 8.2, with 48 branches and σ = 1, the value is close to it.",
    },
    {
      id: "ratio", kind: "task", button: "Check the figure",
      check: async () => {
        if (!deepest) return { right: false, why: "The figure has not computed anything yet: scroll to it first." };
        const found = lab.number(deepest.ratio, 3);
        if (deepest.ratio >= 4) return { right: true, why: `${found} times as large at branch ${deepest.blocks}: with post-norm, a step at the same learning rate moves this branch's weights much further.` };
        return { right: false, why: deepest.blocks < 28 ? `It is ${found} times as large. ${deepest.blocks} branches are not enough: pre-norm's gradient shrinks like 1/√N.` : `It is ${found} times as large with ${deepest.blocks} branches. Change σ: what does it do to the stream of pre-norm?` };
      },
      hint: "Pre-norm's gradient at the end is about 1 divided by the stream's standard deviation.",
      solution: "48 branches and σ = 1. The stream of pre-norm then has a standard deviation of about 7.",
    },
    {
      id: "angle", kind: "numbers", labels: ["divisor", "angle"], answer: [5, 36.87], tolerance: 0.06,
      mistakes: [
        { answer: [4, 36.87], why: "4 is layer norm's divisor. RMS norm does not subtract the mean, so the mean is in its root." },
        { answer: [7, 36.87], why: "Squares add, not the numbers: √(3² + 4²)." },
        { answer: [5, 53.13], why: "The divisor is right. This is the angle to the constant vector: the cosine of the angle between the outputs is σ/√(μ² + σ²), not μ/√(μ² + σ²)." },
        { answer: [5, 0.6435], why: "Right, but in radians: the question asks for degrees." },
        { answer: [25, 36.87], why: "That is the mean square: take the root." },
      ],
      mistake: ([divisor]) => (Math.abs(divisor - 5) < 0.06 ? "The divisor is right. The angle: layer norm's output points along x − μ, RMS norm's along x." : null),
      hint: "The mean square is μ² + σ². Layer norm's output has the direction of x − μ, RMS norm's that of x; x − μ and the constant μ are orthogonal.",
      solution: "√(9 + 16) = 5. cos = σ/√(μ² + σ²) = 4/5, an angle of 36.87°.",
      why: "√(3² + 4²) = 5 and arccos(4/5) = 36.87°.",
    },
  ],
});
