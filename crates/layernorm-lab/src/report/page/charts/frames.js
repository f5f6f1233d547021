// An animated profile: one point per layer or time step, one frame per training step.

lab.charts.frames = function (chart, view) {
  const frames = (chart.frames ?? []).filter((frame) => Array.isArray(frame.values));
  const places = Math.max(0, ...frames.flatMap(({ values }) => values.map((profile) => profile?.length ?? 0)));
  const names = Array.from({ length: places }, (_, index) => chart.x.categories?.[index] ?? String(index + 1));
  const all = frames.flatMap(({ values }) => values.flat());
  const domain = lab.domain(chart.y, all, { zero: !chart.y.log });
  if (!frames.length || !places || !domain) return { empty: "There are no finite values to draw." };

  const looks = lab.looks(chart.series);
  const legend = lab.legend(looks, "line", view, ["faint: first frame"]);
  const holder = lab.el("div", { class: "holder" });
  const missing = all.filter((value) => !lab.isNumber(value) || (chart.y.log && value <= 0)).length;
  let plot = null;
  let layers = [];
  const saved = () => {
    const at = Number.parseInt(view.get("at", ""), 10);
    return Number.isInteger(at) ? lab.clamp(at, 0, frames.length - 1) : frames.length - 1;
  };
  let position = saved();
  const player = lab.player({
    count: frames.length, position, name: chart.title,
    text: (index) => frames[index].label,
    onMove: show,
    onSettle: (index) => view.set("at", index >= frames.length - 1 ? null : index),
    seconds: 8,
  });

  const heights = (frame, index) => names.map((_, place) => plot.y.at(frame.values[index]?.[place] ?? NaN));
  const spots = (ys) => ys.map((y, place) => [plot.x.at(place), y]);

  // Interpolates between frames in pixels, so that motion is even on a logarithmic axis too.
  function show(to) {
    position = to;
    if (!plot) return;
    const [before, after] = [frames[Math.floor(to)], frames[Math.ceil(to)]];
    layers.forEach(({ line, dots }, index) => {
      if (!line) return;
      const [a, b] = [heights(before, index), heights(after, index)];
      const ys = a.map((y, place) => y + (b[place] - y) * (to % 1));
      line.setAttribute("d", lab.path(spots(ys)));
      dots.forEach((dot, place) => {
        dot.setAttribute("visibility", Number.isNaN(ys[place]) ? "hidden" : "visible");
        if (!Number.isNaN(ys[place])) dot.setAttribute("transform", `translate(${plot.x.at(place).toFixed(1)} ${ys[place].toFixed(1)})`);
      });
    });
  }
  function layer(look, index) {
    if (!legend.shown(index)) return {};
    const style = `stroke:${look.color}`;
    const line = lab.svg("path", { class: "line", style, "stroke-dasharray": look.dash });
    const dots = names.map(() => lab.svg("path", { class: "dot", d: lab.marker(look.shape, places > 40 ? 2.4 : 4.2), style: `fill:${look.color}` }));
    plot.marks.append(
      lab.svg("path", { class: "ghost", d: lab.path(spots(heights(frames[0], index))), style }),
      lab.svg("g", { class: "series", "data-name": look.name }, line, dots));
    return { line, dots };
  }
  return {
    parts: [legend.node, holder, player.node],
    notes: missing ? [`${lab.count(missing, "value")} of ${lab.number(all.length)} ${missing === 1 ? "is" : "are"} missing (diverged, or zero on a logarithmic axis) and not drawn.`] : [],
    draw(width) {
      plot = lab.plot({ width, height: lab.plotHeight(width), x: { axis: chart.x, names }, y: { axis: chart.y, domain }, label: `${chart.title}. ${chart.see}` });
      layers = looks.map(layer);
      lab.tip.follow(plot.svg, (px) => {
        const place = plot.x.back(px);
        const frame = frames[Math.round(position)];
        return [`${chart.x.label} ${names[place]}, ${frame.label}`, ...looks.flatMap(({ name }, index) => (legend.shown(index) ? [`${name}: ${lab.number(frame.values[index]?.[place])}`] : []))];
      });
      holder.replaceChildren(plot.svg);
      show(position);
    },
    restore() {
      legend.refresh();
      player.go(saved());
    },
    table: () => ({
      columns: ["frame", "series", ...names],
      rows: frames.flatMap((frame) => chart.series.map((name, index) => [frame.label, name, ...names.map((_, place) => frame.values[index]?.[place] ?? null)])),
    }),
  };
};
