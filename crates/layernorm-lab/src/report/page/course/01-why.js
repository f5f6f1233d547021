// Chapter why: a deep tanh network whose weights get a scale, and the shift of a layer's input by one step of the layer below.
const [SAMPLES, UNITS, LAYERS] = [200, 64, 5];
const SATURATED = 0.97;
const RANGE = 3; // of the histograms of the second figure
const shape = [SAMPLES, UNITS];

const normals = (random, count, scale) => Float32Array.from({ length: count }, () => scale * random.normal());

// The activations of z, and the gradient of z from that of the activations.
const activate = (calls, z, on) => calls.evaluate("tanh(z)", { z: on ? calls.norm({ kind: "layer", x: z, shape }).y : z });
function activateBack(calls, z, a, da, on) {
  const dy = calls.evaluate("da * (1 - a * a)", { da, a });
  return on ? calls.normBackward({ kind: "layer", x: z, dy, shape }).dx : dy;
}
const ALL = [1, SAMPLES * UNITS, 1];

// The network of the first figure.
function deep() {
  const random = lab.random(11);
  const x = normals(random, SAMPLES * UNITS, 1);
  const weights = Array.from({ length: LAYERS }, () => normals(random, UNITS * UNITS, 1 / Math.sqrt(UNITS)));
  const top = normals(random, SAMPLES * UNITS, 1);
  // Forward through all layers, then a random gradient from the output of the last layer back to that of the first.
  return function (scale, on) {
    const calls = lab.calls();
    const layers = [];
    let a = x;
    for (const w of weights) {
      const z = calls.evaluate("s * z", { s: scale, z: calls.product(a, w, [SAMPLES, UNITS, UNITS]) });
      a = activate(calls, z, on);
      layers.push({ z, a });
    }
    const size = (values) => calls.statistics(values, ALL).length;
    const entering = size(top);
    const gradients = [];
    let da = top;
    for (let l = LAYERS - 1; l >= 0; l -= 1) {
      gradients[l] = calls.evaluate("here / entering", { here: size(da), entering }, { double: true });
      if (l) da = calls.evaluate("s * da", { s: scale, da: calls.product(activateBack(calls, layers[l].z, layers[l].a, da, on), weights[l], [SAMPLES, UNITS, UNITS], "b") });
    }
    let slopes = 1;
    const found = layers.map((one, l) => {
      const mean = (formula) => calls.statistics(calls.evaluate(formula, { a: one.a }), ALL).mean;
      const slope = mean("1 - a * a");
      slopes = calls.evaluate("slopes * slope", { slopes, slope }, { double: true });
      return { histogram: calls.histogram(one.a, -1, 1, 41), spread: calls.statistics(one.a, ALL).deviation, saturated: mean(`abs(a) > ${SATURATED}`), slope, gradient: gradients[l] };
    });
    return calls.run({ layers: found, slopes });
  };
}

// Lists of one number as numbers.
const single = (layer) => Object.fromEntries(Object.entries(layer).map(([name, value]) => [name, value instanceof Float64Array ? value[0] : value]));

const percent = (share) => (share > 0 && share < 0.001 ? "< 0.1 %" : `${lab.number(Math.round(1000 * share) / 10)} %`);
const READINGS = [
  { name: "spread", of: ({ spread }) => lab.number(spread, 2), bad: ({ spread }) => spread < 0.05 },
  { name: "saturated", of: ({ saturated }) => percent(saturated), bad: ({ saturated }) => saturated > 0.5 },
  { name: "mean slope", of: ({ slope }) => lab.number(slope, 2), bad: ({ slope }) => slope < 0.25 },
  { name: "gradient", of: ({ gradient }) => lab.number(gradient, 2), bad: ({ gradient }) => gradient < 0.01 || gradient > 100 },
];

// One row per layer: the histogram of its activations, and four numbers beside it, or below it on a narrow screen.
function rows(width, layers, on) {
  const narrow = width < 560;
  const [left, place, high] = [narrow ? 8 : 64, 82, narrow ? 96 : 66];
  const right = narrow ? width - 8 : width - 4 * place - 8;
  const [top, hill] = [narrow ? 20 : 24, narrow ? 46 : 50];
  const height = top + LAYERS * high + 22;
  const at = (value) => left + ((value + 1) / 2) * (right - left);
  const look = lab.looks([on ? "layer norm" : "no norm"])[0];
  const said = layers.map((one, l) => `layer ${l + 1}: ${READINGS.map(({ name, of }) => `${name} ${of(one)}`).join(", ")}`).join("; ");
  const svg = lab.svg("svg", { class: "plot why-layers", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Histograms of the activations of five layers, ${look.name}. ${said}.` });
  const axis = lab.svg("g", { class: "axis" });
  for (const value of [-1, -0.5, 0, 0.5, 1]) axis.append(lab.svg("path", { class: "gridline", d: `M${at(value)},${top - 4}V${height - 20}` }), lab.svg("text", { x: at(value), y: height - 5, "text-anchor": narrow && Math.abs(value) === 1 ? (value < 0 ? "start" : "end") : "middle" }, lab.tick(value, 0.5)));
  svg.append(axis);
  for (const [from, to] of [[-1, -SATURATED], [SATURATED, 1]]) svg.append(lab.svg("rect", { class: "edge", x: at(from), y: top - 4, width: at(to) - at(from), height: height - top - 16 }));
  // The names of the numbers: above their columns.
  READINGS.forEach(({ name }, column) => svg.append(lab.svg("text", { x: narrow ? left + ((column + 1) * (right - left)) / 4 - 6 : right + (column + 1) * place, y: 13, "text-anchor": "end" }, narrow ? name.replace("mean ", "") : name)));
  layers.forEach((one, l) => {
    const ground = top + l * high + (narrow ? 20 : 8) + hill;
    const most = Math.max(...one.histogram.counts);
    const { edges, counts } = one.histogram;
    const points = counts.flatMap((count, bin) => [[at(edges[bin]), ground - (count / most) * hill], [at(edges[bin + 1]), ground - (count / most) * hill]]);
    svg.append(
      lab.svg("path", { class: "hill", d: `${lab.path([[at(-1), ground], ...points, [at(1), ground]])}Z`, style: `fill:${look.color};stroke:${look.color}` }),
      lab.svg("path", { class: "baseline", d: `M${left},${ground}H${right}` }),
      lab.svg("text", { class: "layer-name", x: narrow ? left + 12 : 0, y: narrow ? ground - hill - 4 : ground - hill / 2 + 4 }, `layer ${l + 1}`));
    READINGS.forEach(({ of, bad }, column) => {
      const quarter = (right - left) / 4;
      const spot = narrow ? { x: left + (column + 1) * quarter - 6, y: ground + 16 } : { x: right + (column + 1) * place, y: ground - hill / 2 + 4 };
      svg.append(lab.svg("text", { class: `reading${bad(one) ? " bad" : ""}`, ...spot, "text-anchor": "end" }, of(one)));
    });
  });
  return svg;
}

const now = { scale: 1, on: false, layers: null, slopes: null };

function layersFigure(view) {
  let forward = null;
  const trouble = lab.trouble();
  const holder = lab.el("div", { class: "holder" });
  const readout = lab.el("p", { class: "readout", "aria-live": "polite" });
  let width = 0;
  const scale = lab.slider(view, { name: "s", label: "Scale s of the weights", min: -1, max: 1, step: 0.02, start: 1, log: true, text: (value) => lab.number(value, 2), changed: () => ask() });
  const norm = lab.toggle(view, { name: "norm", label: "Layer norm before each tanh", changed: () => ask() });
  const show = () => {
    if (!now.layers || !width) return;
    holder.replaceChildren(rows(width, now.layers, now.on));
    const fact = (name, value) => lab.el("span", {}, `${name} `, lab.el("b", {}, value));
    readout.replaceChildren(lab.el("b", {}, `s = ${lab.number(now.scale, 2)}, ${now.on ? "layer norm" : "no norm"}`), fact("Saturated in layer 5:", percent(now.layers.at(-1).saturated)), fact("Five mean slopes multiplied:", lab.number(now.slopes, 2)), fact("Gradient at layer 1, relative to layer 5:", lab.number(now.layers[0].gradient, 2)));
  };
  const ask = lab.latest(async () => {
    const wanted = { scale: scale.value, on: norm.value };
    forward ??= deep();
    const { layers, slopes } = await forward(wanted.scale, wanted.on);
    return { ...wanted, layers: layers.map(single), slopes: slopes[0] };
  }, (result) => { Object.assign(now, result); trouble.clear(); show(); }, trouble.show);
  return {
    parts: [lab.controls(scale.node, norm.node), trouble.node, holder, readout],
    draw(to) {
      width = to;
      if (now.layers) show();
      else ask();
    },
    restore() {
      scale.restore();
      norm.restore();
      if (width) ask();
    },
    table: () => ({ columns: ["layer", ...READINGS.map(({ name }) => name)], rows: (now.layers ?? []).map(({ spread, saturated, slope, gradient }, l) => [l + 1, spread, saturated, slope, gradient]) }),
  };
}

// Two layers and a linear output, squared error; the gradient of the first layer's weights, as they are after no step.
function shallow() {
  const random = lab.random(5);
  const x = normals(random, SAMPLES * UNITS, 1).map((value) => value + 0.5);
  const [first, second] = [1, 2].map(() => normals(random, UNITS * UNITS, 1 / Math.sqrt(UNITS)));
  const out = normals(random, UNITS, 1 / Math.sqrt(UNITS));
  const target = normals(random, SAMPLES, 1).map((value) => value + 2);
  const square = [SAMPLES, UNITS, UNITS];
  return async function (rate, on) {
    const calls = lab.calls();
    const norm = (z) => (on ? calls.norm({ kind: "layer", x: z, shape }).y : z);
    const forward = (w) => {
      const z1 = calls.product(x, w, square);
      const a1 = activate(calls, z1, on);
      const z2 = calls.product(a1, second, square);
      return { z1, a1, z2, y2: norm(z2) };
    };
    const { z1, a1, z2, y2: before } = forward(first);
    const a2 = calls.evaluate("tanh(y)", { y: before });
    const dy = calls.evaluate("(out - target) / n", { out: calls.product(a2, out, [SAMPLES, UNITS, 1]), target, n: SAMPLES });
    const dz2 = activateBack(calls, z2, a2, calls.product(dy, out, [SAMPLES, 1, UNITS]), on);
    const dz1 = activateBack(calls, z1, a1, calls.product(dz2, second, square, "b"), on);
    const dw = calls.product(x, dz1, [UNITS, SAMPLES, UNITS], "a");
    const { y2: after } = forward(calls.evaluate("w - rate * dw", { w: first, rate, dw }));
    const moves = calls.statistics(calls.evaluate("after - before", { after, before }), [1, SAMPLES, UNITS]).mean;
    const distance = calls.statistics(calls.evaluate("abs(moves)", { moves }), [1, UNITS, 1]).mean;
    const moved = calls.evaluate("distance / spread", { distance, spread: calls.statistics(before, ALL).deviation }, { double: true });
    const bins = (values) => calls.histogram(values, -RANGE, RANGE, 36);
    const spreads = (values) => calls.statistics(values, [SAMPLES, UNITS, 1]).deviation;
    return single(await calls.run({ before: bins(before), after: bins(after), moved, was: [spreads(before)], is: [spreads(after)] }));
  };
}

const share = (count) => (100 * count) / (SAMPLES * UNITS);

function driftPanel(width, name, { before, after }, high) {
  const look = lab.looks([name])[0];
  const plot = lab.plot({ width, height: 210, x: { axis: { label: "input of layer 2’s tanh" }, domain: [-RANGE, RANGE] }, y: { axis: { label: "share", unit: "%" }, domain: [0, high] }, label: `${name}: histogram before and after the step` });
  const outline = ({ edges, counts }) => lab.path([[plot.x.at(edges[0]), plot.bottom], ...counts.flatMap((count, bin) => [[plot.x.at(edges[bin]), plot.y.at(share(count))], [plot.x.at(edges[bin + 1]), plot.y.at(share(count))]]), [plot.x.at(edges.at(-1)), plot.bottom]]);
  plot.marks.append(lab.svg("path", { class: "hill", d: outline(after), style: `fill:${look.color};stroke:${look.color}` }), lab.svg("path", { class: "before", d: outline(before) }));
  return plot.svg;
}

function driftFigure(view) {
  let step = null;
  const trouble = lab.trouble();
  const panels = lab.el("div", { class: "why-panels holder" });
  let width = 0;
  let found = null;
  const rate = lab.slider(view, { name: "rate", label: "Step size of layer 1", min: 0, max: 4, step: 0.1, start: 1, text: (value) => lab.number(value, 2), changed: () => ask() });
  const range = (values) => [...new Set([Math.min(...values), Math.max(...values)].map((value) => lab.number(value, 2)))].join(" to ");
  const show = () => {
    if (!found || !width) return;
    const each = width < 560 ? width : Math.floor((width - 22) / 2);
    const high = 1.06 * share(Math.max(...[found.none, found.layer].flatMap(({ before, after }) => [...before.counts, ...after.counts])));
    panels.replaceChildren(...[["no norm", found.none], ["layer norm", found.layer]].map(([name, result]) => lab.el("div", {}, lab.el("h4", {}, name), driftPanel(each, name, result, high),
      lab.el("p", { class: "remark" }, `Spread within a sample: ${range(result.was[0])} before, ${range(result.is[0])} after. A unit’s mean moved by ${lab.number(result.moved, 2)} standard deviations on average.`))));
  };
  const ask = lab.latest(async () => {
    step ??= shallow();
    return { none: await step(rate.value, false), layer: await step(rate.value, true) };
  }, (result) => { found = result; trouble.clear(); show(); }, trouble.show);
  return {
    parts: [lab.controls(rate.node), trouble.node, panels],
    draw(to) {
      width = to;
      if (found) show();
      else ask();
    },
    restore() {
      rate.restore();
      if (width) ask();
    },
    table: () => ({
      columns: ["norm", "from", "to", "count before", "count after"],
      rows: found ? [["no norm", found.none], ["layer norm", found.layer]].flatMap(([name, { before, after }]) => before.counts.map((count, bin) => [name, before.edges[bin], before.edges[bin + 1], count, after.counts[bin]])) : [],
    }),
  };
}

function saturateCheck() {
  if (!now.layers) return { right: false, why: "Scroll to figure 1.1 first." };
  if (now.on) return { right: false, why: "Layer norm is on. Switch it off: with it, no scale does this." };
  const share = now.layers.at(-1).saturated;
  if (share > 0.5) return { right: true, why: `At s = ${lab.number(now.scale, 2)}, ${percent(share)} are saturated. Their slope 1 − a² is below 0.06.` };
  return { right: false, why: now.scale < 1 ? `${percent(share)} are saturated. Small weights make activations vanish; saturation needs large ones.` : `Only ${percent(share)} are saturated. Go on.` };
}

lab.chapter("why", {
  figures: {
    layers: {
      title: "Activations of five tanh layers",
      see: "Histograms of the 64 units’ activations for 200 random samples, each scaled to its highest bar. The shaded edges are saturated: |a| > 0.97. Mean slope: mean of 1 − a². Gradient: size of a random gradient after going back from layer 5 to this layer’s output.",
      make: layersFigure,
    },
    drift: {
      title: "One step of layer 1 moves the input of layer 2",
      see: "Dashed: before the step. Filled: after it. The outer bars include everything beyond. The step follows the gradient of a squared error.",
      make: driftFigure,
    },
  },
  exercises: [
    { id: "saturate", kind: "task", check: saturateCheck, button: "Check the figure", hint: "Saturation means |z| is large. Which way makes z larger?", solution: "Any scale above about 4 with the switch off." },
    {
      id: "vanish", kind: "numbers", labels: ["spread of layer 5"], answer: [1e-5], tolerance: 2e-6,
      mistakes: [
        { answer: [1e-4], why: "That is layer 4. Five layers multiply five times." },
        { answer: [1e-6], why: "One factor too many: five layers, five factors." },
        { answer: [0.5], why: "The factors multiply; they do not add." },
        { answer: [0.02], why: "Each layer multiplies by 0.1; the spread is not divided among the layers." },
        { answer: [0.1], why: "That is layer 1. The next layer multiplies again." },
      ],
      why: "0.1⁵ = 0.00001. A gradient on its way back shrinks by the same factors.",
      hint: "You can write 0.001, 1e-3 or 10^-3. Figure 1.1 can check you.", solution: "0.1 · 0.1 · 0.1 · 0.1 · 0.1 = 0.1⁵ = 0.00001.",
    },
    {
      id: "cancel", kind: "choice", options: [
        { text: "Layer norm sets the weights back to s = 1.", why: "The weights stay as they are. Layer norm works on z, not on W." },
        { text: "z and its standard deviation are both proportional to s; their quotient is not.", right: true, why: "LN(s·z) = LN(z): s cancels in the division (up to ε, which the next chapter adds)." },
        { text: "tanh limits everything to between −1 and 1.", why: "It does so without layer norm too, and there the histograms change." },
        { text: "Layer norm averages the 200 samples, which evens out the scale.", why: "Layer norm never mixes samples. It uses the 64 units of one sample." },
      ],
      hint: "What happens to the mean and the standard deviation of z if every weight doubles?",
      solution: "Doubled weights double z, its mean and its standard deviation; (z − μ)/σ stays the same.",
    },
  ],
});
