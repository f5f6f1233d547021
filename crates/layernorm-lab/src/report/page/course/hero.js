// The first screen: what layer normalization does in one sentence, a picture that moves, and three ways on.
const ROWS = 7;
const UNITS = 24;
const PERIOD = 5200; // milliseconds from raw to normalized and back
// A phone shows the picture at 300 pixels: drawn narrower and with larger text, it stays legible.
const NARROW = matchMedia("(max-width: 40rem)").matches;
const PAUSE = 0.3; // share of each half in which the picture rests

// Rows of numbers with very different means and spreads, as the samples of a batch have them inside a network.
function samples() {
  const random = lab.random(7);
  const centers = [1.9, -2.3, 0.6, 3.0, -1.2, 0.1, -3.1];
  const spreads = [0.35, 0.7, 1.35, 0.22, 0.5, 1.0, 0.3];
  return Float32Array.from({ length: ROWS * UNITS }, (_, at) => centers[Math.floor(at / UNITS)] + spreads[Math.floor(at / UNITS)] * random.normal());
}

// 0 at raw, 1 at normalized; rests at both.
function phase(time) {
  const t = (time % PERIOD) / PERIOD;
  const half = t < 0.5 ? t * 2 : 2 - t * 2;
  const moved = lab.clamp((half - PAUSE) / (1 - 2 * PAUSE), 0, 1);
  return moved * moved * (3 - 2 * moved);
}

// The rows between x and y, each { values, mean, deviation } with one mean and deviation for each row. Both keep the order of a
// row's values, so means and deviations between them are between theirs. Without means only the values are drawn.
function picture(x, y) {
  const [width, height, left] = NARROW ? [360, 330, 84] : [560, 330, 76];
  const at = (value) => left + ((lab.clamp(value, -5, 5) + 5) / 10) * (width - left - 16);
  const line = (row) => 44 + row * 37;
  const svg = lab.svg("svg", { class: `hero-picture${NARROW ? " narrow" : ""}`, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Seven samples as rows of dots. Before normalization every row has its own center and spread; afterwards all are centered on zero with the same spread." });
  for (const value of [-4, -2, 0, 2, 4]) svg.append(lab.svg("path", { class: value ? "hero-grid" : "hero-zero", d: `M${at(value)},22V${height - 30}` }), lab.svg("text", { x: at(value), y: height - 12, "text-anchor": "middle" }, String(value).replace("-", "−")));
  const marks = Array.from({ length: ROWS }, (_, row) => {
    const mean = lab.svg("path", { class: "hero-mean", d: "M0,-13V13" });
    const spread = lab.svg("rect", { class: "hero-spread", y: line(row) - 13, height: 26, rx: 5 });
    const dots = Array.from({ length: UNITS }, () => lab.svg("circle", { class: "hero-dot", r: 3.6, cy: line(row) }));
    svg.append(lab.svg("text", { x: 4, y: line(row) + 4 }, `sample ${row + 1}`), ...(x.mean ? [spread, ...dots, mean] : dots));
    return { mean, spread, dots };
  });
  function draw(t) {
    marks.forEach(({ mean, spread, dots }, row) => {
      const between = (name, place) => x[name][place] * (1 - t) + y[name][place] * t;
      dots.forEach((dot, unit) => dot.setAttribute("cx", at(between("values", row * UNITS + unit)).toFixed(1)));
      if (!x.mean) return;
      const [center, deviation] = [between("mean", row), between("deviation", row)];
      mean.setAttribute("transform", `translate(${at(center).toFixed(1)} ${line(row)})`);
      spread.setAttribute("x", at(center - deviation).toFixed(1));
      spread.setAttribute("width", Math.max(at(center + deviation) - at(center - deviation), 1).toFixed(1));
    });
  }
  return { svg, draw };
}

function moving() {
  const x = samples();
  const { svg, draw } = picture({ values: x }, { values: x });
  const caption = lab.el("p", { class: "hero-caption" });
  const button = lab.el("button", { type: "button", class: "quiet" });
  const box = lab.el("div", { class: "hero-figure" }, svg, lab.el("div", { class: "hero-line" }, caption, button));
  let show = draw;
  let frame = null;
  let start = 0;
  let at = 0;
  const say = (t) => {
    const words = t < 0.5 ? "A layer's values for seven samples: each has its own mean and spread." : "After layer norm: mean 0 and variance 1 in every sample.";
    if (caption.textContent !== words) caption.textContent = words;
  };
  const tick = (now) => {
    at = now - start;
    const t = phase(at);
    show(t);
    say(t);
    frame = requestAnimationFrame(tick);
  };
  const label = () => { button.textContent = frame === null ? "▶ Play" : "❚❚ Pause"; };
  const play = () => {
    start = performance.now() - at;
    frame = requestAnimationFrame(tick);
    label();
  };
  const pause = () => {
    cancelAnimationFrame(frame);
    frame = null;
    label();
  };
  button.addEventListener("click", () => (frame === null ? play() : pause()));
  let wanted = !lab.calm();
  // It rests while it is out of sight.
  new IntersectionObserver(([{ isIntersecting }]) => {
    if (!isIntersecting && frame !== null) { pause(); wanted = true; } else if (isIntersecting && wanted && frame === null) { wanted = false; play(); }
  }).observe(box);
  draw(0);
  say(0);
  label();
  const calls = lab.calls();
  const rows = (values) => { const { mean, deviation } = calls.statistics(values, [ROWS, UNITS, 1]); return { values, mean, deviation }; };
  calls.run([rows(x), rows(calls.norm({ kind: "layer", x, shape: [ROWS, UNITS] }).y)]).then(([before, after]) => {
    const made = picture(before, after);
    svg.replaceChildren(...made.svg.childNodes);
    show = made.draw;
    // Without motion the picture shows the result.
    if (lab.calm()) { at = PERIOD / 2; show(1); say(1); } else show(phase(at));
  }).catch((error) => { caption.textContent = `The live parts of this page do not work here: ${error.message}`; });
  return box;
}

lab.hero = function ({ tools, studies, questions }) {
  const way = (view, name, words) => lab.el("a", { class: `way ${name.toLowerCase()}`, href: `#view=${view}` }, lab.el("strong", {}, name), lab.el("span", {}, words));
  return lab.el("header", { class: "hero" },
    lab.el("div", { class: "hero-inner" },
      lab.el("div", { class: "tools" }, tools),
      lab.el("div", { class: "hero-text" },
        lab.el("h1", {}, "Layer normalization"),
        lab.el("p", { class: "hero-sentence" }, "Layer normalization shifts and scales a layer's values so that, for every sample on its own, they have mean 0 and variance 1."),
        lab.el("nav", { class: "ways", "aria-label": "Three ways to start" },
          way("why", "Learn", "Ten short chapters with live figures and exercises"),
          way("play", "Play", "Train networks with and without norms in your browser"),
          way("evidence", "Evidence", questions ? `${lab.count(studies, "study", "studies")} answer ${lab.count(questions, "question")}, with intervals` : "What the studies of this report measured"))),
      moving()));
};
