// A plain table with right-aligned numbers. A cell may be a list of links to places of the page.
const link = ({ text, view }) => (view ? lab.el("a", { href: `#view=${encodeURIComponent(view)}` }, text) : text);
const content = (cell) => (Array.isArray(cell) && cell.length ? lab.el("ul", { class: "links" }, cell.map((one) => lab.el("li", {}, link(one)))) : lab.cell(Array.isArray(cell) ? null : cell));

lab.table = function ({ columns, rows }, label) {
  const numeric = columns.map((_, column) => rows.some((row) => typeof row[column] === "number") && rows.every((row) => typeof row[column] !== "string"));
  const side = (column) => (numeric[column] ? "number" : null);
  return lab.wide(label,
    lab.el("table", { class: "plain" },
      lab.el("thead", {}, lab.el("tr", {}, columns.map((name, column) => lab.el("th", { scope: "col", class: side(column) }, name)))),
      lab.el("tbody", {}, rows.map((row) => lab.el("tr", {}, columns.map((_, column) => lab.el("td", { class: side(column) }, content(row[column]))))))));
};

lab.charts.table = function (chart) {
  if (!chart.rows?.length) return { empty: "The table has no rows." };
  return { parts: [lab.table(chart, chart.title)], notes: chart.notes ?? [] };
};
