// The frame around a chart: heading, chart, caption, notes on missing values, and the data as a table.
const figures = [];
const byBody = new WeakMap();
const MOST_ROWS = 400;
const PAPER = 660; // text width in print

function dataTable(picture, title, number) {
  const details = lab.el("details", { class: "data" }, lab.el("summary", {}, "Show data table"));
  details.addEventListener("toggle", () => {
    // Filled again whenever it opens: the numbers of a live figure change.
    if (!details.open) return;
    details.replaceChildren(details.firstElementChild);
    const { columns, rows } = picture.table();
    const every = Math.ceil(rows.length / MOST_ROWS);
    const kept = rows.filter((_, index) => index % every === 0 || index === rows.length - 1);
    details.append(lab.table({ columns, rows: kept }, `Data of figure ${number}: ${title}`));
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
  // Parts of several figures have the same name, such as “The row”; as landmarks they need different ones.
  body.querySelectorAll("[role=region]").forEach((part) => part.setAttribute("aria-label", `Figure ${number}: ${part.getAttribute("aria-label")}`));
  const link = lab.el("a", { class: "anchor", href: `#view=${encodeURIComponent(`${story.id}/${chart.id}`)}`, "aria-label": `Link to figure ${number}` }, `Figure ${number}`);
  const notes = (picture.notes ?? []).map((note) => lab.el("p", { class: "remark" }, note));
  const table = picture.table && !picture.empty ? picture.table : null;
  const below = lab.el("div", { class: "figure-foot" });
  const node = lab.el("figure", { class: `chart ${chart.kind}`, id: lab.place(`${story.id}/${chart.id}`), "data-kind": chart.kind, "data-empty": picture.empty ? "" : null },
    lab.el("h3", {}, link, " ", chart.title), body, lab.el("figcaption", {}, chart.see), notes, below);
  if (table) below.append(dataTable(picture, chart.title, number));
  if (!picture.empty) below.append(lab.saveButtons(body, chart.title, `${story.id}-${chart.id}`, table));
  const draw = (to) => {
    if (to <= 0 || to === width) return;
    width = to;
    picture.draw?.(width);
  };
  const one = { body, key, near: false, fresh: true, draw, again: () => width > 0 && picture.draw?.(width), restore: () => picture.restore?.() };
  lab.keep(figures, one);
  byBody.set(body, one);
  return node;
};

const fit = () => figures.forEach(({ body, near, draw }) => near && draw(Math.floor(body.clientWidth)));
const resized = new ResizeObserver(() => requestAnimationFrame(fit));
// A figure is drawn when it comes near the window.
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    const one = byBody.get(target);
    one.near = true;
    one.draw(Math.floor(target.clientWidth));
    resized.observe(target);
  }
}, { rootMargin: "900px 0px" });

// Draws each new figure as soon as it comes near the window, and redraws it when its size, the theme or the hash changes.
lab.drawFigures = () => figures.filter(({ fresh }) => fresh).forEach((one) => { one.fresh = false; seen.observe(one.body); });
lab.redrawFigures = () => figures.forEach(({ again }) => again());
// What draws the figures of a section again, one by one.
lab.redraws = (section) => figures.filter(({ body }) => section.contains(body)).map(({ again }) => again);
lab.state.onChange((touched) => figures.filter(({ key }) => touched(`${key}.`)).forEach(({ restore, again }) => { restore(); again(); }));

// Draws all figures now, wherever they are: for print, and for checks of the whole page.
lab.drawAll = function (to = null) {
  figures.forEach((one) => {
    one.near = true;
    one.draw(to ?? Math.floor(one.body.clientWidth));
  });
};

addEventListener("beforeprint", () => {
  document.documentElement.dataset.print = "";
  lab.drawAll(PAPER);
  lab.redrawFigures();
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.print;
  fit();
  lab.redrawFigures();
});
