// In time: one step of an LSTM, its states over many steps, and batch norm's statistics by time step.
const [INPUTS, UNITS, BATCH] = [16, 32, 8];
const GATES = 4 * UNITS;

// ---- One step of the cell, as a diagram ----

const m = (tag, ...children) => lab.math(tag, {}, ...children);
const mi = (text) => m("mi", text);
const mo = (text) => lab.math("mo", { stretchy: "false" }, text);
const sub = (base, index) => m("msub", mi(base), typeof index === "string" ? mi(index) : index);
const before = () => m("mrow", mi("t"), mo("−"), m("mn", "1"));
const gate = (name) => sub("a", name);
const norm = (inner, index) => [mi("LN"), mo("("), ...inner, ...(index ? [mo(";"), sub("γ", index), mo(","), sub("β", index)] : []), mo(")")];
const wx = () => [mi("W"), sub("x", "t")];
const uh = () => [mi("U"), sub("h", before())];
const equation = (...parts) => m("math", ...parts);
const squash = (name, by) => [mi(name), mo("="), mi(by), mo("("), gate(name), mo(")"), m("mspace")];

// The parts: a name for the menu, the equation, and what to know about it.
const PARTS = [
  ["wx", "W x", () => equation(...wx()), "What the input contributes to all four gates: 4H numbers for H units."],
  ["lnx", "norm of W x", () => equation(...norm(wx(), "x")), "One mean and one variance over these 4H numbers, for each sample and each step. The scale of W and x cancels."],
  ["uh", "U h", () => equation(...uh()), "What the previous state contributes: 4H numbers. Without a norm, the scale of U acts once per step, so it acts many times."],
  ["lnh", "norm of U h", () => equation(...norm(uh(), "h")), "Its own mean, variance, gain and bias. The scale of U and of h cancels at every step."],
  ["sum", "sum", () => equation(mi("a"), mo("="), ...norm(wx(), "x"), mo("+"), ...norm(uh(), "h"), mo("+"), mi("b")), "β of both norms and b are added here: only their sum matters, so one of the three is enough."],
  ["gates", "gates", () => equation(...squash("i", "σ"), mo(","), ...squash("f", "σ"), mo(","), ...squash("g", "tanh"), mo(","), ...squash("o", "σ")), "Where |a| is large, σ and tanh are flat: the gate is saturated and hardly passes a gradient."],
  ["c", "cell state", () => equation(sub("c", "t"), mo("="), mi("f"), mo("∘"), sub("c", before()), mo("+"), mi("i"), mo("∘"), mi("g")), "Carried to the next step without a norm, so that a value can be kept unchanged."],
  ["lnc", "norm of c", () => equation(sub("h", "t"), mo("="), mi("o"), mo("∘"), mi("tanh"), mo("("), ...norm([sub("c", "t")], "c"), mo(")")), "Only what the gates and the next layer see is normalized. A growing cell state therefore does not saturate tanh."],
];

// Places in a wide and in a narrow drawing: boxes [part, x, y, width, text, subscript], edges [part, points].
const WIDE = {
  size: [720, 334], frame: [66, 18, 586, 262], name: [600, 34],
  others: [[2, 18, 44, 262, "step t−1"], [674, 18, 44, 262, "step t+1"]],
  words: [[110, 322, "x", "t"], [92, 40, "c", "t−1"], [66, 124, "h", "t−1"], [612, 66, "c", "t"], [612, 252, "h", "t"]],
  boxes: [["wx", 120, 218, 44, "W"], ["uh", 120, 138, 44, "U"], ["lnx", 194, 218, 52, "LN", "", true], ["lnh", 194, 138, 52, "LN", "", true], ["sum", 262, 252, 34, "b"],
    ["gates", 352, 112, 62, "f: σ"], ["gates", 352, 158, 62, "i: σ"], ["gates", 352, 198, 62, "g: tanh"], ["gates", 352, 238, 62, "o: σ"],
    ["lnc", 540, 114, 52, "LN", "", true], ["lnc", 540, 176, 56, "tanh"]],
  dots: [["sum", 262, 178, "+"], ["c", 352, 52, "×"], ["c", 432, 178, "×"], ["c", 432, 52, "+"], ["lnc", 540, 238, "×"]],
  edges: [["wx", [[110, 306], [110, 234]]], ["wx", [[142, 218], [168, 218]]], ["uh", [[46, 138], [98, 138]]], ["uh", [[142, 138], [168, 138]]],
    ["lnx", [[220, 218], [240, 218], [255, 187]]], ["lnh", [[220, 138], [240, 138], [255, 169]]], ["sum", [[262, 236], [262, 190]]],
    ["sum", [[273, 178], [298, 178], [298, 112], [321, 112]]], ["sum", [[298, 158], [321, 158]]], ["sum", [[298, 178], [298, 198], [321, 198]]], ["sum", [[298, 198], [298, 238], [321, 238]]],
    ["gates", [[352, 96], [352, 64]]], ["gates", [[383, 158], [406, 158], [423, 171]]], ["gates", [[383, 198], [406, 198], [423, 185]]], ["gates", [[383, 238], [528, 238]]],
    ["c", [[46, 52], [340, 52]]], ["c", [[363, 52], [420, 52]]], ["c", [[432, 167], [432, 64]]], ["c", [[443, 52], [674, 52]]],
    ["lnc", [[540, 52], [540, 98]]], ["lnc", [[540, 130], [540, 160]]], ["lnc", [[540, 192], [540, 226]]], ["lnc", [[551, 238], [674, 238]]]],
};
const NARROW = {
  size: [340, 474], frame: [4, 44, 332, 386], name: [262, 62],
  others: [[4, 4, 332, 28, "step t−1"], [4, 442, 332, 28, "step t+1"]],
  words: [[20, 92, "x", "t"], [214, 54, "h", "t−1"], [322, 78, "c", "t−1"], [320, 420, "c", "t"], [66, 418, "h", "t"]],
  boxes: [["wx", 84, 92, 44, "W"], ["uh", 190, 92, 44, "U"], ["lnx", 84, 142, 52, "LN", "", true], ["lnh", 190, 142, 52, "LN", "", true], ["sum", 56, 192, 34, "b"],
    ["gates", 44, 260, 58, "o: σ"], ["gates", 110, 260, 62, "g: tanh"], ["gates", 174, 260, 58, "i: σ"], ["gates", 238, 260, 58, "f: σ"],
    ["lnc", 226, 392, 52, "LN", "", true], ["lnc", 138, 392, 56, "tanh"]],
  dots: [["sum", 137, 192, "+"], ["c", 304, 304, "×"], ["c", 142, 318, "×"], ["c", 304, 348, "+"], ["lnc", 44, 392, "×"]],
  edges: [["wx", [[32, 92], [62, 92]]], ["wx", [[84, 108], [84, 126]]], ["uh", [[190, 32], [190, 76]]], ["uh", [[190, 108], [190, 126]]],
    ["lnx", [[84, 158], [84, 172], [127, 186]]], ["lnh", [[190, 158], [190, 172], [147, 186]]], ["sum", [[73, 192], [125, 192]]],
    ["sum", [[137, 203], [137, 224], [44, 224], [44, 244]]], ["sum", [[110, 224], [110, 244]]], ["sum", [[137, 224], [174, 224], [174, 244]]], ["sum", [[174, 224], [238, 224], [238, 244]]],
    ["gates", [[44, 276], [44, 380]]], ["gates", [[110, 276], [110, 294], [132, 311]]], ["gates", [[174, 276], [174, 294], [152, 311]]], ["gates", [[238, 276], [238, 304], [292, 304]]],
    ["c", [[304, 32], [304, 292]]], ["c", [[304, 315], [304, 336]]], ["c", [[142, 329], [142, 348], [292, 348]]], ["c", [[304, 359], [304, 442]]],
    ["lnc", [[304, 392], [252, 392]]], ["lnc", [[200, 392], [166, 392]]], ["lnc", [[110, 392], [56, 392]]], ["lnc", [[44, 403], [44, 442]]]],
};

const { word, arrow } = lab.diagram;

function cellDiagram(width) {
  const { size, frame, name, others, words, boxes, dots, edges } = width < 560 ? NARROW : WIDE;
  const svg = lab.svg("svg", { class: "diagram", viewBox: `0 0 ${size.join(" ")}`, role: "img", style: `max-width:${size[0] * 1.15}px`,
    "aria-label": "One step of a layer-normalized LSTM. W x and U h are normalized separately and added to a bias b; the sum gives the gates f, i, g and o. The cell state c is f times the old one plus i times g, and goes on without a norm. A normalized copy of it goes through tanh, is multiplied by o, and becomes the state h." });
  const box = ([x, y, w, h, text], tall) => lab.svg("g", {}, lab.svg("rect", { class: "other", x, y, width: w, height: h, rx: 8 }), lab.svg("text", { class: "small", transform: `translate(${x + w / 2} ${y + h / 2})${tall ? " rotate(-90)" : ""}` }, text));
  svg.append(lab.svg("rect", { class: "frame", x: frame[0], y: frame[1], width: frame[2], height: frame[3], rx: 12 }), word(...name, "step t", "", "small"), ...others.map((one) => box(one, one[3] > one[2])));
  const groups = new Map(PARTS.map(([id]) => [id, lab.svg("g", { class: "part", "data-part": id })]));
  for (const [part, points] of edges) groups.get(part).append(...arrow(points));
  for (const [part, x, y, w, text, , isNorm] of boxes) groups.get(part).append(lab.svg("g", { class: isNorm ? "norm" : null }, lab.diagram.box(x, y, w, text)));
  for (const [part, x, y, text] of dots) groups.get(part).append(lab.diagram.dot(x, y, text));
  svg.append(...groups.values(), ...words.map(([x, y, text, below]) => word(x, y, text, below)));
  return { svg, groups };
}

function cellFigure(view) {
  const choice = lab.options(view, { name: "part", label: "Part", options: PARTS.map(([id, text]) => [id, text]), start: "lnx", changed: () => show(choice.value) });
  const holder = lab.el("div", { class: "holder" });
  const told = lab.el("div", { class: "equation", "aria-live": "polite" });
  let groups = new Map();
  let shown = null;
  function show(id) {
    groups.forEach((group, part) => group.classList.toggle("lit", part === id));
    if (shown === id) return;
    shown = id;
    const [, , formula, words] = PARTS.find(([part]) => part === id);
    told.replaceChildren(formula(), lab.el("p", {}, words));
  }
  const under = (event) => event.target.closest?.("[data-part]")?.dataset.part;
  holder.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") show(under(event) ?? choice.value); });
  holder.addEventListener("pointerleave", () => show(choice.value));
  holder.addEventListener("click", (event) => { const part = under(event); if (part) choice.set(part); });
  return {
    parts: [holder, told, lab.controls(choice.node)],
    draw(width) {
      const made = cellDiagram(width);
      groups = made.groups;
      holder.replaceChildren(made.svg);
      show(choice.value);
    },
    table: () => ({ columns: ["part", "equation", "what it does"], rows: PARTS.map(([, name, formula, words]) => [name, lab.mathText(formula()), words]) }),
    restore() { choice.restore(); show(choice.value); },
  };
}

// ---- The cell over many steps ----

// |a| from which a gate is saturated, as in the study of dynamics: σ is 0.95, or the tanh of the candidate g is.
const [SATURATED, SATURATED_TANH] = [Math.log(0.95 / 0.05), Math.atanh(0.95)];

const uniforms = lab.random(11);
const NOISE = Float32Array.from({ length: 200 * BATCH * INPUTS }, () => uniforms.normal());
const size = ({ shape }) => shape.reduce((product, length) => product * length, 1);

// The same weights for both cells: those of the normalized one. Biases are 0, gains 1. `marks` are 1 at the weights, which the
// figure scales, and 0 elsewhere.
let known = null;
async function cells() {
  if (known) return known;
  const named = (variant) => ["cellParameters", { kind: "lstm", variant, input: INPUTS, hidden: UNITS, seed: 1 }];
  const [paper, none] = await lab.compute([named("paper"), named("none")]);
  const part = ({ parameters, layout }, name) => { const found = layout.find((one) => one.name === name); return parameters.subarray(found.offset, found.offset + size(found)); };
  const weights = { w: part(paper, "input_weight"), u: part(paper, "recurrent_weight") };
  const make = ({ parameters, layout }, start) => {
    const [filled, marks] = [start ? parameters.slice() : new Float32Array(parameters.length), new Float32Array(parameters.length)];
    for (const [name, values] of [["input_weight", weights.w], ["recurrent_weight", weights.u]]) {
      part({ parameters: filled, layout }, name).set(values);
      part({ parameters: marks, layout }, name).fill(1);
    }
    return { filled, marks };
  };
  known = { weights, none: make(none, false), paper: make(paper, true) };
  return known;
}

const LIMITS = Float64Array.from({ length: GATES }, (_, at) => (Math.floor(at / UNITS) === 2 ? SATURATED_TANH : SATURATED));

// Statistics by step: the mean length of h, mean and spread of c, shares in % of saturated gates and states.
function statistics(calls, { h, c }, a, steps) {
  const states = [steps, BATCH * UNITS, 1];
  const percent = (marks, shape) => calls.evaluate("100 * share", { share: calls.statistics(marks, shape).mean }, { double: true });
  const { mean, deviation: spread } = calls.statistics(c, states);
  return {
    length: calls.statistics(calls.statistics(h, [steps * BATCH, UNITS, 1]).length, [steps, BATCH, 1]).mean, mean, spread,
    high: percent(calls.evaluate("abs(h) > 0.9", { h }), states),
    flat: percent(calls.evaluate("abs(a) > limit", { a }, { columns: { limit: LIMITS }, width: GATES }), [steps, BATCH * GATES, 1]),
  };
}

async function simulate({ steps, weights: scale, inputs }) {
  const { weights, none, paper } = await cells();
  const count = steps * BATCH;
  const noise = NOISE.subarray(0, count * INPUTS);
  const scaled = (calls, x, factor) => calls.evaluate("factor * x", { x, factor });
  const first = lab.calls();
  const x = scaled(first, noise, inputs);
  const run = (variant, { filled, marks }) => first.cell({ kind: "lstm", variant, input: INPUTS, hidden: UNITS, steps, batch: BATCH, x, parameters: first.evaluate("mark * scale * p + (1 - mark) * p", { p: filled, mark: marks, scale }) });
  const states = await first.run([run("none", none), run("paper", paper)]);
  const then = lab.calls();
  const zx = then.product(scaled(then, noise, inputs), scaled(then, weights.w, scale), [count, INPUTS, GATES], "b");
  const recurrent = scaled(then, weights.u, scale);
  const results = states.map((state, index) => {
    const old = new Float32Array(count * UNITS); // the states one step before
    old.set(state.h.subarray(0, (count - BATCH) * UNITS), BATCH * UNITS);
    const terms = [zx, then.product(old, recurrent, [count, UNITS, GATES], "b")].map((z) => (index === 1 ? then.norm({ kind: "layer", x: z, shape: [count, GATES] }).y : z));
    return statistics(then, state, then.evaluate("a + b", { a: terms[0], b: terms[1] }), steps);
  });
  const rows = (found) => Array.from(found.length, (_, step) => Object.fromEntries(Object.entries(found).map(([name, values]) => [name, values[step]])));
  const [without, layer] = (await then.run(results)).map(rows);
  return { steps, weights: scale, inputs, none: without, layer };
}

const NAMES = ["no norm", "layer norm"];
const STEP = { label: "time step" };
const PLOTS = [
  { id: "length", title: "Length of the state", y: { label: "‖h‖, mean of the batch", log: true, low: 0.003, high: 8 }, of: ({ length }) => length },
  { id: "flat", title: "Saturated gates", y: { label: "saturated gates", unit: "%", low: 0, high: 100 }, of: ({ flat }) => flat },
  { id: "cell", title: "Cell state: mean and spread", y: { label: "c" }, of: ({ mean }) => mean, lo: ({ mean, spread }) => mean - spread, hi: ({ mean, spread }) => mean + spread },
  { id: "high", title: "Saturated states: |h| above 0.9", y: { label: "saturated h", unit: "%", low: 0, high: 20 }, of: ({ high }) => high },
];

let last = null; // the newest result of the figure, for the exercise

// The legend of the first plot serves all.
function plots(result, view) {
  const x = result.none.map((_, step) => step + 1);
  return PLOTS.map(({ id, title, y, of, lo, hi }) => {
    const series = [result.none, result.layer].map((steps, index) => ({ name: NAMES[index], x, y: steps.map(of), ...(lo ? { lo: steps.map(lo), hi: steps.map(hi) } : {}) }));
    return { title, chart: lab.charts.lines({ id, title, see: "Both networks by time step.", x: STEP, y, series }, view) };
  });
}

function runFigure(view) {
  const scale = { min: -1, max: 1, step: 0.05, start: 1, log: true, text: (value) => `× ${lab.number(value, 2)}`, changed: () => ask() };
  const controls = {
    steps: lab.slider(view, { name: "steps", label: "Time steps", min: 10, max: 200, step: 10, start: 100, text: String, changed: () => ask() }),
    weights: lab.slider(view, { ...scale, name: "weights", label: "Scale of W and U", start: 5 }),
    inputs: lab.slider(view, { ...scale, name: "inputs", label: "Scale of the input x" }),
  };
  const trouble = lab.trouble();
  const panels = lab.plots(PLOTS.length);
  const told = lab.el("p", { class: "readout", "aria-live": "polite" });
  let started = false;
  const wanted = () => Object.fromEntries(Object.entries(controls).map(([name, { value }]) => [name, value]));
  const compute = lab.latest(() => simulate(wanted()), (result) => {
    trouble.clear();
    last = result;
    panels.show(plots(result, view));
    const [none, layer] = [result.none, result.layer].map((steps) => steps.at(-1));
    told.replaceChildren(...[[`‖h‖ at step ${result.steps}`, "length", ""], ["saturated gates", "flat", " %"]].map(([name, key, unit]) =>
      lab.el("span", {}, `${name}: no norm `, lab.el("b", {}, lab.number(none[key], 3) + unit), ", layer norm ", lab.el("b", {}, lab.number(layer[key], 3) + unit))));
  }, trouble.show);
  async function ask() {
    told.setAttribute("aria-busy", "true");
    await compute();
    if (Object.entries(wanted()).every(([name, value]) => last?.[name] === value)) told.removeAttribute("aria-busy");
  }
  return {
    parts: [lab.controls(controls.weights.node, controls.inputs.node, controls.steps.node), trouble.node, ...panels.parts, told],
    draw(width) {
      panels.draw(width);
      if (!started) ask();
      started = true;
    },
    table() {
      const columns = ["time step", ...NAMES.flatMap((name) => ["‖h‖", "mean of c", "spread of c", "saturated gates (%)", "saturated h (%)"].map((what) => `${name}: ${what}`))];
      const cells = ({ length, mean, spread, flat, high }) => [length, mean, spread, flat, high];
      return { columns, rows: (last?.none ?? []).map((none, step) => [step + 1, ...cells(none), ...cells(last.layer[step])]) };
    },
    notes: [`${UNITS} units, ${BATCH} sequences of normal noise with ${INPUTS} values per step. The weights are those of layernorm's initialization “paper”; biases are 0. A gate is saturated if σ is below 0.05 or above 0.95, or |tanh| above 0.95.`],
    restore() {
      Object.values(controls).forEach((control) => control.restore());
      panels.restore();
      if (started) ask();
    },
  };
}

// ---- Batch norm's statistics by time step ----

const [ROWS, WIDTH, MOST] = [14, 14, 128];

// The mean and spread of every unit of h over a batch at each step, for two batches of digits, and the mean over all steps of
// the first.
let reader = null; // the digits and the weights, fetched once
async function byStep(size) {
  reader ??= await lab.compute([["digits", {}], ["cellParameters", { kind: "lstm", variant: "none", input: WIDTH, hidden: UNITS, seed: 3 }]]);
  const [{ x }, { parameters }] = reader;
  const batch = (first) => Float32Array.from({ length: ROWS * size * WIDTH }, (_, at) => {
    const [step, sample, column] = [Math.floor(at / (size * WIDTH)), Math.floor(at / WIDTH) % size, at % WIDTH];
    return x[(first + sample) * ROWS * WIDTH + step * WIDTH + column];
  });
  const calls = lab.calls();
  const larger = calls.evaluate("4 * p", { p: parameters });
  const read = (first) => {
    const { h } = calls.cell({ kind: "lstm", variant: "none", input: WIDTH, hidden: UNITS, steps: ROWS, batch: size, x: batch(first), parameters: larger });
    const { mean, deviation } = calls.statistics(h, [ROWS, size, UNITS]);
    return { mean, deviation, all: calls.statistics(mean, [1, ROWS, UNITS]).mean };
  };
  const runs = await calls.run([0, MOST].map(read));
  return {
    batches: runs.map(({ mean, deviation }) => Array.from({ length: UNITS }, (_, unit) => Array.from({ length: ROWS }, (_, step) => ({ mean: mean[step * UNITS + unit], spread: deviation[step * UNITS + unit] })))),
    all: runs[0].all,
  };
}

function stepsFigure(view) {
  const unit = lab.slider(view, { name: "unit", label: "Unit of h", min: 1, max: UNITS, step: 1, start: 4, text: (value) => `${value} of ${UNITS}`, changed: () => make() });
  const size = lab.slider(view, { name: "batch", label: "Batch size", min: 2, max: MOST, step: 2, start: 32, text: String, changed: () => ask() });
  const trouble = lab.trouble();
  const holder = lab.el("div", { class: "holder" });
  let result = null;
  let chart = null;
  let across = 0;
  let started = false;
  const ask = lab.latest(() => byStep(size.value), (found) => { trouble.clear(); result = found; make(); }, trouble.show);
  function make() {
    if (!result) return;
    const x = Array.from({ length: ROWS }, (_, step) => step + 1);
    const [first, second] = result.batches.map((units) => units[unit.value - 1]);
    const all = result.all[unit.value - 1];
    const series = [
      { name: "first batch", x, y: first.map(({ mean }) => mean), lo: first.map(({ mean, spread }) => mean - spread), hi: first.map(({ mean, spread }) => mean + spread) },
      { name: "second batch", x, y: second.map(({ mean }) => mean) },
      { name: "one mean for all steps", x, y: x.map(() => all), dashed: true },
    ];
    chart = lab.charts.lines({ id: "steps", title: "Mean of one unit of h by time step", see: "Over two batches, and one mean for all steps.", x: { label: "time step (row of the image)" }, y: { label: "mean of h over the batch" }, series }, view);
    holder.style.minHeight = "";
    holder.replaceChildren(...chart.parts);
    // The band here is a spread over samples.
    holder.querySelectorAll(".extra").forEach((extra) => { extra.textContent = "band: standard deviation over the first batch"; });
    chart.draw(across);
  }
  return {
    parts: [lab.controls(unit.node, size.node), trouble.node, holder],
    draw(width) {
      across = width;
      if (!chart) holder.style.minHeight = `${lab.plotHeight(width) + 70}px`;
      if (!started) ask();
      started = true;
      chart?.draw(width);
    },
    table() {
      const rows = result ? result.batches[0].flatMap((steps, index) => steps.map(({ mean, spread }, step) => [index + 1, step + 1, mean, spread, result.batches[1][index][step].mean, result.batches[1][index][step].spread])) : [];
      return { columns: ["unit", "time step", "first batch: mean", "first batch: standard deviation", "second batch: mean", "second batch: standard deviation"], rows };
    },
    notes: ["An LSTM without a norm reads digits of 14 × 14 pixels row by row; its initial weights are multiplied by 4."],
    restore() {
      unit.restore();
      size.restore();
      chart?.restore();
      if (started) ask();
    },
  };
}

lab.chapter("time", {
  figures: {
    cell: { title: "One step of a layer-normalized LSTM", see: "Point at a part of the cell, or choose one by its name, to see its equation. Blue boxes are the three norms: two before the gates, one before tanh.", make: cellFigure },
    run: { title: "The state over time, without a norm and with layer norm", see: "Small weights or inputs let the state without a norm fade; large ones saturate its gates. Layer norm's curves stay where they are, whatever the scale.", make: runFigure },
    steps: { title: "Mean of one unit of h over a batch, by time step", see: "The mean and the spread are different at every step: the first rows of a digit are blank, so the spread is near 0 there. One mean for all steps fits few of them. Small batches estimate each of these means badly.", make: stepsFigure },
  },
  exercises: [
    {
      id: "biases", kind: "choice",
      options: [
        { text: "βₓ + 1 and b + 1", why: "The sum grows by 2, so every gate moves." },
        { text: "βₓ + 1 and βₕ − 1", right: true, why: "The sum βₓ + βₕ + b is the same, and nothing else sees the three vectors. One vector of 4H numbers is enough." },
        { text: "γₓ · 2 and γₕ ÷ 2", why: "Each gain scales its own normalized term. The terms differ, so the sum changes." },
        { text: "c multiplied by 2 before it is carried to the next step", why: "The norm of c would cancel this factor where c is read, but c is also the memory: f∘c would grow against i∘g at the next step." },
      ],
      hint: "Write the sum a with all its terms. Which of them do not depend on x or h?",
      solution: "βₓ + 1 and βₕ − 1: the cell uses only the sum βₓ + βₕ + b, which stays the same.",
    },
    {
      id: "fade", kind: "task", button: "Check the figure",
      check: async () => {
        if (!last) return { right: false, why: "The figure has not computed anything yet: scroll to it first." };
        const [none, layer] = [last.none.at(-1).length, last.layer.at(-1).length];
        if (none < 0.05) return { right: true, why: `Without a norm ‖h‖ is ${lab.number(none, 2)}; with layer norm it is ${lab.number(layer, 3)}, as for any other scale.` };
        if (last.none.at(-1).flat > 25) return { right: false, why: `That is the other direction: ${lab.number(last.none.at(-1).flat, 2)} % of the gates without a norm are saturated, and ‖h‖ is ${lab.number(none, 2)}. Make the scales smaller.` };
        return { right: false, why: `Not yet: ‖h‖ without a norm is ${lab.number(none, 2)} at the last step.` };
      },
      hint: "The scales of W and of x multiply each other.",
      solution: "Set both scales to about 0.2 or less. Layer norm's curve does not move, because LN(sWx) = LN(Wx) for every s > 0, up to ε.",
    },
    {
      id: "stored", kind: "numbers", labels: ["numbers stored"], answer: [14336], tolerance: 0.5,
      mistakes: [
        { answer: [1024], why: "That is one set for all steps. Here every step has its own." },
        { answer: [7168], why: "Half of it: there are two norms, and each has means and variances." },
        { answer: [3584], why: "W x and U h have four numbers per unit, one for each gate." },
        { answer: [1792], why: "W x and U h have four numbers per unit, and each norm has means and variances." },
        { answer: [0], why: "That is layer norm's answer: it needs no stored statistics." },
      ],
      hint: "Both products have 4 · 64 values.",
      solution: "2 norms · 4 · 64 values · 2 statistics · 14 steps = 14 336. A longer sequence has steps without any statistics.",
      why: "2 · 256 · 2 · 14. Layer norm stores none.",
    },
  ],
});
