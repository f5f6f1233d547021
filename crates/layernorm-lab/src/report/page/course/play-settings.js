// The playground's settings: those of both runs, those of each, and presets. All are in the page's hash.
const list = (...values) => values.map((value) => [String(value), lab.number(value)]);
const names = { none: "no norm", batch: "batch norm", layer: "layer norm", rms: "RMS norm" };

const BOTH = [
  { name: "data", label: "Data", start: "spirals", options: [["circles", "circles"], ["moons", "two moons"], ["spirals", "spirals"], ["xor", "XOR"], ["digits", "digits"]] },
  { name: "noise", label: "Noise", start: "0.05", options: list(0, 0.05, 0.1, 0.2, 0.3) },
  { name: "network", label: "Network", start: "mlp", options: [["mlp", "MLP"], ["lstm", "LSTM"]] },
  { name: "reads", label: "LSTM reads", start: "14", options: [["14", "14 rows of 14"], ["28", "28 steps of 7"], ["49", "49 steps of 4"], ["98", "98 steps of 2"], ["196", "196 single pixels"]] },
  { name: "pace", label: "Steps per second", start: "300", options: [["10", "10"], ["100", "100"], ["300", "300"], ["max", "no limit"]] },
  { name: "stop", label: "Stop after", start: "1000", options: [...[100, 200, 500, 1000, 2000, 5000, 20000].map((steps) => [String(steps), `${lab.number(steps)} steps`]), ["never", "never"]] },
];
const EACH = [
  { name: "norm", label: "Norm", start: ["none", "layer"], options: Object.entries(names) },
  { name: "rate", label: "Learning rate", start: ["0.01", "0.01"], options: list(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30) },
  { name: "batch", label: "Batch size", start: ["16", "16"], options: list(1, 2, 4, 8, 16, 32, 64, 128) },
  { name: "scale", label: "Weight scale", start: ["1", "1"], options: list(0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30) },
  { name: "optimizer", label: "Optimizer", start: ["adam", "adam"], options: [["adam", "Adam"], ["sgd", "SGD"]] },
  { name: "layers", label: "Hidden layers", start: ["3", "3"], options: list(1, 2, 3, 4, 6, 8, 10, 12, 16) },
  { name: "units", label: "Units", start: ["16", "16"], options: list(2, 4, 8, 16, 24, 32, 64, 128) },
];
const RUNS = ["A", "B"];

const DIGITS = { data: "digits", network: "mlp", pace: "300", stop: "1000", norm: ["none", "layer"], rate: "0.001", batch: "32", scale: "1", optimizer: "adam", layers: "1", units: "64" };
// What the sentences say was measured with seeds 1, 2 and 3: node tests/page/course/presets.mjs REPORT.html
const PRESETS = [
  {
    name: "Batch norm at batch 1", set: { ...DIGITS, norm: ["batch", "layer"], batch: "1" },
    watch: "A stays at chance: at batch size 1, every value equals the mean of its batch, so batch norm outputs only β, whatever the image. After 1000 steps A had 5 to 12 % test accuracy, B with layer norm 77 to 82 %.",
  },
  {
    name: "Learning rate × 10", set: { ...DIGITS, rate: "0.1", layers: "2" },
    watch: "At 0.01, both learn. At 0.1, A’s loss stays above 0.5 and its accuracy jumps. After 1000 steps A had 64 to 77 % test accuracy, B 87 to 91 %.",
  },
  {
    name: "Long sequence", set: { ...DIGITS, network: "lstm", reads: "49", rate: "0.0003", pace: "max", batch: "16", units: "32" },
    watch: "Each digit comes in 49 steps of 4 pixels. B learns earlier: after 500 steps it had 29 to 57 % test accuracy, A 20 to 38 %. By step 1000 it was 50 to 62 % against 32 to 56 %.",
  },
  {
    name: "Batch norm in an LSTM", set: { ...DIGITS, network: "lstm", norm: ["batch", "layer"], reads: "14", rate: "0.01", pace: "max", batch: "4", units: "32" },
    watch: "Batch norm’s mean and variance of each unit at each time step come from four digits, so they are noisy. After 1000 steps A had 60 to 70 % test accuracy, B with layer norm 77 to 84 %. At batch size 32, batch norm had 95 to 98 % after 500 steps.",
  },
  {
    name: "Badly scaled weights", set: { ...DIGITS, rate: "0.1", scale: "0.1", optimizer: "sgd", layers: "3" },
    watch: "All weights start ten times too small. Without a norm, almost nothing of the image reaches the output: A stays at loss 2.30 and at chance, with small gradients. Layer norm removes the scale: B had 91 % test accuracy after 1000 steps.",
  },
  {
    name: "Deep network", set: { ...DIGITS, scale: "0.5", layers: "10", units: "32" },
    watch: "Ten layers, each starting with half the usual weights. Without a norm, the first gradients of the lower layers are about a thousand times smaller. After 200 steps A had 33 to 38 % test accuracy, B 69 to 79 %. At weight scale 1 the difference is gone: both had 82 to 88 %.",
  },
];

// What a preset sets, for each control; the others are irrelevant to it.
const wanted = ({ set }) => [
  ...BOTH.filter(({ name }) => name in set).map(({ name }) => [name, set[name]]),
  ...EACH.flatMap(({ name }) => RUNS.map((run, at) => [`${name}-${run}`, Array.isArray(set[name]) ? set[name][at] : set[name]])),
];

// What the worker's trainer needs, without data: `value(name)` is a setting.
function trainer(value, run, seed) {
  const of = (name) => Number(value(`${name}-${run}`));
  const flat = lab.play.flat(value("data"));
  const lstm = value("network") === "lstm";
  const steps = flat ? 1 : lstm ? Number(value("reads")) : 14;
  return {
    network: value("network"), norm: value(`norm-${run}`), layers: Array(of("layers")).fill(of("units")), hidden: of("units"),
    steps, inputs: flat ? 2 : 196 / steps, classes: flat ? 2 : 10,
    optimizer: value(`optimizer-${run}`), learningRate: of("rate"), batch: of("batch"), weightScale: of("scale"), seed,
  };
}

lab.play.names = names;
lab.play.presets = PRESETS;
// The trainers of a preset, for both runs.
lab.play.preset = function (preset, seed) {
  const values = new Map(wanted(preset));
  return RUNS.map((run) => trainer((name) => values.get(name), run, seed));
};
lab.play.settings = function (view, changed) {
  const controls = new Map();
  let quiet = false;
  const touched = (name) => () => { if (!quiet) settle(name); };
  const add = (options) => {
    const control = lab.menu(view, { ...options, changed: touched(options.name) });
    control.node.dataset.setting = options.name;
    controls.set(options.name, control);
    return control.node;
  };
  const both = lab.el("div", { class: "play-both" }, BOTH.map(add));
  const rows = EACH.map(({ name, label, start, options }) =>
    lab.el("tr", {}, lab.el("th", { scope: "row" }, label), RUNS.map((run, at) => lab.el("td", {}, add({ name: `${name}-${run}`, label: `${run}: ${label}`, start: start[at], options })))));
  const table = lab.el("table", { class: "play-each" },
    lab.el("thead", {}, lab.el("tr", {}, lab.el("td", {}), RUNS.map((run) => lab.el("th", { scope: "col" }, `Run ${run}`)))), lab.el("tbody", {}, rows));
  const says = lab.el("p", { class: "play-watch" });
  const buttons = PRESETS.map((preset) => lab.el("button", { type: "button", class: "play-preset", onclick: () => choose(preset) }, preset.name));
  const presets = lab.el("div", { class: "play-presets", role: "group", "aria-label": "Presets" }, buttons);
  // On a narrow screen the settings are folded away, so that Start and the curves are just below the presets.
  const inner = lab.el("div", { class: "play-settings" }, table, both);
  const body = lab.el("details", { class: "play-fold" }, lab.el("summary", {}, "Settings"), inner);
  const fold = (narrow) => { body.open = !narrow; };
  const value = (name) => controls.get(name).value;
  const select = (name) => controls.get(name).node.querySelector("select");

  // Only combinations that exist: an LSTM reads digits.
  function agree(name) {
    if (name === "network" && value("network") === "lstm" && value("data") !== "digits") controls.get("data").set("digits");
    if (value("network") === "lstm" && value("data") !== "digits") controls.get("network").set("mlp");
    const lstm = value("network") === "lstm";
    for (const run of RUNS) select(`layers-${run}`).disabled = lstm;
    select("reads").disabled = !lstm;
    select("noise").disabled = !lab.play.flat(value("data"));
  }
  function paint() {
    rows.forEach((row, at) => row.classList.toggle("differs", value(`${EACH[at].name}-A`) !== value(`${EACH[at].name}-B`)));
    const current = PRESETS.find((preset) => wanted(preset).every(([name, each]) => value(name) === each));
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(PRESETS[at] === current)));
    says.textContent = current ? current.watch : "Choose a preset, or your own settings. Both runs have the same data, seed and number of steps.";
  }
  function settle(name) {
    quiet = true;
    agree(name);
    quiet = false;
    paint();
    changed(false);
  }
  function choose(preset) {
    quiet = true;
    wanted(preset).forEach(([name, each]) => controls.get(name).set(each));
    agree();
    quiet = false;
    paint();
    changed(true);
  }
  function restore() {
    controls.forEach((control) => control.restore());
    quiet = true;
    agree();
    quiet = false;
    paint();
  }
  restore();
  return {
    presets, says, body, value, restore, fold,
    // The seed, in the hash as well.
    get seed() { return lab.clamp(Math.round(Number(view.get("seed", "1"))) || 1, 1, 999999); },
    set seed(seed) { view.set("seed", seed === 1 ? null : String(seed)); },
    trainer(run) { return trainer(value, run, this.seed); },
    // The names of the settings of A and B that differ.
    different: () => EACH.filter(({ name }) => value(`${name}-A`) !== value(`${name}-B`)).map(({ label }) => label.toLowerCase()),
  };
};
