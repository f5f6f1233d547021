// A table of colored cells, such as the paper's Table 1 or the map of learning rates.

// Position of a value between minimum and maximum; logarithmic if they are far apart.
function shading(cells) {
  const values = cells.flat().filter((cell) => cell.tone === "none").map((cell) => cell.value).filter(lab.isNumber);
  if (values.length < 2) return () => null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const log = low > 0 && high / low > 50;
  const place = log ? Math.log : (value) => value;
  const part = (value) => (lab.isNumber(value) && high > low ? (place(value) - place(low)) / (place(high) - place(low)) : null);
  return Object.assign(part, { low, high });
}

function legend(chart, part) {
  const tones = new Set(chart.cells.flat().map((cell) => cell.tone));
  const key = (tone, text) => (tones.has(tone) ? lab.el("span", { class: "extra" }, lab.el("span", { class: `patch ${tone}` }), text) : null);
  const ramp = lab.isNumber(part.low) && lab.el("span", { class: "extra" }, lab.number(part.low, 3), lab.el("span", { class: "ramp small" }), lab.number(part.high, 3));
  return lab.el("div", { class: "legend", role: "group", "aria-label": "Legend" }, lab.el("span", { class: "scalename" }, chart.scale), ...["good", "bad"].map((tone, at) => key(tone, chart.tones[at])), ramp || null);
}

lab.charts.grid = function (chart) {
  if (!chart.cells?.some((row) => row.length)) return { empty: "There are no values to draw." };
  const part = shading(chart.cells);
  const cell = (tile) => {
    const shade = tile.tone === "none" ? part(tile.value) : null;
    const style = shade === null ? null : `background:color-mix(in oklab, var(--c0) ${8 + shade * 44}%, var(--paper))`;
    const node = lab.el("td", { class: `tile ${tile.tone ?? "none"}`, style, tabindex: tile.hint ? "0" : null, title: tile.hint }, tile.text || lab.cell(tile.value));
    if (tile.hint) node.append(lab.el("span", { class: "hint" }, tile.hint));
    return node;
  };
  const table = lab.el("table", { class: "grid" },
    lab.el("thead", {}, lab.el("tr", {}, lab.el("td", {}), chart.columns.map((name) => lab.el("th", { scope: "col" }, name)))),
    lab.el("tbody", {}, chart.cells.map((row, index) => lab.el("tr", {}, lab.el("th", { scope: "row" }, chart.rows[index] ?? ""), row.map(cell)))));
  return { parts: [legend(chart, part), lab.wide(chart.title, table)] };
};
