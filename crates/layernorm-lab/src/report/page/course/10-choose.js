// Which norm when: the counts of the story “which-norm”, which is made from the findings of the other studies. Nothing is
// recommended here that is not in this report.
const STORY = "which-norm";
const LACKING = "This report lacks the table of situations: it is made from the findings of other studies, and none of them is in this report. The command “layernorm study all” runs them.";

// Results in words, as src/studies/which_norm.rs writes them: options, wins of each, and comparisons.
function readPair(words) {
  const clear = /^(.+) rather than (.+) \((\d+) of (\d+)\)$/.exec(words);
  if (clear) return { words, options: [clear[1], clear[2]], wins: [Number(clear[3]), 0], of: Number(clear[4]) };
  const mixed = /^(.+) or (.+): mixed \((\d+) and (\d+) of (\d+)\)$/.exec(words);
  if (mixed) return { words, options: [mixed[1], mixed[2]], wins: [Number(mixed[3]), Number(mixed[4])], of: Number(mixed[5]) };
  const open = /^(.+) or (.+): undecided \(0 of (\d+)\)$/.exec(words);
  if (open) return { words, options: [open[1], open[2]], wins: [0, 0], of: Number(open[3]) };
  return { words, options: null };
}
const isClear = ({ options, wins, of }) => options !== null && Math.min(...wins) === 0 && 2 * Math.max(...wins) > of;

function readRow([situation, result, links]) {
  const cells = Array.isArray(links) ? links : [];
  const findings = cells.filter(({ view }) => view).map(({ text, view }) => {
    const [, verdict, claim] = /^(supported|contradicted|undecided): (.*)$/s.exec(text) ?? [null, null, text];
    return { verdict, claim, view };
  });
  return { situation: String(situation), pairs: String(result).split("; ").map(readPair), findings, remarks: cells.filter(({ view }) => !view).map(({ text }) => text) };
}

function situations() {
  const table = (lab.storyOf(STORY)?.charts ?? []).find((chart) => chart.kind === "table" && chart.columns?.length >= 3);
  return (table?.rows ?? []).map(readRow);
}

// Situations as a table of data.
const TABLE = ["situation", "option A", "option B", "decided for A", "decided for B", "undecided", "in words"];
const pairRows = ({ situation, pairs }) => pairs.map(({ words, options, wins, of }) => (options ? [situation, ...options, ...wins, of - wins[0] - wins[1], words] : [situation, null, null, null, null, null, words]));

// ---- How a pair is shown ----

// The same colors as in chapter 8.
const BLOCKS = lab.looks(["pre-norm", "post-norm", "no norm"]);

// For each option the comparisons decided for it, and in the middle the undecided ones.
function votes({ options, wins, of }) {
  const looks = options.map((name) => BLOCKS.find((look) => look.name === name) ?? lab.looks([name])[0]);
  const part = (share, fill, name = null) => (share ? lab.el("span", { class: name, style: `--share:${share};${fill ? `--fill:${fill}` : ""}` }) : null);
  return lab.el("span", { class: "votes", role: "img", "aria-label": `${wins[0]} for ${options[0]}, ${of - wins[0] - wins[1]} undecided, ${wins[1]} for ${options[1]}` },
    part(wins[0], looks[0].color), part(of - wins[0] - wins[1], null, "open"), part(wins[1], looks[1].color));
}

function pairNode(pair) {
  if (!pair.options) return lab.el("div", { class: "pair" }, lab.el("span", {}, pair.words));
  return lab.el("div", { class: "pair" }, isClear(pair) ? lab.el("strong", {}, pair.words) : lab.el("span", {}, pair.words), votes(pair));
}

const anchor = (view, ...children) => lab.el("a", { href: `#view=${encodeURIComponent(view)}` }, ...children);
const decided = (findings) => findings.filter(({ verdict }) => verdict !== null);

function findingItem({ verdict, claim, view }) {
  const { mark, text, name } = lab.verdict({ verdict });
  return lab.el("li", {}, verdict ? lab.el("span", { class: `badge ${name}` }, lab.el("span", { "aria-hidden": "true" }, mark), ` ${text}`) : null, " ", anchor(view, claim));
}

// ---- The questions ----

const NETWORKS = [
  ["cnn", "CNN", /\bCNN\b/], ["lstm", "recurrent (LSTM, GRU)", /\b(LSTM|GRU|DRAW)\b/], ["shallow", "Transformer, a few blocks", /\bTransformer\b|\b[1-4] blocks\b/],
  ["deep", "Transformer, 8 blocks or more", /\bTransformer\b|\b\d+ blocks\b/], ["mlp", "MLP", /\bMLP\b/],
];
const CONCERNS = [["none", "nothing else"], ["rate", "the learning rate is uncertain"], ["scale", "the scale of inputs or weights is uncertain"], ["few", "few training images"], ["cheap", "cheap inference"]];

// Which situations answers lead to, the most special first. The names are those of src/studies/which_norm/situations.rs.
const MATCHES = [
  [({ data }) => data === "stream", /^Streams/],
  [({ data }) => data === "lengths", /^Sequences of varying length/],
  [({ batch }) => batch === "small", /^Batches of 1 to 4/],
  [({ network, batch }) => network === "cnn" && batch === "large", /^Images with large batches/],
  [({ network }) => network === "lstm", /^Recurrent/],
  [({ network }) => network === "deep", /^Deep Transformers/],
  [({ network }) => network === "shallow", /^Shallow Transformers/],
  [({ network }) => network === "mlp", /^MLPs?$/],
  [({ concern }) => concern === "rate", /^Uncertain learning rate/],
  [({ concern }) => concern === "scale", /^Uncertain scale/],
  [({ concern }) => concern === "few", /^Few training images/],
  [({ concern }) => concern === "cheap", /^Cheapest inference/],
];

// The situations of the report that fit, and whether answers fit one that it does not have.
function matching(answers, rows) {
  const wanted = MATCHES.filter(([fits]) => fits(answers)).map(([, name]) => name);
  const found = wanted.map((name) => rows.find(({ situation }) => name.test(situation)));
  return { rows: found.filter(Boolean), lacking: found.filter((row) => !row).length };
}

let answered = null; // the answers and what they lead to, for the exercise

function caseNode(row, network) {
  const [, networkName, pattern] = NETWORKS.find(([id]) => id === network);
  const own = decided(row.findings).filter(({ claim }) => pattern.test(claim));
  const some = own.length > 0 && own.length < decided(row.findings).length;
  const order = [...row.findings].sort((a, b) => own.includes(b) - own.includes(a));
  return lab.el("section", { class: "case" }, lab.el("h4", {}, row.situation), row.pairs.map(pairNode),
    some ? lab.el("p", { class: "remark" }, `Of its ${lab.count(decided(row.findings).length, "finding")}, those that name your network (${networkName}): `, lab.marks(own)) : null,
    row.findings.length ? lab.el("details", {}, lab.el("summary", {}, `${lab.count(row.findings.length, "finding")} `, lab.marks(decided(row.findings))), lab.el("ul", {}, order.map(findingItem))) : null,
    row.remarks.map((text) => lab.el("p", { class: "remark" }, text)));
}

function helper(view) {
  const rows = situations();
  if (!rows.length) return { empty: LACKING };
  const changed = () => paint();
  const controls = {
    network: lab.menu(view, { name: "network", label: "Network", options: NETWORKS.map(([id, text]) => [id, text]), start: "lstm", changed }),
    batch: lab.options(view, { name: "batch", label: "Samples in a batch", options: [["small", "1 to 4"], ["middle", "5 to 31"], ["large", "32 or more"]], start: "small", changed }),
    data: lab.options(view, { name: "data", label: "Data", options: [["fixed", "fixed"], ["stream", "a changing stream"], ["lengths", "sequences of varying length"]], changed }),
    concern: lab.menu(view, { name: "concern", label: "Also important", options: CONCERNS, changed }),
  };
  const told = lab.el("div", { class: "verdict-box", "aria-live": "polite" });
  const cases = lab.el("div", {});
  function paint() {
    const answers = Object.fromEntries(Object.entries(controls).map(([name, { value }]) => [name, value]));
    const found = matching(answers, rows);
    const clear = found.rows.flatMap(({ situation, pairs }) => pairs.filter(isClear).map(({ words }) => [situation, words]));
    answered = { ...found, clear };
    told.classList.toggle("nothing", !clear.length);
    told.replaceChildren(
      clear.length ? lab.el("p", {}, "Clear in this report:") : lab.el("p", {}, found.rows.length ? "The findings of this report do not decide for this case." : "No situation of this report fits these answers."),
      clear.length ? lab.el("ul", {}, clear.map(([situation, words]) => lab.el("li", {}, lab.el("b", {}, words), ` – ${situation}`))) : "",
      found.lacking ? lab.el("p", { class: "remark" }, `This report lacks ${lab.count(found.lacking, "situation")} that would fit: its studies were not run (layernorm study all).`) : "");
    cases.replaceChildren(...found.rows.map((row) => caseNode(row, answers.network)));
  }
  paint();
  return {
    parts: [lab.controls(...Object.values(controls).map(({ node }) => node)), told, cases],
    restore() {
      Object.values(controls).forEach((control) => control.restore());
      paint();
    },
    table: () => ({ columns: TABLE, rows: answered.rows.flatMap(pairRows) }),
  };
}

// ---- All situations ----

function guide(view) {
  const rows = situations();
  if (!rows.length) return { empty: LACKING };
  const count = ({ findings }) => (findings.length ? anchor(`${STORY}/situations`, lab.marks(decided(findings)), decided(findings).length ? "" : String(findings.length)) : lab.el("span", {}, "—"));
  const table = lab.el("table", { class: "plain guide-table" },
    lab.el("thead", {}, lab.el("tr", {}, ["Situation", "Comparisons", "Findings"].map((name) => lab.el("th", { scope: "col" }, name)))),
    lab.el("tbody", {}));
  const only = lab.toggle(view, { name: "clear", label: "Only clear results", changed: () => paint() });
  const line = (row, pairs) => lab.el("tr", {}, lab.el("th", { scope: "row" }, row.situation), lab.el("td", {}, pairs.map(pairNode)), lab.el("td", { class: "marks" }, count(row)));
  function paint() {
    const shown = rows.map((row) => [row, only.value ? row.pairs.filter(isClear) : row.pairs]).filter(([, pairs]) => pairs.length);
    const none = lab.el("tr", {}, lab.el("td", { colspan: 3 }, "No result of this report is clear."));
    table.tBodies[0].replaceChildren(...(shown.length ? shown.map(([row, pairs]) => line(row, pairs)) : [none]));
  }
  paint();
  return {
    parts: [lab.controls(only.node), lab.wide("All situations", table)],
    restore() { only.restore(); paint(); },
    table: () => ({ columns: TABLE, rows: rows.flatMap(pairRows) }),
  };
}

lab.chapter("choose", {
  figures: {
    helper: { title: "Your case, and what this report found for it", see: "Bars: comparisons decided for the first option (left), undecided (hatched), decided for the second (right). Bold: clear. Every finding links to its numbers.", make: helper },
    guide: { title: "All situations of this report", see: "The marks count supported, contradicted and undecided findings, and lead to the table with all of them. Norms that are not named were not compared.", make: guide },
  },
  exercises: [
    {
      id: "open", kind: "task", button: "Check my answers above",
      check: async () => {
        if (!answered) return { right: true, why: "This report has no table of situations, so it decides nothing." };
        if (!answered.clear.length) return { right: true, why: answered.rows.length ? `The comparisons are mixed or mostly undecided: ${answered.rows.flatMap(({ pairs }) => pairs.map(({ words }) => words)).join("; ")}.` : "No study of this report compares norms in this case, so it says nothing about it." };
        return { right: false, why: `Here is a clear pair: ${answered.clear[0][1]} (${answered.clear[0][0]}).` };
      },
      hint: "A case may fit no situation, or only pairs that are mixed or undecided.",
      solution: "Answers that fit no situation always qualify, such as a CNN with 5 to 31 samples in a batch, fixed data and nothing else.",
    },
    {
      id: "counts", kind: "choice",
      options: [
        { text: "Layer norm won five comparisons and batch norm four.", why: "Then it would say “mixed (5 and 4 of 9)”. The other four are undecided." },
        { text: "Layer norm is better with a probability of 5/9.", why: "The counts are verdicts of different comparisons (networks and batch sizes), not repetitions of one experiment." },
        { text: "Five of nine comparisons are decided for layer norm, none for batch norm, and four are undecided.", right: true, why: "So it is clear by the rule here, but nearly half of the comparisons showed no certain difference." },
        { text: "Layer norm lowers the error by a factor of 5/9.", why: "The counts say nothing about how large a difference is. Open a finding to see its size." },
      ],
      hint: "A comparison has three possible outcomes.",
      solution: "Of nine comparisons, five are decided for layer norm. The other four are undecided: if some were decided for batch norm, the entry would say “mixed”.",
    },
    {
      id: "interval", kind: "choice",
      options: [
        { text: "Layer norm is better, since the mean is below zero.", why: "The interval contains zero: a difference of this size can come from the seeds alone." },
        { text: "Undecided: the interval contains zero. More seeds may decide.", right: true, why: "With n seeds the interval shrinks about like 1/√n." },
        { text: "The two norms are equal.", why: "The data also fit a difference of one point. Not shown to differ is not the same as equal." },
        { text: "Contradicted, since +0.3 is possible.", why: "Contradicted would need the whole interval on the other side of zero." },
      ],
      hint: "Where is zero: below, inside or above the interval?",
      solution: "Undecided. The interval from −1.1 to +0.3 contains zero, so these seeds show no certain difference in either direction.",
    },
  ],
});
