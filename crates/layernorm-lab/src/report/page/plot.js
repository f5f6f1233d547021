// The base of every 2-D chart: an SVG with axes, ticks, grid and labels, and the tooltip.

const TEXT = 6.7; // typical width of a digit in the axis font
const longest = (ticks) => Math.max(0, ...ticks.map((tick) => tick.text.length));

// Truncates a label to fit: a partial name is better than overlapping ones.
const cut = (text, most) => (text.length > most ? text.slice(0, Math.max(most - 1, 1)) + "…" : text);

// On a logarithmic axis with few x values, such as batch sizes, the values themselves are the ticks.
function ownTicks(scale, axis, values = []) {
  if (axis?.categories) return axis.categories.map((text, value) => ({ value, text }));
  const room = values.slice(1).every((value, index) => scale.at(value) - scale.at(values[index]) > 34);
  return scale.log && values.length > 1 && values.length <= 9 && room ? values.map((value) => ({ value, text: lab.number(value, 3) })) : scale.ticks;
}

// Creates the SVG and its scales. `x` is { axis, domain, values } or { axis, names }; `y` is { axis, domain }.
lab.plot = function ({ width, height, x, y, label, top = 10, bare = false }) {
  const yGuess = lab.scale(y.axis, y.domain, height, 0);
  const left = 34 + longest(yGuess.ticks) * TEXT;
  const right = width - 12;
  const names = x.names ?? null;
  const place = names ? (right - left) / Math.max(names.length, 1) : 0;
  const nameLength = names ? Math.max(0, ...names.map((name) => String(name).length)) : 0;
  const numeric = names?.every((name) => /^[−\d\s.,]*$/.test(String(name)));
  const every = names && numeric ? Math.ceil(((nameLength + 1.5) * TEXT) / place) : 1;
  const slanted = names !== null && !numeric && (nameLength + 1) * TEXT > place;
  const bottom = height - (bare ? 22 : 44) - (slanted ? Math.min(nameLength, 18) * TEXT * 0.62 : 0);

  const sx = names ? lab.bands(names, left, right) : lab.scale(x.axis, x.domain, left, right);
  const sy = lab.scale(y.axis, y.domain, bottom, top);
  const svg = lab.svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });

  const grid = lab.svg("g", { class: "axis" });
  for (const { value, text } of sy.ticks) {
    const at = sy.at(value);
    grid.append(lab.svg("path", { class: "gridline", d: `M${left},${at}H${right}` }));
    grid.append(lab.svg("text", { x: left - 7, y: at + 4, "text-anchor": "end" }, text));
  }
  const ticks = names ? sx.ticks : ownTicks(sx, x.axis, x.values);
  ticks.forEach(({ value, text }, index) => {
    if (index % every) return;
    const at = sx.at(value);
    grid.append(lab.svg("path", { class: "tickline", d: `M${at},${bottom}v5` }));
    const place = slanted ? { transform: `translate(${at + 4} ${bottom + 15}) rotate(-38)`, "text-anchor": "end" } : { x: at, y: bottom + 19, "text-anchor": "middle" };
    grid.append(lab.svg("text", place, slanted ? cut(text, 18) : text));
  });
  grid.append(lab.svg("path", { class: "baseline", d: `M${left},${bottom}H${right}` }));
  if (!bare) grid.append(lab.svg("text", { class: "name", x: (left + right) / 2, y: height - 5, "text-anchor": "middle" }, lab.axisTitle(x.axis)));
  const room = Math.floor((bottom - top + 30) / TEXT);
  grid.append(lab.svg("text", { class: "name", transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, cut(lab.axisTitle(y.axis), room)));

  // Clip marks to the plot area, even if an axis has fixed limits.
  const clip = lab.svg("rect", { x: left - 6, y: top - 6, width: right - left + 12, height: bottom - top + 6 });
  const id = lab.id("area");
  const marks = lab.svg("g", { class: "marks", "clip-path": `url(#${id})` });
  svg.append(lab.svg("clipPath", { id }, clip), grid, marks);
  return { svg, marks, clip, x: sx, y: sy, left, right, top, bottom };
};

// Less tall in print, so that two figures fit on a page.
lab.plotHeight = (width) => ("print" in document.documentElement.dataset ? 250 : Math.round(lab.clamp(width * 0.5, 250, 400)));

// A path through points, with gaps where a coordinate is NaN.
lab.path = function (points) {
  let pen = "M";
  let path = "";
  for (const [x, y] of points) {
    if (Number.isNaN(x) || Number.isNaN(y)) pen = "M";
    else {
      path += `${pen}${x.toFixed(1)},${y.toFixed(1)}`;
      pen = "L";
    }
  }
  return path;
};

// The pointer's position in SVG units.
lab.pointer = function (event, svg) {
  const box = svg.getBoundingClientRect();
  const unit = svg.viewBox.baseVal.width / box.width;
  return [(event.clientX - box.left) * unit, (event.clientY - box.top) * unit];
};

// The tooltip beside the pointer: lines of text.
lab.tip = {
  show(event, lines) {
    const tip = document.getElementById("tip");
    tip.replaceChildren(...lines.map((line) => lab.el("div", {}, line)));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const aside = event.clientX + 16 + width < innerWidth ? event.clientX + 16 : event.clientX - 16 - width;
    tip.style.left = `${Math.max(4, aside)}px`;
    tip.style.top = `${lab.clamp(event.clientY - height - 10, 4, innerHeight - height - 4)}px`;
  },
  hide() {
    document.getElementById("tip").hidden = true;
  },
  // Shows `lines(x, y)` while the pointer is over `svg`; null hides the tooltip.
  follow(svg, lines) {
    const move = (event) => {
      const text = lines(...lab.pointer(event, svg));
      if (text) lab.tip.show(event, text);
      else lab.tip.hide();
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", lab.tip.hide);
  },
};
