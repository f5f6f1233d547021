// Chapter play: two networks that differ in what the reader chooses, trained side by side.
const LETTERS = ["A", "B"];
const READ = 240; // milliseconds between changes of numbers in the text: faster ones cannot be read
const percent = (value) => (lab.isNumber(value) ? `${(100 * value).toFixed(1)}\u00a0%` : "—");
const loss = (value) => lab.number(value, 3);
const { put } = lab.play;

// The panel of one run: its state, what it predicts, its layers.
function panel(at) {
  const name = lab.el("span", {});
  const mark = lab.el("span", { class: "play-letter" }, LETTERS[at]);
  const state = lab.el("p", { class: "play-state" });
  const trouble = lab.el("p", { class: "play-diverged", hidden: true });
  const seen = lab.el("div", {});
  const layers = lab.play.layers();
  let picture = null;
  return {
    node: lab.el("section", { class: "play-run", "aria-label": `Run ${LETTERS[at]}` }, lab.el("h4", {}, mark, name), state, trouble, seen, layers.node),
    show(made) {
      picture = made;
      seen.replaceChildren(picture.node);
    },
    words(run) {
      put(name, "text", run.name);
      put(state, "text", `training loss ${loss(run.train.shown.at(-1)?.loss)} · test accuracy ${percent(run.test.at(-1)?.accuracy)}`);
      put(trouble, "text", run.diverged ?? "");
      trouble.hidden = !run.diverged;
    },
    draw(width, run, color, data, look) {
      put(mark, "style", `background:var(${color})`);
      picture?.draw(Math.min(width, 320), run, data, look);
      layers.draw(width, run, color);
    },
  };
}

// A run before its worker is there.
const stub = (settings) => (letter) => {
  const options = settings.trainer(letter);
  return { letter, options, name: lab.play.names[options.norm], train: { points: [], shown: [] }, test: [], seen: null, diverged: null };
};

// The data table: for each run its layers now, then its curves.
const TABLE = ["run", "data", "step", "loss", "accuracy", "mean", "standard deviation", "gradient norm"];
function layerRows({ letter, step, seen }) {
  const [values, gradients] = [seen?.activations ?? [], seen?.gradients ?? []];
  const names = [...new Set([...values, ...gradients].map(({ name }) => name))];
  const of = (list, wanted) => list.find(({ name }) => name === wanted);
  return names.map((name) => [letter, name, step, null, null, of(values, name)?.mean ?? null, of(values, name)?.deviation ?? null, of(gradients, name)?.norm ?? null]);
}
const curveRows = ({ letter, train, test }) =>
  [["training", train.shown], ["test", test]].flatMap(([name, points]) => points.map((one) => [letter, name, one.step, one.loss, one.accuracy, null, null, null]));

const sentence = ({ letter, name, options, diverged, train, test }) =>
  diverged ?? `${letter} (${name}, learning rate ${lab.number(options.learningRate)}, batch size ${options.batch}): training loss ${loss(train.shown.at(-1)?.loss)}, test loss ${loss(test.at(-1)?.loss)}, test accuracy ${percent(test.at(-1)?.accuracy)}.`;

function make(view) {
  const settings = lab.play.settings(view, (start) => {
    renew({ start });
    // A preset starts to train: on a narrow screen its sentence, the buttons and the first curves are brought into view.
    if (start && spacious === false) settings.says.scrollIntoView({ behavior: lab.calm() ? "instant" : "smooth", block: "start" });
  });
  const trouble = lab.trouble();
  const button = (text, onclick) => lab.el("button", { type: "button", onclick }, text);
  const play = lab.el("button", { type: "button", class: "check play-start", onclick: () => toggle() });
  const once = button("Step", () => prepare().then((made) => made?.once()));
  const reset = button("Reset", () => renew({ stop: true, words: "Back to step 0." }));
  const seed = button("New weights", () => { settings.seed = (settings.seed % 999) + 1; renew({ words: `Seed ${settings.seed}.` }); });
  const readout = lab.el("p", { class: "play-readout" });
  const live = lab.el("p", { class: "spoken", role: "status" });
  const summary = lab.el("p", { class: "remark play-summary" });
  const curves = [lab.play.curves("loss", "Loss"), lab.play.curves("accuracy", "Accuracy")];
  const panels = LETTERS.map((_, at) => panel(at));
  const root = lab.el("div", { class: "play" }, settings.presets, settings.says, settings.body,
    lab.el("div", { class: "play-bar" }, play, once, reset, seed, readout), live, trouble.node,
    lab.el("div", { class: "play-curves" }, curves.map(({ node }) => node)),
    lab.el("p", { class: "remark" }, "Solid: training. Dashed: test."),
    lab.el("div", { class: "play-runs" }, panels.map(({ node }) => node)), summary);
  let session = null;
  let preparing = null;
  let spacious = null; // whether the curves are beside each other
  let data = null;
  let [width, visible, resume, written, version] = [0, false, false, 0, 0];

  const tell = (text) => { live.textContent = text; };
  const fail = (error) => { if (error.message !== "stopped") trouble.show(error); };
  const runs = () => session?.runs ?? LETTERS.map(stub(settings));

  // The workers and trainers of the present settings, made when they are first needed.
  async function begin(mine) {
    trouble.clear();
    const which = settings.value("data");
    const flat = lab.play.flat(which);
    const points = data;
    const watched = await lab.play.watched(which);
    if (mine !== version) return null;
    const [pace, stop] = [settings.value("pace"), settings.value("stop")];
    const made = lab.play.session({
      runs: LETTERS.map((letter) => lab.play.run(letter, settings.trainer(letter), points, watched.x)),
      pace: pace === "max" ? Infinity : Number(pace), stop: stop === "never" ? Infinity : Number(stop),
      shown: () => draw(false), told: tell, changed,
    });
    session = made;
    if (!flat) panels.forEach((one) => one.show(lab.play.answers(watched)));
    await made.start();
    if (mine !== version) return null;
    changed();
    draw(true);
    return made;
  }
  function prepare() {
    preparing ??= begin(version).catch((error) => { fail(error); return null; });
    return preparing;
  }
  // Ends the workers; with `start`, or if it was training, it begins again at step 0.
  // The data, and a place of the right size for what is predicted.
  function blank() {
    const which = settings.value("data");
    const flat = lab.play.flat(which);
    data = flat ? lab.play.plane(which, Number(settings.value("noise"))) : "digits";
    panels.forEach((one) => one.show(flat ? lab.play.regions() : { node: lab.el("div", { class: "play-seen" }, lab.el("div", { class: "play-blank" })), draw() {} }));
  }
  function renew({ start = false, stop = false, words = null }) {
    const again = start || (!stop && (session?.running || resume));
    version += 1;
    trained = key();
    session?.end();
    [session, preparing, resume] = [null, null, false];
    if (words) tell(words);
    blank();
    changed();
    draw(true);
    if (visible || again) prepare().then((made) => again && go(made));
  }
  const go = (made) => { if (made) { tell("Training both runs."); made.play().then(() => made.finished && tell(`Finished. ${summary.textContent}`), fail); } };
  async function toggle() {
    if (session?.running) {
      await session.pause();
      tell(`Paused at step ${session?.step}.`);
    } else if (session?.finished) renew({ start: true });
    else go(await prepare());
  }
  // What the buttons and texts say.
  function changed() {
    put(play, "text", session?.running ? "❚❚ Pause" : session?.finished ? "↻ Train again" : "▶ Start");
    once.disabled = Boolean(session?.running || session?.finished);
    words();
  }
  function words() {
    const [step, speed] = [session?.step ?? 0, session?.running ? session.speed : 0];
    put(readout, "text", `step ${lab.number(step)} · ${(session?.seconds ?? 0).toFixed(1)} s${speed ? ` · ${lab.number(Math.round(speed))} steps/s` : ""} · seed ${settings.seed}`);
    const all = runs();
    panels.forEach((one, at) => one.words(all[at]));
    put(summary, "text", step ? `Step ${lab.number(step)}. ${all.map(sentence).join(" ")}` : "");
    written = performance.now();
  }
  function draw(all) {
    if (!width) return;
    const now = runs();
    const wide = width >= 560;
    const each = wide ? Math.floor((width - 24) / 2) : width;
    if (wide !== spacious) settings.fold(!wide);
    spacious = wide;
    root.classList.toggle("narrow", !wide);
    const step = Math.max(...now.map(({ step: at = 0 }) => at), 20);
    const most = Math.min(lab.play.round(step), settings.value("stop") === "never" ? Infinity : Number(settings.value("stop")));
    curves.forEach((curve) => curve.draw(each, now, most));
    const colors = lab.play.looks(now);
    const look = document.documentElement.dataset.theme + ("print" in document.documentElement.dataset);
    panels.forEach((one, at) => one.draw(each, now[at], colors[at], data, look));
    if (all || performance.now() - written > READ) words();
  }
  // Nothing trains while nobody looks: far out of view, or in a hidden tab.
  function look(now) {
    if (now === visible) return;
    visible = now;
    document.documentElement.toggleAttribute("data-playing", visible);
    if (visible) {
      prepare().then((made) => { if (resume && visible) go(made); resume = false; });
    } else if (session?.running) {
      resume = true;
      session.pause();
    }
  }
  let near = false;
  new IntersectionObserver((entries) => { near = entries.at(-1).isIntersecting; look(near && !document.hidden); }, { rootMargin: "300px 0px" }).observe(root);
  document.addEventListener("visibilitychange", () => look(near && !document.hidden));
  const key = () => JSON.stringify([LETTERS.map((letter) => settings.trainer(letter)), ["data", "noise", "pace", "stop"].map(settings.value)]);
  let trained = key(); // the settings of the session
  // For the exercises, and for checks.
  lab.play.current = { settings, session: () => session };
  blank();
  changed();
  return {
    parts: [root],
    draw(to) {
      width = to;
      draw(true);
    },
    restore() {
      settings.restore();
      if (key() !== trained) renew({ stop: true });
    },
    table: () => ({ columns: TABLE, rows: runs().flatMap((run) => [...layerRows(run), ...curveRows(run)]) }),
  };
}

const best = ({ test }) => Math.max(0, ...test.map(({ accuracy }) => accuracy));
// The median of the last tests: a single one may be a dip. Those of the last fifth of the steps, since a fast run has few tests.
const settled = ({ diverged, step, test }) => {
  const last = test.slice(-5).filter((one) => one.step >= 0.8 * step).map(({ accuracy }) => accuracy).sort((a, b) => a - b);
  return diverged ? 0 : last[Math.floor(last.length / 2)];
};
const wrong = (why) => ({ right: false, why });

// Both runs, if they train an MLP on the digits with the same settings but for those that may differ; or what is wrong.
function setup(may, hidden) {
  const { settings } = lab.play.current;
  const session = lab.play.current.session();
  if (!session?.step) return { why: "Nothing is trained yet: choose the settings and start." };
  const options = session.runs.map((run) => run.options);
  if (settings.value("data") !== "digits" || options[0].network !== "mlp") return { why: "Train an MLP on the digits." };
  if (options.some(({ layers, weightScale }) => layers.length !== hidden || weightScale !== 1)) return { why: `Both runs need ${lab.count(hidden, "hidden layer")} and weight scale 1.` };
  const other = settings.different().filter((name) => !may.includes(name));
  if (other.length) return { why: `The runs also differ in: ${other.join(", ")}. Then nobody knows what made the difference.` };
  return { session, options };
}

function checkRate() {
  const { why, session, options } = setup(["norm"], 2);
  if (why) return wrong(why);
  if (options[0].norm !== "none" || options[1].norm !== "layer") return wrong("Run A needs no norm, run B layer norm.");
  const [a, b] = session.runs;
  if (!a.diverged && session.step < 500) return wrong(`Step ${session.step} is too early to say: train for at least 500 steps.`);
  const [left, right] = [settled(a), settled(b)];
  if (right < 0.8) return wrong(`Layer norm fails too (${percent(right)}): this learning rate is too large for both.`);
  if (left > right - 0.07) return wrong(`A reaches ${percent(left)}, B ${percent(right)}: this learning rate suits both. Go on.`);
  return { right: true, why: `At ${lab.number(options[0].learningRate)}, A ${a.diverged ? "diverged" : `reaches ${percent(left)}`} and B ${percent(right)}. At 0.3 layer norm fails too: it widens the range of learning rates, but not without limit.` };
}

const ENOUGH = 0.75;
function checkBatch() {
  const { why, session, options } = setup(["batch size"], 1);
  if (why) return wrong(why);
  if (options.some(({ norm }) => norm !== "batch")) return wrong("Both runs need batch norm.");
  if (options.some(({ learningRate, optimizer }) => learningRate !== 0.001 || optimizer !== "adam")) return wrong("Use Adam with a learning rate of 0.001.");
  const [small, large] = [...session.runs].sort((a, b) => a.options.batch - b.options.batch);
  if (large.options.batch !== 2 * small.options.batch) return wrong("One batch size must be twice the other, to show where the limit is.");
  if (session.step < 1000) return wrong(`Train for 1000 steps; this is step ${session.step}.`);
  if (best(small) >= ENOUGH) return wrong(`Batch size ${small.options.batch} gets there too (${percent(best(small))}): try smaller ones.`);
  if (best(large) < ENOUGH) return wrong(`Neither gets there: batch size ${large.options.batch} has ${percent(best(large))}. Try larger ones.`);
  return { right: true, why: `Batch size ${large.options.batch} reaches ${percent(best(large))}, ${small.options.batch} only ${percent(best(small))}: the mean and variance of so few samples say little about a layer, and the running statistics of the test differ from them.` };
}

lab.chapter("play", {
  figures: {
    train: {
      title: "Two networks side by side",
      see: "Both runs read the same batches if their batch sizes are equal. Curves: loss and accuracy. Below: what each network predicts, the values that enter max(0, x) in each layer (gray: cut off), and the length of each layer’s gradient. An LSTM is tested on 200 digits, an MLP on 500.",
      make,
    },
  },
  exercises: [
    { id: "rate", kind: "task", check: async () => checkRate(), hint: "The preset “Learning rate × 10” is a start.", solution: "Adam, two hidden layers of 64 units, batch size 32, learning rate 0.1: without a norm the accuracy jumps between 60 and 80 %, with layer norm it is near 90 %." },
    { id: "batch", kind: "task", check: async () => checkBatch(), hint: "Start with the preset “Batch norm at batch 1”, then set batch norm in both runs.", solution: "Batch size 4 reaches 75 %, batch size 2 does not. Set one run to each." },
    {
      id: "stuck", kind: "choice",
      options: [
        { text: "The learning rate is too small: ten times more steps would do.", why: "More steps hardly help: after 1000 steps, the loss is still 2.30. At the first step, the gradient of layer 1 is about a thousand times smaller than in run B; see the bars." },
        { text: "Each layer passes on about a tenth of the image’s signal. The logits are nearly the same for every class and image, and hardly any gradient flows back.", right: true, why: "Ten equal probabilities have loss ln 10 ≈ 2.30. Three layers at scale 0.1 shrink the signal to a thousandth, and the gradient as well. Layer norm divides by the standard deviation, which removes the scale." },
        { text: "max(0, x) cuts off all values, so no gradient passes.", why: "The histograms show otherwise: about half of the values are above 0, but they are very small." },
      ],
      hint: "Which loss do ten equal probabilities have? Then compare the histograms and the gradient bars of the two runs.",
      solution: "The signal is lost. ln 10 ≈ 2.30 is the loss of ten equal probabilities. Three layers, each with weights a tenth of the usual size, shrink the image’s signal to a thousandth, so the logits hardly differ, and the gradient shrinks in the same way on its way back.",
    },
  ],
});
