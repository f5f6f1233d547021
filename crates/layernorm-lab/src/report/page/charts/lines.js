// Line charts with bands, notes on gaps, and a slider that draws them up to a step.

// Values as a list of the same length as x, whatever the input.
const list = (values, length) => Array.from({ length }, (_, index) => values?.[index] ?? null);

function read(chart) {
  return chart.series.map((series) => {
    const x = series.x ?? [];
    return { ...series, x, y: list(series.y, x.length), lo: series.lo && list(series.lo, x.length), hi: series.hi && list(series.hi, x.length) };
  });
}

function gaps(series, log) {
  return series.flatMap(({ name, y }) => {
    const missing = y.filter((value) => !lab.isNumber(value)).length;
    const below = log ? y.filter((value) => lab.isNumber(value) && value <= 0).length : 0;
    return [
      missing && `${name} has no value at ${missing} of ${lab.count(y.length, "point")} (diverged or not measured).`,
      below && `${name} has ${lab.count(below, "value")} at or below zero, which a logarithmic axis cannot show.`,
    ].filter(Boolean);
  });
}

function band(plot, { x, lo, hi }, look) {
  // A lower edge that a logarithmic axis cannot show is drawn at the bottom.
  const height = (value) => (plot.y.log && lab.isNumber(value) && value <= 0 ? plot.bottom : plot.y.at(value));
  const edge = (values) => x.map((value, index) => [plot.x.at(value), height(values[index])]);
  const [lower, upper] = [edge(lo), edge(hi)];
  const both = lower.map((_, index) => index).filter((index) => ![...lower[index], ...upper[index]].some(Number.isNaN));
  if (both.length < 2) return;
  const around = [...both.map((index) => upper[index]), ...both.reverse().map((index) => lower[index])];
  plot.marks.append(lab.svg("path", { class: "band", d: lab.path(around) + "Z", style: `fill:${look.color}` }));
}

function curve(plot, { x, y, name }, look, order) {
  const points = x.map((value, index) => [plot.x.at(value), plot.y.at(y[index])]);
  const drawn = points.filter((point) => !point.some(Number.isNaN));
  const group = lab.svg("g", { class: "series", "data-name": name });
  group.append(lab.svg("path", { class: "line", d: lab.path(points), style: `stroke:${look.color}`, "stroke-dasharray": look.dash }));
  // Markers at all points of a short curve and at a few of a long one, to identify it.
  const every = drawn.length <= 14 ? 1 : Math.ceil(drawn.length / 6);
  drawn.forEach(([px, py], index) => {
    if ((index + order * Math.ceil(every / 3)) % every) return;
    group.append(lab.svg("path", { class: "dot", d: lab.marker(look.shape, 3.6), transform: `translate(${px.toFixed(1)} ${py.toFixed(1)})`, style: `fill:${look.color}` }));
  });
  if (drawn.length && drawn.length < points.length && points.at(-1).some(Number.isNaN)) {
    const [px, py] = drawn.at(-1);
    group.append(lab.svg("path", { class: "end", d: `M${px - 6},${py - 6}l12,12m0,-12l-12,12`, style: `stroke:${look.color}` }));
  }
  plot.marks.append(group);
}

const nearest = (xs, wanted) => xs.reduce((best, x, index) => (Math.abs(x - wanted) < Math.abs(xs[best] - wanted) ? index : best), 0);

lab.charts.lines = function (chart, view) {
  const series = read(chart);
  const looks = lab.looks(series.map(({ name }) => name), series.map(({ dashed }) => dashed));
  const xs = [...new Set(series.flatMap(({ x }) => x))].filter(lab.isNumber).sort((a, b) => a - b);
  const xDomain = lab.domain(chart.x, xs, { pad: chart.x.log ? 0.04 : 0.015 });
  const yDomain = lab.domain(chart.y, series.flatMap(({ y, lo, hi }) => [...y, ...(lo ?? []), ...(hi ?? [])]));
  if (!xDomain || !yDomain) return { empty: "There are no finite values to draw." };

  const scrub = chart.scrub === true && xs.length > 1;
  const ends = series.some(({ y }) => y.length && !lab.isNumber(y.at(-1)) && y.some(lab.isNumber));
  const bands = series.some(({ lo, hi }) => lo && hi);
  const legend = lab.legend(looks, "line", view, [bands && "band: range over seeds", ends && "✕ no values from here on"].filter(Boolean));
  const holder = lab.el("div", { class: "holder" });
  let plot = null;
  let cursor = null;
  const saved = () => {
    const at = Number.parseFloat(view.get("at", ""));
    return scrub && lab.isNumber(at) ? nearest(xs, at) : xs.length - 1;
  };
  let position = saved();
  const player = scrub && lab.player({
    count: xs.length, position: saved(), name: chart.title,
    text: (index) => `${chart.x.label} ${lab.number(xs[index])}`,
    onMove: reveal,
    onSettle: (index) => view.set("at", index >= xs.length - 1 ? null : xs[index]),
  });

  // Draws up to a position, which can be between two steps.
  function reveal(to) {
    position = to;
    if (!plot) return;
    const [below, above] = [xs[Math.floor(to)], xs[Math.ceil(to)]];
    const pixel = plot.x.at(below) + (plot.x.at(above) - plot.x.at(below)) * (to % 1);
    const all = to >= xs.length - 1;
    plot.clip.setAttribute("width", all ? plot.right - plot.left + 12 : Math.max(pixel - plot.left + 6, 0));
    cursor.setAttribute("d", all ? "" : `M${pixel},${plot.top}V${plot.bottom}`);
    series.forEach(({ x, y }, index) => legend.read(index, scrub && x.length ? lab.number(y[nearest(x, xs[Math.round(to)])], 3) : ""));
  }
  function readout(px, py) {
    if (px < plot.left - 8 || px > plot.right + 8 || py > plot.bottom + 20) return null;
    const x = xs[nearest(xs.map((value) => plot.x.at(value)), px)];
    const lines = series.flatMap((one, index) => {
      const found = one.x.indexOf(x);
      if (found < 0 || !legend.shown(index)) return [];
      const spread = one.lo && one.hi && lab.isNumber(one.lo[found]) ? ` (${lab.number(one.lo[found], 3)} to ${lab.number(one.hi[found], 3)})` : "";
      return [`${one.name}: ${lab.number(one.y[found])}${spread}`];
    });
    return [`${chart.x.label} ${lab.number(x)}`, ...lines];
  }
  return {
    parts: [legend.node, holder, player && player.node].filter(Boolean),
    notes: gaps(series, chart.y.log),
    draw(width) {
      plot = lab.plot({ width, height: lab.plotHeight(width), x: { axis: chart.x, domain: xDomain, values: xs }, y: { axis: chart.y, domain: yDomain }, label: `${chart.title}. ${chart.see}` });
      series.forEach((one, index) => { if (legend.shown(index) && one.lo && one.hi) band(plot, one, looks[index]); });
      series.forEach((one, index) => { if (legend.shown(index)) curve(plot, one, looks[index], index); });
      cursor = lab.svg("path", { class: "cursor" });
      plot.svg.append(cursor);
      lab.tip.follow(plot.svg, readout);
      holder.replaceChildren(plot.svg);
      reveal(position);
    },
    restore() {
      legend.refresh();
      if (player) player.go(saved());
    },
    table() {
      const found = series.map(({ x, y }) => new Map(x.map((value, index) => [value, y[index]])));
      return { columns: [lab.axisTitle(chart.x), ...series.map(({ name }) => name)], rows: xs.map((x) => [x, ...found.map((values) => values.get(x) ?? null)]) };
    },
  };
};
