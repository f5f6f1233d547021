// Matrices side by side, with one color scale from blue through the background to orange.
const LEVELS = 20; // on each side of the middle

// All cells of one shade form one path, so a 128 × 128 matrix needs 41 elements instead of 16,384.
function shades(map, low, high) {
  const middle = low < 0 && high > 0 ? 0 : low;
  const paths = new Map();
  map.values.slice(0, map.rows * map.columns).forEach((value, index) => {
    const part = lab.isNumber(value) ? (value >= middle ? (value - middle) / (high - middle || 1) : -(middle - value) / (middle - low || 1)) : null;
    const level = part === null ? "gap" : Math.round(lab.clamp(part, -1, 1) * LEVELS);
    const cell = `M${index % map.columns},${Math.floor(index / map.columns)}h1v1h-1z`;
    paths.set(level, (paths.get(level) ?? "") + cell);
  });
  return paths;
}

const shade = (level) => (level === "gap" ? "var(--gap)" : `color-mix(in oklab, var(${level < 0 ? "--cold" : "--warm"}) ${(Math.abs(level) / LEVELS) * 100}%, var(--middle))`);

function picture(map, chart) {
  const { rows, columns } = map;
  const svg = lab.svg("svg", { class: "heatmap", viewBox: `0 0 ${columns} ${rows}`, role: "img", "aria-label": `${map.name}: ${chart.scale} of ${rows} by ${columns}${map.labels ? "" : " units"}`, preserveAspectRatio: "xMidYMid meet" });
  for (const [level, d] of shades(map, chart.low, chart.high)) svg.append(lab.svg("path", { d, style: `fill:${shade(level)}` }));
  const name = (index) => map.labels?.[index] ?? `unit ${index + 1}`;
  lab.tip.follow(svg, (x, y) => {
    const [row, column] = [Math.floor(y), Math.floor(x)];
    if (row < 0 || column < 0 || row >= rows || column >= columns) return null;
    return [`${name(row)} and ${name(column)}`, `${chart.scale}: ${lab.number(map.values[row * columns + column], 3)}`];
  });
  return svg;
}

function panel(map, chart) {
  if (!(map.rows > 0 && map.columns > 0) || !map.values.some(lab.isNumber))
    return lab.el("div", { class: "panel" }, lab.el("h4", {}, map.name), lab.el("p", { class: "empty" }, "No values."));
  return lab.el("div", { class: "panel" },
    lab.el("h4", {}, map.name),
    picture(map, chart),
    lab.el("p", { class: "ends" }, lab.el("span", {}, `${map.labels?.[0] ?? "unit 1"}`), lab.el("span", { class: "size" }, `${map.rows} × ${map.columns}${map.labels ? "" : " units"}`), lab.el("span", {}, `${map.labels?.[map.columns - 1] ?? `unit ${map.columns}`}`)));
}

function bar(chart) {
  const middle = chart.low < 0 && chart.high > 0 ? [lab.el("span", {}, "0")] : [];
  return lab.el("div", { class: "scalebar" },
    lab.el("span", { class: "scalename" }, chart.scale),
    lab.el("div", {},
      lab.el("div", { class: middle.length ? "ramp diverging" : "ramp" }),
      lab.el("div", { class: "ends" }, lab.el("span", {}, lab.number(chart.low)), ...middle, lab.el("span", {}, lab.number(chart.high)))));
}

// The mean absolute value off the diagonal, to compare maps by one number.
function average({ rows, columns, values }) {
  const off = values.filter((value, index) => lab.isNumber(value) && (rows !== columns || Math.floor(index / columns) !== index % columns));
  return off.length ? off.reduce((sum, value) => sum + Math.abs(value), 0) / off.length : null;
}

lab.charts.heatmaps = function (chart) {
  const maps = chart.maps ?? [];
  if (!maps.some((map) => map.values?.some(lab.isNumber))) return { empty: "There are no values to draw." };
  const missing = maps.reduce((sum, map) => sum + map.values.filter((value) => !lab.isNumber(value)).length, 0);
  return {
    parts: [bar(chart), lab.el("div", { class: "panels" }, maps.map((map) => panel(map, chart)))],
    notes: missing ? [`Gray: ${lab.count(missing, "pair")} without a value (a constant unit has no correlation).`] : [],
    table: () => ({
      columns: ["map", "rows", "columns", `mean |${chart.scale}| off the diagonal`],
      rows: maps.map((map) => [map.name, map.rows, map.columns, average(map)]),
    }),
  };
};
