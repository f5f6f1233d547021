// The table of runs: full-text search, filters and sorting by column, all stored in the hash.
const COLUMNS = [
  { key: "study", name: "study" }, { key: "model", name: "model" }, { key: "norm", name: "norm" },
  { key: "seed", name: "seed", number: true }, { key: "lr", name: "learning rate", number: true }, { key: "batch", name: "batch", number: true },
  { key: "epochs", name: "epochs", number: true }, { key: "train_loss", name: "train loss", number: true }, { key: "val_loss", name: "val. loss", number: true },
  { key: "val_accuracy", name: "val. accuracy", number: true }, { key: "diverged", name: "diverged" }, { key: "file", name: "record" },
];
const PAGE = 25;
const ON_PAPER = 200;
const text = (run, key) => (key === "diverged" ? (run.diverged ? "yes" : "no") : String(run[key] ?? ""));
// Seeds beyond JavaScript's exact integers are strings.
const value = (run, key) => (run[key] === null || run[key] === undefined ? null : Number(run[key]));

// Syntax of a number filter: >0.9  <=1e-3  0.1..0.5  64
function numberFilter(words) {
  const range = words.match(/^(\S+)\s*\.\.\s*(\S+)$/);
  if (range) return (number) => number !== null && number >= Number(range[1]) && number <= Number(range[2]);
  const [, sign, rest] = words.match(/^(>=|<=|>|<|=|≥|≤)?\s*(.*)$/);
  if (!rest) return () => true; // an operator without a number: still being typed
  const limit = Number(rest);
  if (!lab.isNumber(limit)) return () => false;
  const tests = { ">": (n) => n > limit, "<": (n) => n < limit, ">=": (n) => n >= limit, "≥": (n) => n >= limit, "<=": (n) => n <= limit, "≤": (n) => n <= limit };
  const test = tests[sign] ?? ((n) => n === limit);
  return (number) => number !== null && test(number);
}

function wanted(run) {
  const words = lab.state.get("runs.q", "").toLowerCase().split(/\s+/).filter(Boolean);
  const line = COLUMNS.map(({ key }) => text(run, key)).join(" ").toLowerCase();
  return words.every((word) => line.includes(word)) && COLUMNS.every(({ key, number }) => {
    const filter = lab.state.get(`runs.${key}`, "").trim();
    return !filter || (number ? numberFilter(filter)(value(run, key)) : text(run, key) === filter);
  });
}

function sorted(runs) {
  const sort = lab.state.get("runs.sort", "");
  const [key, sign] = sort.startsWith("-") ? [sort.slice(1), -1] : [sort, 1];
  const column = COLUMNS.find((one) => one.key === key);
  if (!column) return runs;
  return [...runs].sort((a, b) => {
    if (!column.number) return sign * text(a, key).localeCompare(text(b, key));
    const [x, y] = [value(a, key), value(b, key)];
    // Missing numbers sort last in both directions.
    return x === null || y === null ? (x === null) - (y === null) : sign * (x - y);
  });
}

function shown(run, { key, number }) {
  if (key === "diverged") return lab.el("td", {}, run.diverged ? lab.el("span", { class: "badge no" }, "✕ yes") : "no");
  if (key === "file") return lab.el("td", {}, lab.el("code", {}, run.file));
  return lab.el("td", { class: number ? "number" : null }, number && key === "seed" ? text(run, key) || "—" : lab.cell(run[key]));
}

function field(runs, { key, name, number }, changed) {
  const state = `runs.${key}`;
  const set = (event) => { lab.state.set(state, event.target.value); changed(); };
  const control = number
    ? lab.el("input", { type: "text", placeholder: "any", oninput: set, inputmode: "text", autocomplete: "off" })
    : lab.el("select", { onchange: set }, lab.el("option", { value: "" }, "any"), [...new Set(runs.map((run) => text(run, key)))].sort().map((option) => lab.el("option", { value: option }, option)));
  return { node: lab.el("label", {}, lab.el("span", {}, name), control), refresh: () => { control.value = lab.state.get(state, ""); } };
}

lab.runs = function (runs) {
  const section = lab.el("section", { class: "runs", id: lab.place("runs"), "data-story": "runs", "aria-labelledby": "runs-title" }, lab.el("h2", { id: "runs-title", tabindex: "-1" }, "All runs"));
  if (!runs.length) {
    section.append(lab.el("p", { class: "empty" }, "There are no runs."));
    return section;
  }
  let limit = PAGE;
  const changed = () => { lab.state.set("view", "runs"); onScreen(); };
  const search = lab.el("input", { type: "search", placeholder: "Search, e.g. layer lstm", "aria-label": "Search runs", oninput: () => { lab.state.set("runs.q", search.value); changed(); } });
  const fields = COLUMNS.filter(({ key }) => key !== "file").map((column) => field(runs, column, changed));
  const clear = lab.el("button", { type: "button", onclick: () => { ["q", ...COLUMNS.map(({ key }) => key)].forEach((key) => lab.state.set(`runs.${key}`, null)); refresh(); changed(); } }, "Clear filters");
  const count = lab.el("p", { class: "remark", "aria-live": "polite" });
  const heads = COLUMNS.map((column) => lab.el("th", { scope: "col", class: column.number ? "number" : null }, lab.el("button", { type: "button", class: "sort", onclick: () => sortBy(column.key) }, column.name)));
  const body = lab.el("tbody", {});
  const more = lab.el("button", { type: "button", class: "more", onclick: () => { limit += PAGE; fill(); } }, "Show more");

  function sortBy(key) {
    const now = lab.state.get("runs.sort", "");
    lab.state.set("runs.sort", now === key ? `-${key}` : now === `-${key}` ? null : key);
    changed();
  }
  function fill() {
    const found = sorted(runs.filter(wanted));
    const sort = lab.state.get("runs.sort", "");
    heads.forEach((head, index) => head.setAttribute("aria-sort", sort === COLUMNS[index].key ? "ascending" : sort === `-${COLUMNS[index].key}` ? "descending" : "none"));
    body.replaceChildren(...found.slice(0, limit).map((run) => lab.el("tr", { class: run.diverged ? "diverged" : null }, COLUMNS.map((column) => shown(run, column)))));
    more.hidden = found.length <= limit;
    const bad = found.filter((run) => run.diverged).length;
    count.textContent = found.length ? `${lab.number(found.length)} of ${lab.count(runs.length, "run")}, ${lab.number(bad)} diverged; ${lab.number(Math.min(limit, found.length))} shown.` : `None of the ${lab.count(runs.length, "run")} match these filters.`;
  }
  function refresh() {
    search.value = lab.state.get("runs.q", "");
    fields.forEach((one) => one.refresh());
  }
  refresh();
  fill();
  const onScreen = () => { limit = PAGE; fill(); };
  addEventListener("beforeprint", () => { limit = ON_PAPER; fill(); }, { signal: lab.signal() });
  addEventListener("afterprint", onScreen, { signal: lab.signal() });
  lab.state.onChange((touched) => {
    if (!touched("runs.")) return;
    refresh();
    fill();
  });
  section.append(
    lab.el("div", { class: "filters", role: "search" }, search, lab.el("details", { open: fields.some(({ node }) => node.querySelector("input, select").value) ? "" : null }, lab.el("summary", {}, "Filter by column"), lab.el("div", { class: "fields" }, fields.map(({ node }) => node)), lab.el("p", { class: "remark" }, "Filter numbers by value (64), bound (>0.9, <1e-3) or range (0.1..0.5).")), clear),
    count, lab.wide("Table of all runs", lab.el("table", { class: "plain runs-table" }, lab.el("thead", {}, lab.el("tr", {}, heads)), body)), more);
  return section;
};
