// The playground's pictures. Each is made once and then changed, at most once in a frame.

// Sets an attribute or a text only if it changed: most of a frame's time is the browser's, not ours.
const known = new WeakMap();
function put(node, name, value) {
  let before = known.get(node);
  if (!before) known.set(node, (before = {}));
  if (before[name] === value) return;
  before[name] = value;
  if (name === "text") node.textContent = value;
  else node.setAttribute(name, value);
}
lab.play.put = put;

// The colors of both runs: those of their norms; two runs with the same norm have different ones.
lab.play.looks = function (runs) {
  const colors = lab.looks(runs.map(({ name }) => name)).map(({ variable }) => variable);
  if (colors[0] === colors[1]) colors[1] = "--c3";
  return colors;
};

// The next of 1, 2, 5, 10, 20 …
lab.play.round = function (value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-12)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= value * 0.999);
};

const LOSSES = [1e-3, 1e3]; // the loss axis ends there
const AXES = {
  loss: { label: "loss", log: true, of: ({ loss }) => loss, text: (value) => lab.number(value, 3) },
  accuracy: { label: "accuracy", unit: "%", of: ({ accuracy }) => 100 * accuracy, text: (value) => `${lab.number(value, 3)} %` },
};

// The range of an axis: it changes in large steps, so that a plot is seldom made anew.
function reach(name, runs) {
  if (name === "accuracy") return [0, 100];
  let [low, high] = [1, 2.5];
  for (const { train, test } of runs) for (const points of [train.shown, test]) for (const { loss } of points) if (lab.isNumber(loss)) [low, high] = [Math.min(low, loss), Math.max(high, loss)];
  const third = (value, up) => { const power = 10 ** Math.floor(Math.log10(value)); return up ? (value <= 3 * power ? 3 * power : 10 * power) : value >= 3 * power ? 3 * power : power; };
  return [lab.clamp(third(low, false), LOSSES[0], 1), lab.clamp(third(high, true), 1, LOSSES[1])];
}

// Loss or accuracy over steps: for each run training (solid) and test (dashed).
lab.play.curves = function (name, title) {
  const axis = AXES[name];
  const holder = lab.el("div", { class: "holder" });
  let plot = null;
  let lines = [];
  let shape = "";
  let shown = [];
  function build(width, runs, domain, most, colors) {
    plot = lab.plot({ width, height: Math.round(lab.clamp(width * 0.62, 190, 250)), x: { axis: { label: "step" }, domain: [0, most] }, y: { axis, domain }, label: `${title} of both runs over steps. The text below the figure has the numbers.` });
    lines = runs.map(({ letter }, at) => {
      const style = `stroke:var(${colors[at]})`;
      const parts = {
        train: lab.svg("path", { class: "line", style }),
        test: lab.svg("path", { class: "line", style, "stroke-dasharray": "6 4" }),
        end: lab.svg("g", { class: "play-end" }, lab.svg("circle", { r: 8, style: `fill:var(${colors[at]})` }), lab.svg("text", { y: 4, "text-anchor": "middle" }, letter)),
      };
      plot.marks.append(parts.train, parts.test);
      plot.svg.append(parts.end);
      return parts;
    });
    lab.tip.follow(plot.svg, (px, py) => {
      if (px < plot.left || px > plot.right || py > plot.bottom) return null;
      const step = plot.x.back(px);
      const near = (points) => points.reduce((best, one) => (Math.abs(one.step - step) < Math.abs(best.step - step) ? one : best), points[0]);
      const words = (points) => (points.length ? axis.text(axis.of(near(points))) : "—");
      return [`step ${Math.round(step)}`, ...shown.map((run) => `${run.letter}: training ${words(run.train.shown)}, test ${words(run.test)}`)];
    });
    holder.replaceChildren(plot.svg);
  }
  return {
    node: lab.el("div", { class: "play-plot" }, lab.el("h4", {}, title), holder),
    draw(width, runs, most) {
      const colors = lab.play.looks(runs);
      const domain = reach(name, runs);
      const now = [width, domain, most, colors].join();
      if (now !== shape) build(width, runs, domain, most, colors);
      shape = now;
      shown = runs;
      const ends = runs.map(({ train, test }, at) => {
        const places = (points) => points.map((one) => [plot.x.at(one.step), plot.y.at(axis.of(one))]);
        const [of, tested] = [places(train.shown), places(test)];
        put(lines[at].train, "d", lab.path(of));
        put(lines[at].test, "d", lab.path(tested));
        return of.at(-1) ?? tested.at(-1) ?? [NaN, NaN];
      }).map(([x, y]) => [x, lab.clamp(y, plot.top, plot.bottom)]);
      // The letters at the ends do not cover each other.
      if (ends.length === 2 && Math.abs(ends[0][0] - ends[1][0]) < 16 && Math.abs(ends[0][1] - ends[1][1]) < 16) {
        const middle = lab.clamp((ends[0][1] + ends[1][1]) / 2, plot.top + 8, plot.bottom - 8);
        const above = ends[0][1] <= ends[1][1] ? 0 : 1;
        [ends[above][1], ends[1 - above][1]] = [middle - 8, middle + 8];
      }
      ends.forEach(([x, y], at) => {
        put(lines[at].end, "visibility", Number.isNaN(x + y) ? "hidden" : "visible");
        if (!Number.isNaN(x + y)) put(lines[at].end, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      });
    },
  };
};

const parse = (color) => [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));

const CLASSES = ["--c2", "--c4"]; // not the colors of norms that the playground has

// The plane: what the network predicts everywhere, and the training points.
lab.play.regions = function () {
  const canvas = lab.el("canvas", { class: "play-plane", role: "img" });
  const { GRID, REACH } = lab.play;
  const small = lab.el("canvas", { width: GRID, height: GRID });
  const brush = small.getContext("2d");
  const image = brush.createImageData(GRID, GRID);
  const dots = lab.el("canvas");
  const context = canvas.getContext("2d");
  let [size, tints, done] = [0, null, ""];
  function prepare(width, { x, labels }) {
    const scale = Math.min(devicePixelRatio, 2);
    size = Math.round(width * scale);
    canvas.width = canvas.height = dots.width = dots.height = size;
    tints = [...CLASSES, "--paper"].map((name) => parse(lab.css(name)));
    const pen = dots.getContext("2d");
    const at = (value) => ((value + REACH) / (2 * REACH)) * size;
    pen.lineWidth = scale;
    pen.strokeStyle = lab.css("--paper");
    labels.forEach((label, index) => {
      const [px, py, r] = [at(x[2 * index]), at(-x[2 * index + 1]), 3.2 * scale];
      pen.fillStyle = lab.css(CLASSES[label]);
      pen.beginPath();
      // Circles and squares: color is not the only difference.
      if (label) pen.rect(px - r * 0.88, py - r * 0.88, r * 1.76, r * 1.76);
      else pen.arc(px, py, r, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
    });
  }
  return {
    node: lab.el("div", { class: "play-seen" }, canvas),
    draw(width, run, data, theme) {
      const now = [width, theme, run.options.seed].join();
      if (now !== done) prepare(width, data);
      done = now;
      const logits = run.seen?.predicted;
      context.clearRect(0, 0, size, size);
      if (logits?.length) {
        for (let cell = 0; cell < GRID * GRID; cell += 1) {
          const p = 1 / (1 + Math.exp(logits[2 * cell] - logits[2 * cell + 1]));
          const sure = lab.isNumber(p) ? 0.08 + 0.5 * Math.abs(2 * p - 1) : 0;
          const tint = tints[p > 0.5 ? 1 : 0];
          for (const each of [0, 1, 2]) image.data[4 * cell + each] = sure * tint[each] + (1 - sure) * tints[2][each];
          image.data[4 * cell + 3] = 255;
        }
        brush.putImageData(image, 0, 0);
        context.drawImage(small, 0, 0, size, size);
      }
      context.drawImage(dots, 0, 0);
      put(canvas, "aria-label", `Run ${run.letter}, ${run.name}: decision regions of class 0 (circles) and class 1 (squares), with the training points.`);
    },
  };
};

function sketch(pixels) {
  const canvas = lab.el("canvas", { width: 14, height: 14, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(14, 14);
  pixels.forEach((value, at) => image.data.set([128, 128, 128, Math.round(255 * value)], 4 * at));
  context.putImageData(image, 0, 0);
  return canvas;
}

// Test digits, each with the predicted class and whether it is right.
lab.play.answers = function ({ x, labels }) {
  const cells = [...labels].map((label, at) => {
    const answer = lab.el("span", { class: "play-answer" });
    return { answer, label, node: lab.el("li", {}, sketch(x.subarray(196 * at, 196 * (at + 1))), answer) };
  });
  const node = lab.el("ul", { class: "play-digits", "aria-label": "Test digits and the predicted class" }, cells.map(({ node: cell }) => cell));
  return {
    node: lab.el("div", { class: "play-seen" }, node),
    draw(_, run) {
      const logits = run.seen?.predicted;
      cells.forEach(({ answer, label }, at) => {
        const row = logits?.length ? [...logits.subarray(10 * at, 10 * at + 10)] : [];
        const best = row.every(lab.isNumber) ? row.indexOf(Math.max(...row)) : -1;
        put(answer, "text", best < 0 ? "–" : best === label ? `${best} ✓` : `${best} ✕`);
        put(answer, "class", `play-answer ${best < 0 ? "" : best === label ? "yes" : "no"}`);
      });
    },
  };
};

const ROW = 30;
const SHORT = { output: "out", "input weight": "W x", "recurrent weight": "W h" };
const DECADES = [-6, 2]; // of the gradients' axis
// Mean and deviation to the same decimal place.
function spread({ mean, deviation }) {
  if (!lab.isNumber(deviation)) return "—";
  if (deviation >= 1e4 || (deviation < 1e-2 && deviation > 0)) return `± ${short(deviation)}`;
  const places = deviation >= 10 ? 0 : deviation >= 1 ? 1 : 2;
  return `${mean.toFixed(places).replace(/^-(?=0\.?0*$)/, "").replace("-", "−")} ± ${deviation.toFixed(places)}`;
}
const short = (value) => (lab.isNumber(value) ? (value !== 0 && (Math.abs(value) >= 1e4 || Math.abs(value) < 1e-2) ? lab.number(value, 1) : lab.number(value, 2)) : "—");

// A histogram as two paths, below and above zero, in a box of this size centered on zero.
function hills({ histogram, range: [low, high] }, width, height, reach) {
  const most = Math.max(...histogram, 1e-9);
  const at = (value) => (lab.clamp(value / reach, -1, 1) * 0.5 + 0.5) * width;
  const sides = ["", ""];
  const bin = (high - low) / histogram.length;
  if (!(bin > 0)) return [`M${at(low).toFixed(1)},${height}v${-height}h1.5v${height}z`, ""];
  histogram.forEach((share, index) => {
    if (!share) return;
    const from = low + bin * index;
    // A bin around zero is divided.
    for (const [a, b, side] of [[from, Math.min(from + bin, 0), 0], [Math.max(from, 0), from + bin, 1]])
      if (b > a) sides[side] += `M${at(a).toFixed(1)},${height}V${(height - (share / most) * height).toFixed(1)}H${at(b).toFixed(1)}V${height}z`;
  });
  return sides;
}

// The layers of a run: the distribution of what enters max(0, x), and the length of the gradient.
lab.play.layers = function () {
  const holder = lab.el("div", { class: "holder" });
  let [rows, bars, shape, sizes] = [[], [], "", null];
  function build(width, run, activations, gradients, color) {
    const height = 34 + ROW * Math.max(activations.length, gradients.length);
    const half = Math.round(width * 0.58);
    const mlp = run.options.network === "mlp";
    const svg = lab.svg("svg", { class: "play-layers", viewBox: `0 0 ${width} ${height}`, role: "img" });
    const tight = width < 340;
    const [label, middle] = [!mlp ? 16 : tight ? 26 : 46, width - half - 14];
    sizes = { hill: half - label - 82, bar: middle - 74 };
    const title = (x, text, y) => lab.svg("text", { x, y, class: y < 13 ? "name" : null }, text);
    svg.append(
      title(0, mlp ? "Entering max(0, x)" : "States of the LSTM", 12), title(label + sizes.hill + 6, "mean ± sd", 27),
      title(half + 14, "Gradient norm", 12), title(half + 42, "10⁻⁶ to 10²", 27));
    rows = activations.map(({ name }, at) => {
      const cut = mlp && name !== "output";
      const parts = {
        below: lab.svg("path", { style: `fill:${cut ? "var(--gap)" : `var(${color})`}` }),
        above: lab.svg("path", { style: `fill:var(${color})` }),
        words: lab.svg("text", { class: "small", x: label + sizes.hill + 6, y: 20 }),
      };
      const box = lab.svg("g", { transform: `translate(${label} 2)` }, lab.svg("path", { class: "gridline", d: `M0,${ROW - 6}H${sizes.hill}M${sizes.hill / 2},0V${ROW - 6}` }), parts.below, parts.above);
      svg.append(lab.svg("g", { transform: `translate(0 ${34 + at * ROW})` }, lab.svg("text", { x: 0, y: 20 }, mlp ? (tight ? name.replace("layer ", "").replace("output", "out") : name) : name.slice(0, 1)), box, parts.words));
      return parts;
    });
    bars = gradients.map(({ name }, at) => {
      const parts = { bar: lab.svg("rect", { y: 9, height: 12, rx: 2, style: `fill:var(${color})` }), words: lab.svg("text", { x: middle, y: 20, "text-anchor": "end" }) };
      svg.append(lab.svg("g", { transform: `translate(${half + 14} ${34 + at * ROW})` }, lab.svg("title", {}, name), lab.svg("text", { x: 0, y: 20 }, SHORT[name] ?? name.replace("layer ", "")), lab.svg("path", { class: "gridline", d: `M28,22H${28 + sizes.bar}` }), lab.svg("g", { transform: "translate(28 0)" }, parts.bar), parts.words));
      return parts;
    });
    holder.replaceChildren(svg);
  }
  return {
    node: holder,
    draw(width, run, color) {
      const mlp = run.options.network === "mlp";
      const { activations } = run.seen ?? {};
      // Of an LSTM, the weights: its other parameters are many and small.
      const gradients = run.seen?.gradients?.filter(({ name }) => mlp || /weight|output/.test(name)) ?? [];
      if (!activations?.length) {
        // The place that they will need.
        holder.style.minHeight = `${34 + ROW * (mlp ? run.options.layers.length + 1 : 3)}px`;
        if (shape !== "none") holder.replaceChildren(lab.el("p", { class: "remark" }, "After the first step: each layer’s activations and gradient."));
        shape = "none";
        return;
      }
      const now = [width, color, activations.length, gradients.length, mlp].join();
      if (now !== shape) build(width, run, activations, gradients, color);
      shape = now;
      activations.forEach((each, at) => {
        const far = Math.max(Math.abs(each.mean) + 3.5 * each.deviation, 1e-9);
        const reach = lab.isNumber(far) ? 2 ** Math.ceil(Math.log2(far)) : 1;
        const [below, above] = lab.isNumber(each.mean) ? hills(each, sizes.hill, ROW - 6, reach) : ["", ""];
        put(rows[at].below, "d", below);
        put(rows[at].above, "d", above);
        put(rows[at].words, "text", spread(each));
      });
      gradients.forEach(({ norm }, at) => {
        const part = (Math.log10(Math.max(norm, 1e-30)) - DECADES[0]) / (DECADES[1] - DECADES[0]);
        put(bars[at].bar, "width", (lab.clamp(lab.isNumber(part) ? part : 1, 0, 1) * sizes.bar).toFixed(1));
        put(bars[at].words, "text", short(norm));
      });
      put(holder.firstChild, "aria-label", `Run ${run.letter}, ${run.name}: histograms of each layer’s ${mlp ? "inputs to max(0, x)" : "states"}, and the length of each layer’s gradient.`);
    },
  };
};
