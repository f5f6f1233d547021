// Grouped bars with whiskers.

lab.charts.bars = function (chart, view) {
  const names = chart.x.categories ?? (chart.series?.[0]?.values ?? []).map((_, index) => String(index + 1));
  const series = chart.series ?? [];
  const domain = lab.domain(chart.y, series.flatMap(({ values, lo, hi }) => [...values, ...(lo ?? []), ...(hi ?? [])]), { zero: true });
  if (!names.length || !domain) return { empty: "There are no finite values to draw." };
  const looks = lab.looks(series.map(({ name }) => name));
  const spread = series.some(({ lo, hi }) => lo && hi);
  const missing = series.flatMap(({ name, values }) => names.flatMap((category, index) => (lab.isNumber(values[index]) ? [] : [`${name} at ${category}`])));
  const legend = lab.legend(looks, "fill", view, [spread && "whisker: range over seeds", missing.length && "✕ no value"].filter(Boolean));
  const holder = lab.el("div", { class: "holder" });

  function whisker(plot, x, low, high) {
    const [a, b] = [plot.y.at(low), plot.y.at(high)];
    if (Number.isNaN(a) || Number.isNaN(b)) return null;
    return lab.svg("path", { class: "whisker", d: `M${x - 4},${a}h8M${x - 4},${b}h8M${x},${a}V${b}` });
  }
  function one(plot, place, width, { values, lo, hi }, index, look, fill) {
    const ground = plot.y.log ? plot.bottom : plot.y.at(0);
    const y = plot.y.at(values[index] ?? NaN);
    if (Number.isNaN(y)) return [lab.svg("text", { class: "none", x: place + width / 2, y: plot.bottom - 5, "text-anchor": "middle", style: `fill:${look.color}` }, "✕")];
    const bar = lab.svg("rect", { class: "bar", x: place, y: Math.min(y, ground), width: Math.max(width - 2, 1), height: Math.max(Math.abs(ground - y), 1), style: `fill:${fill};stroke:${look.color}` });
    return [bar, lo && hi ? whisker(plot, place + width / 2 - 1, lo[index], hi[index]) : null];
  }
  return {
    parts: [legend.node, holder],
    notes: missing.length ? [`No value (diverged or not measured): ${missing.slice(0, 8).join("; ")}${missing.length > 8 ? `; and ${missing.length - 8} more` : ""}.`] : [],
    draw(width) {
      const plot = lab.plot({ width, height: lab.plotHeight(width), x: { axis: chart.x, names }, y: { axis: chart.y, domain }, label: `${chart.title}. ${chart.see}` });
      const shown = series.map((_, index) => index).filter(legend.shown);
      const bar = Math.min((plot.x.step * 0.78) / Math.max(shown.length, 1), 56);
      shown.forEach((index, order) => {
        const fill = lab.fill(plot.svg, looks[index]);
        names.forEach((_, category) => {
          const place = plot.x.at(category) + (order - shown.length / 2) * bar;
          plot.marks.append(...one(plot, place, bar, series[index], category, looks[index], fill).filter(Boolean));
        });
      });
      lab.tip.follow(plot.svg, (px) => {
        const category = plot.x.back(px);
        const range = ({ lo, hi }) => (lo && hi && lab.isNumber(lo[category]) ? ` (${lab.number(lo[category], 3)} to ${lab.number(hi[category], 3)})` : "");
        return [`${chart.x.label} ${names[category]}`, ...shown.map((index) => `${series[index].name}: ${lab.number(series[index].values[category])}${range(series[index])}`)];
      });
      holder.replaceChildren(plot.svg);
    },
    restore: legend.refresh,
    table: () => ({
      columns: [lab.axisTitle(chart.x), ...series.map(({ name }) => name)],
      rows: names.map((name, index) => [name, ...series.map(({ values }) => values[index] ?? null)]),
    }),
  };
};
