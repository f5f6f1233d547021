// The frame around a chart: heading, chart, caption, notes on missing values, and the data as a table.
const figures = [];
const MOST_ROWS = 400;
const PAPER = 660; // text width in print

function dataTable(picture, title) {
  const details = lab.el("details", { class: "data" }, lab.el("summary", {}, "Show data table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const { columns, rows } = picture.table();
    const every = Math.ceil(rows.length / MOST_ROWS);
    const kept = rows.filter((_, index) => index % every === 0 || index === rows.length - 1);
    details.append(lab.table({ columns, rows: kept }, `Data: ${title}`));
    if (every > 1) details.append(lab.el("p", { class: "remark" }, `${kept.length} of ${lab.number(rows.length)} rows, evenly sampled.`));
  });
  return details;
}

function build(chart, view) {
  const make = Object.hasOwn(lab.charts, chart.kind) ? lab.charts[chart.kind] : null;
  if (!make) return { empty: `This page does not support charts of type “${chart.kind}”.` };
  try {
    return make(chart, view);
  } catch (error) {
    console.error(`chart ${chart.id}:`, error);
    return { empty: `This chart could not be drawn: ${error.message}` };
  }
}

lab.figure = function (chart, story, number) {
  const key = `${story.id}.${chart.id}`;
  let width = 0;
  const view = {
    get: (name, fallback = null) => lab.state.get(`${key}.${name}`, fallback),
    set(name, value) {
      lab.state.set(`${key}.${name}`, value);
      lab.state.set("view", `${story.id}/${chart.id}`);
    },
    redraw: () => picture.draw?.(width),
  };
  const picture = build(chart, view);
  const body = lab.el("div", { class: "picture" }, picture.empty ? lab.el("p", { class: "empty" }, picture.empty) : picture.parts);
  const link = lab.el("a", { class: "anchor", href: `#view=${encodeURIComponent(`${story.id}/${chart.id}`)}`, "aria-label": `Link to figure ${number}` }, `Figure ${number}`);
  const notes = (picture.notes ?? []).map((note) => lab.el("p", { class: "remark" }, note));
  const node = lab.el("figure", { class: `chart ${chart.kind}`, id: lab.place(`${story.id}/${chart.id}`), "data-kind": chart.kind, "data-empty": picture.empty ? "" : null },
    lab.el("h3", {}, link, " ", chart.title), body, lab.el("figcaption", {}, chart.see), notes, picture.table && !picture.empty ? dataTable(picture, chart.title) : null);
  const draw = (to) => {
    if (to <= 0 || to === width) return;
    width = to;
    picture.draw?.(width);
  };
  lab.keep(figures, { body, draw, again: () => width > 0 && picture.draw?.(width), restore: () => picture.restore?.() });
  return node;
};

const fit = () => figures.forEach(({ body, draw }) => draw(Math.floor(body.clientWidth)));

// Draws every figure, and redraws it when its size, the theme or the hash changes. Called again for new figures.
const watch = new ResizeObserver(() => requestAnimationFrame(fit));
lab.drawFigures = function () {
  fit();
  figures.forEach(({ body }) => watch.observe(body));
};
lab.state.onChange(() => figures.forEach(({ restore, again }) => { restore(); again(); }));
lab.redrawFigures = () => figures.forEach(({ again }) => again());

addEventListener("beforeprint", () => {
  document.documentElement.dataset.print = "";
  figures.forEach(({ draw, again }) => { draw(PAPER); again(); });
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.print;
  fit();
  lab.redrawFigures();
});
