// Chapter why: a deep tanh network whose weights get a scale, and the shift of a layer's input by one step of the layer below.
const [SAMPLES, UNITS, LAYERS] = [200, 64, 5];
const SATURATED = 0.97;
const RANGE = 3; // of the histograms of the second figure
const shape = [SAMPLES, UNITS];

const normals = (random, count, scale) => Float32Array.from({ length: count }, () => scale * random.normal());

// Lets the page answer between two products, so that a slider moves smoothly.
function rest() {
  const { port1, port2 } = new MessageChannel();
  return new Promise((done) => {
    port1.onmessage = () => { port1.close(); done(); };
    port2.postMessage(null);
  });
}

// a[n, i] · w[i, j], and dz[n, j] · w[i, j], times a scale.
async function times(a, w, scale) {
  await rest();
  const z = new Float32Array(SAMPLES * UNITS);
  for (let n = 0; n < SAMPLES; n += 1)
    for (let i = 0; i < UNITS; i += 1) {
      const factor = scale * a[n * UNITS + i];
      for (let j = 0; j < UNITS; j += 1) z[n * UNITS + j] += factor * w[i * UNITS + j];
    }
  return z;
}
async function back(dz, w, scale) {
  await rest();
  const da = new Float32Array(SAMPLES * UNITS);
  for (let n = 0; n < SAMPLES; n += 1)
    for (let i = 0; i < UNITS; i += 1) {
      let sum = 0;
      for (let j = 0; j < UNITS; j += 1) sum += dz[n * UNITS + j] * w[i * UNITS + j];
      da[n * UNITS + i] = scale * sum;
    }
  return da;
}

const length = (values) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
function average(values) {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}
function deviation(values) {
  const mean = average(values);
  let sum = 0;
  for (const value of values) sum += (value - mean) ** 2;
  return Math.sqrt(sum / values.length);
}
const slopes = (dy, a) => dy.map((value, at) => value * (1 - a[at] * a[at]));
const normalize = async (z, on) => (on ? (await lab.compute("norm", { kind: "layer", x: z, shape })).y : z);
const normalizeBack = async (z, dy, on) => (on ? (await lab.compute("normBackward", { kind: "layer", x: z, dy, shape })).dx : dy);

// The network of the first figure.
function deep() {
  const random = lab.random(11);
  const x = normals(random, SAMPLES * UNITS, 1);
  const weights = Array.from({ length: LAYERS }, () => normals(random, UNITS * UNITS, 1 / Math.sqrt(UNITS)));
  const top = normals(random, SAMPLES * UNITS, 1);
  // Forward through all layers, then a random gradient from the output of the last layer back to that of the first.
  return async function (scale, on) {
    const layers = [];
    let a = x;
    for (const w of weights) {
      const z = await times(a, w, scale);
      a = (await normalize(z, on)).map(Math.tanh);
      layers.push({ z, a });
    }
    const gradients = [1];
    let da = top;
    for (let l = LAYERS - 1; l > 0; l -= 1) {
      da = await back(await normalizeBack(layers[l].z, slopes(da, layers[l].a), on), weights[l], scale);
      gradients.unshift(length(da) / length(top));
    }
    const found = [];
    for (const [l, { a }] of layers.entries()) {
      await rest();
      found.push({
        histogram: lab.histogram(a, -1, 1, 41),
        spread: deviation(a),
        saturated: average(a.map((value) => (Math.abs(value) > SATURATED ? 1 : 0))),
        slope: average(a.map((value) => 1 - value * value)),
        gradient: gradients[l],
      });
    }
    return found;
  };
}

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
      lab.svg("path", { class: "hill", d: `${lab.path([[at(-1), ground], ...points, [at(1), ground]])}Z`, style: `fill:${look.colour};stroke:${look.colour}` }),
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

const now = { scale: 1, on: false, layers: null };

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
    const product = now.layers.reduce((all, { slope }) => all * slope, 1);
    const fact = (name, value) => lab.el("span", {}, `${name} `, lab.el("b", {}, value));
    readout.replaceChildren(lab.el("b", {}, `s = ${lab.number(now.scale, 2)}, ${now.on ? "layer norm" : "no norm"}`), fact("Saturated in layer 5:", percent(now.layers.at(-1).saturated)), fact("Five mean slopes multiplied:", lab.number(product, 2)), fact("Gradient at layer 1, relative to layer 5:", lab.number(now.layers[0].gradient, 2)));
  };
  const ask = lab.latest(async () => {
    const wanted = { scale: scale.value, on: norm.value };
    forward ??= deep();
    return { ...wanted, layers: await forward(wanted.scale, wanted.on) };
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
  async function forward(w, on) {
    const z1 = await times(x, w, 1);
    const a1 = (await normalize(z1, on)).map(Math.tanh);
    const z2 = await times(a1, second, 1);
    const y2 = await normalize(z2, on);
    return { z1, a1, z2, y2 };
  }
  const gradients = {};
  async function gradient(on) {
    const { z1, a1, z2, y2 } = await forward(first, on);
    const a2 = y2.map(Math.tanh);
    const da2 = new Float32Array(SAMPLES * UNITS);
    for (let n = 0; n < SAMPLES; n += 1) {
      let output = 0;
      for (let j = 0; j < UNITS; j += 1) output += a2[n * UNITS + j] * out[j];
      for (let j = 0; j < UNITS; j += 1) da2[n * UNITS + j] = ((output - target[n]) / SAMPLES) * out[j];
    }
    const da1 = await back(await normalizeBack(z2, slopes(da2, a2), on), second, 1);
    const dz1 = await normalizeBack(z1, slopes(da1, a1), on);
    const dw = new Float32Array(UNITS * UNITS);
    for (let n = 0; n < SAMPLES; n += 1) {
      if (n % 50 === 0) await rest();
      for (let i = 0; i < UNITS; i += 1) for (let j = 0; j < UNITS; j += 1) dw[i * UNITS + j] += x[n * UNITS + i] * dz1[n * UNITS + j];
    }
    return { before: y2, dw };
  }
  return async function (rate, on) {
    const { before, dw } = (gradients[on] ??= await gradient(on));
    const { y2 } = await forward(first.map((value, at) => value - rate * dw[at]), on);
    const row = (values, n) => values.subarray(n * UNITS, (n + 1) * UNITS);
    const spreads = (values) => Array.from({ length: SAMPLES }, (_, n) => deviation(row(values, n)));
    const units = (values) => {
      const means = new Float32Array(UNITS);
      values.forEach((value, at) => { means[at % UNITS] += value / SAMPLES; });
      return means;
    };
    await rest();
    const moved = average(units(y2.map((value, at) => value - before[at])).map(Math.abs)) / deviation(before);
    return { before: lab.histogram(before, -RANGE, RANGE, 36), after: lab.histogram(y2, -RANGE, RANGE, 36), moved, was: spreads(before), is: spreads(y2) };
  };
}

const share = (count) => (100 * count) / (SAMPLES * UNITS);

function driftPanel(width, name, { before, after }, high) {
  const look = lab.looks([name])[0];
  const plot = lab.plot({ width, height: 210, x: { axis: { label: "input of layer 2’s tanh" }, domain: [-RANGE, RANGE] }, y: { axis: { label: "share", unit: "%" }, domain: [0, high] }, label: `${name}: histogram before and after the step` });
  const outline = ({ edges, counts }) => lab.path([[plot.x.at(edges[0]), plot.bottom], ...counts.flatMap((count, bin) => [[plot.x.at(edges[bin]), plot.y.at(share(count))], [plot.x.at(edges[bin + 1]), plot.y.at(share(count))]]), [plot.x.at(edges.at(-1)), plot.bottom]]);
  plot.marks.append(lab.svg("path", { class: "hill", d: outline(after), style: `fill:${look.colour};stroke:${look.colour}` }), lab.svg("path", { class: "before", d: outline(before) }));
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
      lab.el("p", { class: "remark" }, `Spread within a sample: ${range(result.was)} before, ${range(result.is)} after. A unit’s mean moved by ${lab.number(result.moved, 2)} standard deviations on average.`))));
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
      hint: "You can write 0.001 or 1e-3. Figure 1.1 can check you.", solution: "0.1 · 0.1 · 0.1 · 0.1 · 0.1 = 0.1⁵ = 0.00001.",
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
