// Chapter axes: layer norm and batch norm of the same table, which numbers an output uses, and what an edit moves.
const [MOST, COLUMNS] = [4, 4];
const EPS = 1e-5;
const X = [[1, 2, 3, 6], [10, 20, 30, 60], [4, 5, 3, 0], [2, 9, 4, 1]];
const SAMPLE_NAMES = ["sample 1", "sample 2", "sample 3", "sample 4"];
const UNIT_NAMES = ["unit 1", "unit 2", "unit 3", "unit 4"];
const NAMES = { layer: "layer norm", batch: "batch norm" };

const m = lab.math;
const mo = (sign) => m("mo", { stretchy: "false" }, sign);
const mn = (value) => (value < 0 ? m("mrow", {}, m("mo", { form: "prefix" }, "−"), m("mn", {}, lab.number(-value, 4))) : m("mn", {}, lab.number(value, 4)));
const closed = (value) => (value < 0 ? m("mrow", {}, mo("("), mn(value), mo(")")) : mn(value));

const state = { batch: 3 }; // for an exercise

// Whether the output (r, c) of a norm uses the input (i, j).
const uses = (kind, [r, c], [i, j]) => (kind === "layer" ? r === i : c === j);
const listed = (numbers) => (numbers.length < 2 ? numbers.join("") : `${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`);

function bothFigure(view) {
  const trouble = lab.trouble();
  const explain = lab.el("div", { class: "explain", "aria-live": "polite" });
  const moves = lab.el("div", { class: "axes-moved", "aria-live": "polite" });
  let found = null; // { count, x, layer: { y, mean, root }, batch: the same }
  let before = null; // the same, when the edited cell got the focus
  let edited = null; // the edited cell
  let asked = ["layer", 0, 0]; // an output, or ["x", r, c]
  let drawn = false;

  const input = lab.numbers(view, {
    name: "x", label: "Input, to edit", start: X, rowNames: SAMPLE_NAMES, columnNames: UNIT_NAMES,
    changed: () => ask(),
    focused: (r, c) => { if (edited?.[0] !== r || edited?.[1] !== c) { before = found; edited = [r, c]; } asked = ["x", r, c]; show(); },
  });
  const size = lab.options(view, { name: "batch", label: "Batch size (rows)", options: ["1", "2", "3", "4"].map((value) => [value, value]), start: "3", changed: () => { forget(); ask(); } });
  const reset = lab.el("button", { type: "button", onclick: () => { forget(); input.set(X); } }, "Reset numbers");
  const made = (kind) => lab.cells({ label: `Output of ${NAMES[kind]}`, rows: MOST, columns: COLUMNS, rowNames: ["1", "2", "3", "4"], columnNames: UNIT_NAMES, pointed: (r, c) => { asked = [kind, r, c]; show(); } });
  const tables = { layer: made("layer"), batch: made("batch") };
  const result = (kind, words) => lab.el("div", { class: "axes-result", style: `--norm: ${lab.looks([NAMES[kind]])[0].color}` }, lab.el("h4", {}, words), lab.wide(`Output of ${NAMES[kind]}`, tables[kind].node));
  input.node.classList.add("narrow");
  const inputBox = lab.el("div", { class: "axes-input" }, input.node);
  const lines = (table) => [...table.node.querySelectorAll("tbody tr")];

  function forget() {
    before = null;
    edited = null;
    if (asked[0] === "x" || asked[1] >= Number(size.value)) asked = ["layer", 0, 0];
  }
  const value = (from, kind, r, c) => from[kind].y[r * COLUMNS + c];
  // An output has moved if its bits are others than before the edit.
  const moved = (kind, r, c) => before !== null && before.count === found.count && value(before, kind, r, c) !== value(found, kind, r, c);

  function show() {
    [input, tables.layer, tables.batch].forEach((table) => lines(table).forEach((line, r) => { line.hidden = r >= Number(size.value); }));
    if (!found || found.count !== Number(size.value)) return;
    const [from, ar, ac] = asked;
    for (const [kind, table] of Object.entries(tables))
      table.show((r, c) => (r < found.count ? lab.fixed(value(found, kind, r, c)) : null), (r, c) => [
        from === kind && ar === r && ac === c && "asked",
        from === "x" && uses(kind, [r, c], [ar, ac]) && "used",
        moved(kind, r, c) && "moved"].filter(Boolean).join(" "));
    inputBox.classList.toggle("columns", from === "batch");
    input.cells.forEach((line, r) => line.forEach((td, c) => {
      td.classList.toggle("used", r < found.count && from !== "x" && uses(from, [ar, ac], [r, c]));
      td.classList.toggle("source", from === "x" && ar === r && ac === c);
    }));
    tell();
    tellMoves();
  }

  function tell() {
    const [from, r, c] = asked;
    if (from === "x") {
      explain.replaceChildren(lab.el("p", {}, `${SAMPLE_NAMES[r]}, ${UNIT_NAMES[c]}, is used by ${lab.count(COLUMNS, "output")} of layer norm (its row) and ${lab.count(found.count, "output")} of batch norm (its column). They are outlined.`));
      return;
    }
    const { mean, root } = found[from];
    const group = from === "layer" ? r : c;
    const numbers = from === "layer" ? `the ${COLUMNS} units of sample ${r + 1}` : found.count === 1 ? `the only number of unit ${c + 1}` : `unit ${c + 1} of all ${found.count} samples`;
    explain.replaceChildren(
      lab.el("p", {}, lab.el("strong", {}, from === "layer" ? "Layer norm" : "Batch norm"), `, sample ${r + 1}, unit ${c + 1}: mean and variance of ${numbers}${from === "batch" && found.count === 1 ? ". It is its own mean." : ", outlined above."}`),
      lab.el("div", { class: "sum", tabindex: "0", role: "region", "aria-label": "Figure 3.1: formula with numbers" }, m("math", { display: "block" },
        m("mfrac", {}, m("mrow", {}, m("mi", {}, "x"), mo("−"), m("mi", {}, "μ")), m("msqrt", {}, m("msup", {}, m("mi", {}, "σ"), m("mn", {}, "2")), mo("+"), m("mi", {}, "ε"))), mo("="),
        m("mfrac", {}, m("mrow", {}, mn(found.x[r][c]), mo("−"), closed(mean[group])), mn(root[group])), mo("="), mn(value(found, from, r, c)))));
  }

  function tellMoves() {
    const changes = Object.fromEntries(Object.keys(tables).map((kind) => [kind, tables[kind].cells.flatMap((line, r) => (r < found.count ? line.map((_, c) => [r, c]).filter(([i, j]) => moved(kind, i, j)) : []))]));
    if (!edited || (!changes.layer.length && !changes.batch.length)) {
      const single = found.count === 1 ? "With a batch of one, batch norm returns 0 for every input. " : "";
      moves.replaceChildren(`${single}Edit a number: a dot ● will mark every output that moves.`);
      return;
    }
    const said = (kind) => {
      const rows = [...new Set(changes[kind].map(([r]) => r + 1))];
      return lab.el("li", {}, lab.el("strong", {}, NAMES[kind]), `: ${changes[kind].length === 0 ? "no output" : lab.count(changes[kind].length, "output")} moved${rows.length ? `, in ${rows.length === 1 ? "sample" : "samples"} ${listed(rows)}` : ""}.`);
    };
    moves.replaceChildren(`You changed sample ${edited[0] + 1}, unit ${edited[1] + 1} (● moved):`, lab.el("ul", {}, said("layer"), said("batch")));
  }

  const ask = lab.latest(async () => {
    const count = Number(size.value);
    const x = input.value.slice(0, count).map((line) => [...line]);
    const options = { x: Float32Array.from(x.flat()), shape: [count, COLUMNS], eps: EPS };
    const calls = lab.calls();
    const [layer, batch] = ["layer", "batch"].map((kind) => {
      const { y, mean, rstd } = calls.norm({ kind, ...options });
      return { y, mean, root: calls.evaluate("1 / rstd", { rstd }) };
    });
    return { count, x, ...(await calls.run({ layer, batch })) };
  }, (result) => {
    found = result;
    state.batch = result.count;
    trouble.clear();
    show();
  }, trouble.show);

  return {
    parts: [lab.controls(size.node, reset), trouble.node, lab.wide("Input", inputBox),
      lab.el("div", { class: "axes-results" }, result("layer", "Layer norm: each row on its own"), result("batch", "Batch norm: each column on its own")), explain, moves],
    draw() {
      if (!drawn) ask();
      drawn = true;
      show();
    },
    restore() {
      input.restore();
      size.restore();
      forget();
      if (drawn) ask();
    },
    table: () => ({
      columns: ["sample", "unit", "x", "layer norm", "batch norm"],
      rows: found ? found.x.flatMap((line, r) => line.map((number, c) => [r + 1, c + 1, number, value(found, "layer", r, c), value(found, "batch", r, c)])) : [],
    }),
  };
}

// The four preprocessing steps on real digits: other numbers are inverted, and the pixels that were not are watched.
const [IMAGES, SIDE] = [100, 14];
const PIXELS = SIDE * SIDE;
const THRESHOLD = 0.5;
const INVERT = {
  nothing: () => false,
  images: (image) => image > 0,
  rows: (image, at) => image === 0 && Math.floor(at / SIDE) % 2 === 0,
  columns: (image, at) => image === 0 && (at % SIDE) % 2 === 0,
};

// The first image after a step; `all` are the images, one after another.
const PREPARE = {
  rows: (calls, first) => over(calls, first, SIDE),
  image: (calls, first) => over(calls, first, PIXELS),
  mean: (calls, first, all) => calls.evaluate("x - mean", { x: first, mean: calls.statistics(all, [1, IMAGES, PIXELS]).mean }),
  threshold: (calls, first) => calls.evaluate(`x >= ${THRESHOLD}`, { x: first }),
};
// Divides parts by their sums. A blank part stays blank: the sum of any other is at least 1/15, a level of gray.
const over = (calls, x, width) => calls.evaluate("x / max(sum, 0.01)", { x }, { rows: { sum: calls.statistics(x, [PIXELS / width, width, 1]).sum }, width });

// A picture of 14 × 14 numbers relative to `most`; blue is negative. `covered` pixels are gray.
function picture(label, values, most, covered = () => false) {
  const svg = lab.svg("svg", { class: "axes-digit", viewBox: `0 0 ${SIDE} ${SIDE}`, role: "img", "aria-label": label });
  svg.append(lab.svg("rect", { class: "ground", width: SIDE, height: SIDE }));
  values.forEach((value, at) => {
    const share = covered(at) ? 1 : Math.abs(value) / most;
    if (share > 0.004) svg.append(lab.svg("rect", { class: covered(at) ? "covered" : value < 0 ? "negative" : "positive", x: at % SIDE, y: Math.floor(at / SIDE), width: 1, height: 1, "fill-opacity": Math.min(share, 1).toFixed(3) }));
  });
  return svg;
}

function digitsFigure(view) {
  const trouble = lab.trouble();
  const panels = lab.el("div", { class: "axes-digits holder" });
  const said = lab.el("p", { class: "axes-moved", "aria-live": "polite" });
  let images = null;
  let found = null;
  let width = 0;
  const step = lab.options(view, { name: "step", label: "Step", options: [["rows", "(a) rows to sum 1"], ["image", "(b) image to sum 1"], ["mean", "(c) minus mean image"], ["threshold", "(d) threshold"]], changed: () => ask() });
  const invert = lab.options(view, { name: "invert", label: "Invert", options: [["nothing", "nothing"], ["images", "all other images"], ["rows", "every 2nd row"], ["columns", "every 2nd column"]], changed: () => ask() });
  const panel = (name, svg) => lab.el("div", {}, svg, lab.el("p", { class: "remark" }, name));
  function show() {
    if (!found || !width) return;
    const { input, after, most, touched, change, moved, kind } = found;
    panels.replaceChildren(panel("Input", picture("The digit, as it goes in", input, 1)), panel("Result", picture("The digit after the step", after, most)),
      panel(kind === "rows" || kind === "columns" ? "What moved (gray: inverted)" : "What moved", picture("The pixels of the result that moved without being inverted", change, Math.max(moved, 1e-9), touched)));
    said.textContent = kind === "nothing" ? "Invert something and see whether the other pixels of this digit move." : moved === 0 ? "No other pixel of this digit moved." : `Other pixels of this digit moved, by up to ${lab.number(moved, 2)}.`;
  }
  const ask = lab.latest(async () => {
    if (!images) {
      const { x } = await lab.compute("digits");
      images = x.slice(0, IMAGES * PIXELS);
    }
    const kind = invert.value;
    const touched = (at) => INVERT[kind](0, at);
    const marks = Float32Array.from(images, (_, at) => (INVERT[kind](Math.floor(at / PIXELS), at % PIXELS) ? 1 : 0));
    const calls = lab.calls();
    const inverted = (x, mark) => calls.evaluate("mark * (1 - x) + (1 - mark) * x", { x, mark });
    const [first, mark] = [images, marks].map((all) => all.subarray(0, PIXELS));
    const input = inverted(first, mark);
    const before = PREPARE[step.value](calls, first, images);
    const after = PREPARE[step.value](calls, input, inverted(images, marks));
    const change = calls.evaluate("(1 - mark) * abs(after - before)", { mark, after, before });
    const most = (x) => calls.statistics(x, [1, PIXELS, 1]).most;
    const result = await calls.run({ input, before, after, change, moved: most(change), most: most(calls.evaluate("abs(after)", { after })) });
    return { ...result, kind, touched, moved: result.moved[0], most: Math.max(result.most[0], 1e-9) };
  }, (result) => { found = result; trouble.clear(); show(); }, trouble.show);
  return {
    parts: [lab.controls(step.node, invert.node), trouble.node, panels, said],
    draw(to) {
      width = to;
      if (found) show();
      else ask();
    },
    restore() {
      step.restore();
      invert.restore();
      if (width) ask();
    },
    table: () => ({ columns: ["row", "column", "input", "result", "result before inverting"], rows: found ? Array.from(found.input, (value, at) => [Math.floor(at / SIDE) + 1, (at % SIDE) + 1, value, found.after[at], found.before[at]]) : [] }),
  };
}

const LIKE = ["like batch norm", "like layer norm", "like both", "like neither"];
const OWN = "No other image is needed to compute this.";

function singleCheck() {
  if (state.batch === 1) return { right: true, why: "With a batch of one, x − μ = 0 for every number: the output is 0, whatever the input." };
  return { right: false, why: `With ${state.batch} samples, an edited number moves the ${state.batch} outputs of its column.` };
}

lab.chapter("axes", {
  figures: {
    both: {
      title: "The same table, normalized by rows and by columns",
      see: "Top: the input, to edit. Below: both outputs. Point at an output: the numbers that its mean and variance use are outlined in the input. Go to an input: the outputs that use it are outlined.",
      make: bothFigure,
    },
    digits: {
      title: "Four preprocessing steps on a digit",
      see: "The first of 100 digits: as it goes in, after the step, and which of its pixels moved because others were inverted. A larger square is a larger value; blue is negative.",
      make: digitsFigure,
    },
  },
  exercises: [
    {
      id: "count", kind: "numbers", labels: ["layer norm", "batch norm"], answer: [4, 3], tolerance: 0,
      mistakes: [
        { answer: [3, 4], why: "Swapped: layer norm uses the row (4 units), batch norm the column (3 samples)." },
        { answer: [1, 1], why: "The changed number also moves μ and σ², and with them every output that uses them." },
        { answer: [12, 12], why: "Neither norm mixes rows and columns: each mean and variance is used for one row or one column only." },
        { answer: [4, 12], why: "Layer norm is right. Batch norm has a mean and a variance for each column; only one column changes." },
        { answer: [1, 3], why: "Batch norm is right. In layer norm too, the changed number moves the mean of its row." },
        { answer: [4, 4], why: "Layer norm is right. A column has as many numbers as the batch has samples." },
      ],
      why: "Layer norm: the 4 units of the same sample. Batch norm: the same unit of all 3 samples.",
      hint: "Edit a number in figure 3.1 and count the dots.", solution: "Layer norm: 4, the row. Batch norm: 3, the column.",
    },
    {
      id: "column", kind: "numbers", labels: ["batch norm of sample 2, unit 2"], answer: [1.397], tolerance: 0.004,
      mistakes: [
        { answer: [-0.5345], why: "That is layer norm: you used the row 10, 20, 30, 60. Batch norm uses the column 2, 20, 5." },
        { answer: [1.1406], why: "You divided the squares by N − 1 = 2. Batch norm normalizes with the biased variance: divide by 3." },
        { answer: [-1.397], why: "The sign: 20 lies above the column’s mean." },
        { answer: [0.1774], why: "Divide by the root of the variance, not by the variance." },
        { answer: [2.54], why: "Subtract the mean before dividing." },
      ],
      why: "The column 2, 20, 5 has mean 9 and variance (49 + 121 + 16)/3 = 62; (20 − 9)/√62 = 1.397.",
      hint: "The column of unit 2 is 2, 20, 5.", solution: "μ = 9, σ² = (49 + 121 + 16)/3 = 62, (20 − 9)/√62 ≈ 1.397.",
    },
    { id: "single", kind: "task", check: singleCheck, button: "Check the figure", hint: "When is x − μ always 0?", solution: "Batch size 1: each number is the mean of its column." },
    {
      id: "preprocessing", kind: "match", options: LIKE, items: [
        { text: "(a) Scale every row of pixels of every image to sum 1.", right: 1, why: "Like layer norm within each row of pixels: only the sample’s own features count. That is group norm with one group per row, by the sum instead of σ, without subtracting a mean.",
          wrong: { 0: `A “row” here is a row of pixels inside one image. ${OWN}`, 2: OWN, 3: "The sum depends on the data: change one pixel and the rest of its row changes." } },
        { text: "(b) Scale every image so that its pixels sum to 1.", right: 1, why: "Like layer norm: the sum is over all features of one sample. It scales by the sum instead of σ and subtracts no mean.",
          wrong: { 0: OWN, 2: OWN, 3: "The sum depends on the data: change one pixel and the whole image changes." } },
        { text: "(c) Subtract the dataset’s mean image from every image.", right: 0, why: "Like the first half of batch norm: each pixel’s mean is over the samples, separately for each feature. There is no division by σ.",
          wrong: { 1: "The mean image is a mean over other images, for each pixel separately.", 2: "The mean of a pixel uses the same pixel of all images, but no other pixels of its own image.", 3: "The mean image depends on the data: change the other images and this one changes." } },
        { text: "(d) Set every pixel to 1 above a threshold, to 0 otherwise.", right: 3, why: "Like neither: each pixel depends on itself and a constant only.",
          wrong: { 0: "The threshold is a constant. No other image matters.", 1: "The threshold is a constant. No other pixel of the image matters.", 2: "The threshold is a constant. No other number matters at all." } },
      ],
      hint: "For each: would the result change if you changed the other images? If you changed other pixels of the same image?",
      solution: "(a) and (b) resemble layer norm, (a) within each row of pixels; (c) resembles batch norm; (d) resembles neither.",
    },
  ],
});
