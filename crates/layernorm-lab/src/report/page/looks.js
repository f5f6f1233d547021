// Styles of series. Colors are Okabe and Ito's color-blind-safe palette; dashes, markers and hatching repeat the
// distinction. A normalization has the same color in the whole report.
const FAMILIES = [
  [/\blayer[\s_-]*norm|^layer\b(?![\s_-]*\d)|\bln\b/i, 0],
  [/\bbatch[\s_-]*norm|^batch$|\bbn\b/i, 1],
  [/\bgroup[\s_-]*norm|^group$|\bgn\b/i, 2],
  [/\bweight[\s_-]*norm|^weight$|\bwn\b/i, 3],
  [/\binstance[\s_-]*norm|^instance$/i, 4],
  [/\brms[\s_-]*norm|^rms$/i, 5],
  [/^none$|\bno[\s_-]*norm|\bwithout\b|^plain\b/i, 6],
];
const ORDER = [0, 1, 2, 3, 4, 5, 6, 7];
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "12 4", "1 4", "5 2 1 2 1 2"];
const MARKERS = {
  circle: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  square: (r) => `M${-r * 0.88},${-r * 0.88}h${r * 1.76}v${r * 1.76}h${-r * 1.76}z`,
  triangle: (r) => `M0,${-r * 1.2}L${r * 1.1},${r * 0.8}H${-r * 1.1}z`,
  diamond: (r) => `M0,${-r * 1.25}L${r * 1.25},0L0,${r * 1.25}L${-r * 1.25},0z`,
  down: (r) => `M0,${r * 1.2}L${r * 1.1},${-r * 0.8}H${-r * 1.1}z`,
  plus: (r) => `M${-r * 0.4},${-r * 1.2}h${r * 0.8}v${r * 0.8}h${r * 0.8}v${r * 0.8}h${-r * 0.8}v${r * 0.8}h${-r * 0.8}v${-r * 0.8}h${-r * 0.8}v${-r * 0.8}h${r * 0.8}z`,
  bar: (r) => `M${-r * 1.3},${-r * 0.45}h${r * 2.6}v${r * 0.9}h${-r * 2.6}z`,
  post: (r) => `M${-r * 0.45},${-r * 1.3}h${r * 0.9}v${r * 2.6}h${-r * 0.9}z`,
  bow: (r) => `M${-r * 1.1},${-r}L${r * 1.1},${r}V${-r}L${-r * 1.1},${r}z`,
  tall: (r) => `M${-r * 1.1},${-r}H${r * 1.1}L${-r * 1.1},${r}H${r * 1.1}z`,
};
const SHAPES = Object.keys(MARKERS);
lab.marker = (shape, radius) => MARKERS[shape](radius);

// One style per name: color (a CSS variable), dash, marker, and `variant`, the number of earlier uses of the color.
lab.looks = function (names, reference = []) {
  const family = names.map((name) => FAMILIES.find(([pattern]) => pattern.test(name))?.[1] ?? null);
  const free = ORDER.filter((color) => !family.includes(color));
  const uses = {};
  let next = 0;
  return names.map((name, index) => {
    const color = family[index] ?? (free.length ? free[next++ % free.length] : index % ORDER.length);
    const variant = uses[color] ?? 0;
    uses[color] = variant + 1;
    const dash = DASHES[(variant ? variant + 1 : reference[index] ? 1 : 0) % DASHES.length];
    return { name, color: `var(--c${color})`, variable: `--c${color}`, dash, shape: SHAPES[index % SHAPES.length], variant };
  });
};

// A fill that stays distinct if two series share a color: solid, then hatched in either direction.
lab.fill = function (svg, look) {
  if (!look.variant) return look.color;
  const id = lab.id("hatch");
  const turn = look.variant % 2 ? 45 : -45;
  svg.append(
    lab.svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${turn})` },
      lab.svg("rect", { width: 6, height: 6, style: `fill:${look.color}`, "fill-opacity": 0.22 }),
      lab.svg("rect", { width: 2 + (look.variant > 2), height: 6, style: `fill:${look.color}` })));
  return `url(#${id})`;
};

function swatch(look, kind) {
  const svg = lab.svg("svg", { class: "swatch", viewBox: "0 0 28 14", width: 28, height: 14, "aria-hidden": "true" });
  if (kind === "fill") svg.append(lab.svg("rect", { x: 7, y: 1, width: 14, height: 12, style: `fill:${lab.fill(svg, look)};stroke:${look.color}` }));
  if (kind === "line") svg.append(lab.svg("path", { d: "M0,7H28", style: `stroke:${look.color}`, "stroke-width": 2, "stroke-dasharray": look.dash }));
  if (kind !== "fill") svg.append(lab.svg("path", { d: lab.marker(look.shape, 4), transform: "translate(14 7)", style: `fill:${look.color}` }));
  return svg;
}

// The legend: one button per series, which hides or shows it. `extra` explains further marks.
lab.legend = function (looks, kind, view, extra = []) {
  const readouts = [];
  const items = looks.map((look, index) => {
    const value = lab.el("span", { class: "value" });
    const button = lab.el("button", { type: "button", class: "key", title: "Show or hide", onclick: () => toggle(index) }, swatch(look, kind), lab.el("span", {}, look.name), value);
    readouts.push(value);
    return button;
  });
  const hidden = () => new Set(view.get("hide", "").split(",").filter(Boolean).map(Number));
  function toggle(index) {
    const now = hidden();
    if (!now.delete(index)) now.add(index);
    view.set("hide", [...now].sort((a, b) => a - b).join(","));
    refresh();
    view.redraw();
  }
  function refresh() {
    const now = hidden();
    items.forEach((item, index) => item.setAttribute("aria-pressed", String(!now.has(index))));
  }
  refresh();
  return {
    node: lab.el("div", { class: "legend", role: "group", "aria-label": "Legend" }, items, extra.map((text) => lab.el("span", { class: "extra" }, text))),
    shown: (index) => !hidden().has(index),
    read: (index, text) => { readouts[index].textContent = text; },
    refresh,
  };
};

lab.css = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
