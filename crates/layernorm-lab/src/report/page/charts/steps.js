// The worked example: one step at a time on screen, all steps in print.

function matrix({ name, rows, highlight = "none" }) {
  const group = (row, column) => (highlight === "rows" ? row : highlight === "columns" ? column : null);
  const cell = (value, row, column) => {
    const number = group(row, column);
    return lab.el("td", { class: number === null ? null : `group g${number % 4}` }, lab.number(value));
  };
  return lab.el("figure", { class: `matrix by-${highlight}` },
    lab.el("figcaption", {}, name, highlight === "none" ? null : lab.el("span", { class: "by" }, highlight === "rows" ? "row by row" : "column by column")),
    lab.el("table", { "aria-label": name }, lab.el("tbody", {}, rows.map((row, index) => lab.el("tr", {}, row.map((value, column) => cell(value, index, column)))))));
}

lab.charts.steps = function (chart, view) {
  const steps = chart.steps ?? [];
  if (!steps.length) return { empty: "There are no steps." };
  const pages = steps.map(({ title, text, matrices }, index) => lab.el("section", { class: "step" }, lab.el("h4", {}, `${index + 1}. ${title}`), lab.el("p", {}, text), lab.el("div", { class: "matrices" }, (matrices ?? []).map(matrix))));
  const back = lab.el("button", { type: "button", onclick: () => go(at - 1) }, "← Back");
  const next = lab.el("button", { type: "button", onclick: () => go(at + 1) }, "Next →");
  const output = lab.el("output", { "aria-live": "polite" });
  const saved = () => lab.clamp((Number.parseInt(view.get("at", "1"), 10) || 1) - 1, 0, steps.length - 1);
  let at = saved();

  function show(to) {
    at = lab.clamp(to, 0, steps.length - 1);
    pages.forEach((page, index) => page.classList.toggle("current", index === at));
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
    output.textContent = `Step ${at + 1} of ${steps.length}`;
  }
  function go(to) {
    show(to);
    view.set("at", at ? at + 1 : null);
  }
  show(at);
  return { parts: [lab.el("div", { class: "player" }, back, next, output), lab.el("div", { class: "steps" }, pages)], restore: () => show(saved()) };
};
