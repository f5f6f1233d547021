// Sheets of small gray images: one sheet per panel, one frame per moment. An image is a string of hexadecimal digits.
const MOST = 15;
const GAP = 2; // pixels between images

const side = (count) => Math.ceil(Math.sqrt(count));
const share = (images) => {
  const levels = images.flatMap((image) => [...image].map((digit) => Number.parseInt(digit, 16))).filter(lab.isNumber);
  return levels.length ? levels.reduce((sum, level) => sum + level, 0) / (MOST * levels.length) : null;
};

// All pixels of one shade form one path; shade 0 is the ground.
function shades(images, rows, columns) {
  const paths = Array.from({ length: MOST + 1 }, () => "");
  const across = side(images.length);
  images.forEach((image, index) => {
    const [left, top] = [(index % across) * (columns + GAP), Math.floor(index / across) * (rows + GAP)];
    [...image].slice(0, rows * columns).forEach((digit, place) => {
      const level = Number.parseInt(digit, 16);
      if (level > 0) paths[level] += `M${left + (place % columns)},${top + Math.floor(place / columns)}h1v1h-1z`;
    });
  });
  return paths;
}

function sheet(count, rows, columns) {
  const across = side(count);
  const down = Math.ceil(count / across);
  const svg = lab.svg("svg", { class: "sheet", viewBox: `0 0 ${across * (columns + GAP) - GAP} ${down * (rows + GAP) - GAP}`, role: "img" });
  for (let index = 0; index < count; index += 1)
    svg.append(lab.svg("rect", { class: "ground", x: (index % across) * (columns + GAP), y: Math.floor(index / across) * (rows + GAP), width: columns, height: rows }));
  const paths = Array.from({ length: MOST + 1 }, (_, level) => lab.svg("path", { class: "shade", style: `fill:color-mix(in oklab, var(--ink) ${(level / MOST) * 100}%, var(--middle))` }));
  svg.append(...paths.slice(1));
  return { svg, paths };
}

function bar(chart) {
  return lab.el("div", { class: "scalebar" },
    lab.el("span", { class: "scalename" }, chart.scale),
    lab.el("div", {}, lab.el("div", { class: "ramp ink" }), lab.el("div", { class: "ends" }, lab.el("span", {}, "0"), lab.el("span", {}, "1"))));
}

lab.charts.images = function (chart, view) {
  const { rows, columns, panels } = chart;
  const frames = (chart.frames ?? []).filter((frame) => Array.isArray(frame.images));
  const most = panels.map((_, panel) => Math.max(0, ...frames.map((frame) => frame.images[panel]?.length ?? 0)));
  if (!(rows > 0 && columns > 0) || !most.some((count) => count > 0)) return { empty: "There are no images to draw." };
  const sheets = most.map((count) => (count > 0 ? sheet(count, rows, columns) : null));
  const saved = () => {
    const at = Number.parseInt(view.get("at", ""), 10);
    return Number.isInteger(at) ? lab.clamp(at, 0, frames.length - 1) : frames.length - 1;
  };
  let drawn = null;

  function show(position) {
    const at = Math.round(position);
    if (at === drawn) return;
    drawn = at;
    sheets.forEach((drawing, panel) => {
      if (!drawing) return;
      const { svg, paths } = drawing;
      const images = frames[at].images[panel] ?? [];
      svg.setAttribute("aria-label", `${panels[panel]}, ${frames[at].label}: ${lab.count(images.length, "image")} of ${rows} by ${columns} pixels, mean ${chart.scale} ${lab.number(share(images), 2)}`);
      shades(images, rows, columns).forEach((d, level) => paths[level].setAttribute("d", d));
    });
  }
  const player = frames.length > 1 ? lab.player({
    count: frames.length, position: saved(), name: chart.title,
    text: (index) => frames[index].label,
    onMove: show,
    onSettle: (index) => view.set("at", index >= frames.length - 1 ? null : index),
  }) : null;
  show(saved());
  return {
    parts: [bar(chart), lab.el("div", { class: "panels" }, panels.map((name, panel) => lab.el("div", { class: "panel" }, lab.el("h4", {}, name), sheets[panel]?.svg ?? lab.el("p", {}, "no images")))), player?.node],
    restore: () => player?.go(saved()),
    table: () => ({
      columns: ["frame", "panel", "images", `mean ${chart.scale}`],
      rows: frames.flatMap((frame) => panels.map((name, panel) => [frame.label, name, frame.images[panel]?.length ?? 0, share(frame.images[panel] ?? [])])),
    }),
  };
};
