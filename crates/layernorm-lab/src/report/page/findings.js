// Findings: the verdicts, their number, and the table of a story's questions, each with a dot-and-whisker plot.
const VERDICTS = {
  supported: { mark: "✓", text: "Supported", name: "yes" },
  contradicted: { mark: "≠", text: "Contradicted", name: "no" },
  undecided: { mark: "?", text: "Undecided", name: "open" },
};
lab.verdict = (finding) => VERDICTS[finding.verdict] ?? VERDICTS.undecided;
const badge = (finding) => {
  const { mark, text, name } = lab.verdict(finding);
  return lab.el("span", { class: `badge ${name}` }, lab.el("span", { "aria-hidden": "true" }, mark), ` ${text}`);
};

// The number of findings with each verdict.
lab.verdicts = (findings) => Object.fromEntries(Object.keys(VERDICTS).map((verdict) => [verdict, findings.filter((finding) => finding.verdict === verdict).length]));

// Small marks with numbers, such as “✓ 3 ? 1”; verdicts that do not occur are left out.
lab.marks = function (findings) {
  const counts = lab.verdicts(findings);
  const kept = Object.entries(VERDICTS).filter(([verdict]) => counts[verdict] > 0);
  return kept.map(([verdict, { mark, text, name }]) => lab.el("span", { class: `count-mark ${name}`, title: `${counts[verdict]} ${text.toLowerCase()}` },
    lab.el("span", { "aria-hidden": "true" }, mark), String(counts[verdict]), lab.el("span", { class: "spoken" }, ` ${text.toLowerCase()} `)));
};

// The place of a question in links.
lab.questionPlace = (story, finding) => `${story.id}/q-${finding.id}`;

const [WIDTH, HEIGHT, EDGE] = [220, 28, 8];

// The mean as a dot, the interval as a line with ends, the seeds as ticks, and a line at zero. The claimed side is shaded.
// Every plot has its own scale.
function whisker({ differences, mean, interval, claimed }, label) {
  const reach = Math.max(...[...differences, ...(interval ?? [])].map(Math.abs), Number.MIN_VALUE);
  const x = (value) => WIDTH / 2 + (value / reach) * (WIDTH / 2 - EDGE);
  const middle = HEIGHT / 2;
  const ends = interval && `M${x(interval[0])},${middle - 4}v8M${x(interval[1])},${middle - 4}v8M${x(interval[0])},${middle}H${x(interval[1])}`;
  return lab.svg("svg", { class: "forest", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label },
    lab.svg("rect", { class: "frame", x: 0.5, y: 0.5, width: WIDTH - 1, height: HEIGHT - 1 }),
    lab.svg("rect", { class: "claimed", x: claimed === "below" ? 0 : WIDTH / 2, y: 0, width: WIDTH / 2, height: HEIGHT }),
    lab.svg("path", { class: "zero", d: `M${WIDTH / 2},0V${HEIGHT}` }),
    lab.svg("path", { class: "seeds", d: differences.map((value) => `M${x(value)},${HEIGHT - 6}v5`).join("") }),
    ends ? lab.svg("path", { class: "interval", d: ends }) : null,
    lab.svg("circle", { class: "mean", cx: x(mean), cy: middle, r: 3.6 }));
}

function evidence(finding) {
  const { evidence, result } = finding;
  const remark = (...text) => lab.el("div", { class: "remark" }, ...text);
  if (evidence.kind !== "paired") return [lab.el("div", { class: "result" }, result), evidence.kind === "exact" ? remark(`expected: ${evidence.expected}`) : null];
  const seeds = lab.count(evidence.differences.length, "seed");
  const text = `${evidence.what}: mean ${result.replace("(", "(95 % interval ")}; ${seeds}; the claim is a mean ${evidence.claimed} 0.`;
  return [lab.el("div", { class: "result" }, result), whisker(evidence, text), remark(`${evidence.what}; ${seeds}`)];
}

lab.findings = function (story) {
  const row = (finding) => lab.el("tr", { id: lab.place(lab.questionPlace(story, finding)), "data-verdict": finding.verdict, "data-claim": finding.source },
    lab.el("th", { scope: "row" }, `${finding.claim}.`, finding.explanation ? lab.el("div", { class: "remark" }, finding.explanation) : null),
    lab.el("td", { class: "evidence" }, evidence(finding)),
    lab.el("td", {}, badge(finding)));
  const paired = story.findings.some((finding) => finding.evidence.kind === "paired");
  return lab.el("div", { class: "questions" }, lab.el("h3", {}, "Findings"),
    lab.wide(`Findings: ${story.title}`, lab.el("table", { class: "plain verdicts" },
      lab.el("thead", {}, lab.el("tr", {}, ["Claim", "Evidence", "Verdict"].map((name) => lab.el("th", { scope: "col" }, name)))),
      lab.el("tbody", {}, story.findings.map(row)))),
    paired ? lab.el("p", { class: "remark" }, "Dot and line: mean difference and its 95 % interval; short lines: seeds; vertical line: zero; shaded: the claimed side. Every plot has its own scale.") : null);
};
