// Histograms: up to three are overlaid, more are stacked vertically with the same axes.
const OVER = 3;

// The outline of the counts, starting and ending at the baseline.
function outline(plot, { edges, counts }) {
  const ground = plot.y.at(plot.y.low);
  const y = (count) => (Number.isNaN(plot.y.at(count)) ? ground : plot.y.at(count));
  const points = counts.flatMap((count, index) => [[plot.x.at(edges[index]), y(count)], [plot.x.at(edges[index + 1]), y(count)]]);
  return [[points[0][0], ground], ...points, [points.at(-1)[0], ground]];
}

const usable = ({ edges, counts }) => counts?.length > 0 && edges?.length === counts.length + 1 && edges.every(lab.isNumber);

lab.charts.histograms = function (chart, view) {
  const groups = (chart.groups ?? []).filter(usable);
  const xDomain = lab.domain(chart.x, groups.flatMap(({ edges }) => edges), { pad: 0.01 });
  const yDomain = lab.domain(chart.y, groups.flatMap(({ counts }) => counts), { zero: true });
  if (!xDomain || !yDomain) return { empty: "There are no values to draw." };
  const unusable = (chart.groups ?? []).length - groups.length;
  const looks = lab.looks(groups.map(({ name }) => name));
  const legend = lab.legend(looks, "fill", view);
  const holder = lab.el("div", { class: "holder" });
  const rows = groups.length <= OVER ? [groups.map((_, index) => index)] : groups.map((_, index) => [index]);

  function draw(width, indexes, last) {
    const height = rows.length === 1 ? lab.plotHeight(width) : last ? 148 : 126;
    const label = `${chart.title}: ${indexes.map((index) => groups[index].name).join(", ")}. ${chart.see}`;
    const plot = lab.plot({ width, height, x: { axis: chart.x, domain: xDomain }, y: { axis: chart.y, domain: yDomain }, label, bare: !last });
    for (const index of indexes) {
      const look = looks[index];
      const fill = lab.fill(plot.svg, look);
      plot.marks.append(lab.svg("path", { class: "hill", d: lab.path(outline(plot, groups[index])), style: `fill:${fill};stroke:${look.color}`, "stroke-dasharray": look.dash }));
    }
    if (rows.length > 1) plot.svg.append(lab.svg("text", { class: "inside", x: plot.right - 6, y: plot.top + 12, "text-anchor": "end" }, groups[indexes[0]].name));
    lab.tip.follow(plot.svg, (px) => {
      const value = plot.x.back(px);
      return indexes.flatMap((index) => {
        const bin = groups[index].counts.findIndex((_, at) => value >= groups[index].edges[at] && value < groups[index].edges[at + 1]);
        if (bin < 0) return [];
        const [from, to] = groups[index].edges.slice(bin, bin + 2);
        return [`${groups[index].name}, ${lab.number(from, 3)} to ${lab.number(to, 3)}: ${lab.number(groups[index].counts[bin])}`];
      });
    });
    return plot.svg;
  }
  return {
    parts: [legend.node, holder],
    notes: unusable ? [`${lab.count(unusable, "distribution")} could not be drawn: no finite values.`] : [],
    draw(width) {
      const shown = rows.map((indexes) => indexes.filter(legend.shown)).filter((indexes) => indexes.length);
      holder.replaceChildren(...shown.map((indexes, row) => draw(width, indexes, row === shown.length - 1)));
      if (!shown.length) holder.replaceChildren(lab.el("p", { class: "empty" }, "All series are hidden; select one in the legend."));
    },
    restore: legend.refresh,
    table: () => ({
      columns: ["distribution", "from", "to", lab.axisTitle(chart.y)],
      rows: groups.flatMap(({ name, edges, counts }) => counts.map((count, index) => [name, edges[index], edges[index + 1], count])),
    }),
  };
};
