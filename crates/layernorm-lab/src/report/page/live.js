// The panel of a served page: progress, controls and the comparison of folders. Fields of `live`, all given by the server:
//   events                  the event stream: `changes` (finished runs and findings) and `state` (everything else)
//   report, number          the data of this page's folder, and the number of the report in this page
//   start, stop, resume     where to POST
//   folder, folders         the number of this page's folder, and the paths of all
//   studies                 name, question, and how long it takes if it is not part of `all`
const SHOWN = 5; // finished runs
const PHASES = {
  idle: "No study is running here.", opening: "Opening the folder …", running: "Running", stopping: "Stopping at the next step …",
  stopped: "Stopped; “Resume” continues.", finished: "All runs have ended.", failed: "The studies could not start.",
};
const percent = (done) => (lab.isNumber(done) ? `${Math.floor(100 * done)} %` : "");
const minutes = (seconds) => (seconds < 60 ? `${Math.max(seconds, 1)} s` : seconds < 3600 ? `${Math.round(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`);
const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const bar = (name) => lab.el("progress", { max: 1, "aria-label": name });
function fill(node, done) {
  if (lab.isNumber(done)) node.value = done;
  else node.removeAttribute("value");
}

// The runs in progress, each with a bar and its latest results.
function runList() {
  const rows = new Map();
  const node = lab.el("ul", { class: "live-runs", "aria-label": "Runs in progress" });
  return {
    node,
    show(running) {
      for (const { run, done, words } of running) {
        if (!rows.has(run)) {
          const row = { bar: bar(run), text: lab.el("span", { class: "live-words" }) };
          row.node = lab.el("li", {}, lab.el("code", {}, run), row.bar, row.text);
          rows.set(run, row);
          node.append(row.node);
        }
        const row = rows.get(run);
        fill(row.bar, done);
        put(row.text, [percent(done), words].filter(Boolean).join(", "));
      }
      const names = new Set(running.map(({ run }) => run));
      for (const [run, row] of rows) if (!names.has(run)) { row.node.remove(); rows.delete(run); }
    },
  };
}

// The folders, each with a link to its page, its counts and its verdicts.
function folderList(live) {
  const rows = live.folders.map((path, index) => {
    const here = index === live.folder;
    const cells = [lab.el("td", { class: "number" }), lab.el("td", {}), lab.el("td", {})];
    const link = here ? lab.el("strong", { "aria-current": "page" }, path)
      : lab.el("a", { href: `?folder=${index}`, onclick: (event) => { event.currentTarget.href = `?folder=${index}${location.hash}`; } }, path);
    return { cells, node: lab.el("tr", {}, lab.el("th", { scope: "row" }, link), cells) };
  });
  const heads = ["Folder", "Finished runs", "In progress", "Findings"].map((name, index) => lab.el("th", { scope: "col", class: index === 1 ? "number" : null }, name));
  const shown = new Array(rows.length).fill("");
  return {
    node: lab.wide("Folders", lab.el("table", { class: "plain live-folders" }, lab.el("thead", {}, lab.el("tr", {}, heads)), lab.el("tbody", {}, rows.map(({ node }) => node)))),
    show: (folders) => folders.forEach((folder, index) => {
      const text = JSON.stringify([folder.finished, folder.unfinished, folder.running.length, folder.verdicts, folder.problem]);
      if (shown[index] === text) return;
      shown[index] = text;
      const [finished, running, verdicts] = rows[index].cells;
      put(finished, lab.number(folder.finished));
      const idle = folder.unfinished - folder.running.length;
      put(running, [folder.running.length ? lab.number(folder.running.length) : "", idle > 0 ? `${lab.number(idle)} unfinished` : ""].filter(Boolean).join(", ") || "—");
      const list = Object.entries(folder.verdicts).flatMap(([verdict, count]) => Array.from({ length: count }, () => ({ verdict })));
      verdicts.replaceChildren(...lab.marks(list), folder.problem ? lab.el("div", { class: "remark" }, folder.problem) : "");
    }),
  };
}

// Findings of all folders side by side; those with different verdicts first.
function comparison(live) {
  const findings = new Map();
  const body = lab.el("tbody", {});
  const count = lab.el("p", { class: "remark" });
  const node = lab.el("details", { class: "live-compare" }, lab.el("summary", {}, "Compare the findings of the folders"), count,
    lab.wide("Comparison of the folders", lab.el("table", { class: "plain" },
      lab.el("thead", {}, lab.el("tr", {}, ["Finding", ...live.folders].map((name) => lab.el("th", { scope: "col" }, name)))), body)));
  const cell = (found) => {
    if (!found) return lab.el("td", {}, "—");
    const { mark, text, name } = lab.verdict(found);
    return lab.el("td", {}, lab.el("span", { class: `badge ${name}` }, lab.el("span", { "aria-hidden": "true" }, mark), ` ${text}`), lab.el("div", { class: "remark" }, found.result));
  };
  // 0: different verdicts; 1: different results, or missing in a folder; 2: the same.
  const rank = (found) => {
    const there = found.filter(Boolean);
    if (new Set(there.map(({ verdict }) => verdict)).size > 1) return 0;
    return there.length < found.length || new Set(there.map(({ result }) => result)).size > 1 ? 1 : 2;
  };
  function draw() {
    const rows = [...findings.values()].map(({ study, claim, found }) => ({ study, claim, found, rank: rank(found) })).filter(({ found }) => found.some(Boolean));
    rows.sort((a, b) => a.rank - b.rank);
    const differing = rows.filter((row) => row.rank === 0).length;
    put(count, `${lab.count(rows.length, "finding")}; ${lab.number(differing)} with different verdicts, shown first.`);
    body.replaceChildren(...rows.map((row) => lab.el("tr", { "data-rank": String(row.rank) }, lab.el("th", { scope: "row" }, `${row.claim}.`, lab.el("div", { class: "remark" }, row.study)), row.found.map(cell))));
  }
  let due = null;
  const later = () => { due ??= setTimeout(() => { due = null; if (node.open) draw(); }, 300); };
  node.addEventListener("toggle", later);
  return {
    node,
    add({ folder, study, id, claim, verdict, result }) {
      const key = `${study}/${id}`;
      if (!findings.has(key)) findings.set(key, { study, found: new Array(live.folders.length).fill(null) });
      const finding = findings.get(key);
      finding.claim = claim;
      finding.found[folder] = verdict && { verdict, result };
      later();
    },
  };
}

// The form that starts studies, and the buttons that stop and resume them.
function controls(live) {
  const message = lab.el("p", { class: "live-message", role: "alert" });
  const choices = live.studies.map(({ name, question, takes }) => {
    const box = lab.el("input", { type: "checkbox", name: "study", value: name });
    return { box, node: lab.el("label", { title: question }, box, lab.el("code", {}, name), lab.el("span", { class: "remark" }, takes ? `${question} (${takes})` : question)) };
  });
  const chosen = () => choices.map(({ box }) => box).filter((box) => box.checked).map((box) => box.value);
  const summary = lab.el("summary", {}, "Studies: all");
  const refresh = () => put(summary, `Studies: ${chosen().join(", ") || "all"}`);
  const folder = lab.el("select", { name: "folder" }, live.folders.map((path, index) => lab.el("option", { value: index, selected: index === live.folder }, path)));
  const size = lab.el("select", { name: "size" }, lab.el("option", { value: "quick" }, "quick"), lab.el("option", { value: "full" }, "full size"));
  const seeds = lab.el("input", { type: "number", name: "seeds", min: 1, max: 1000, placeholder: "the study’s" });
  const button = (name, attributes = {}) => lab.el("button", { type: "button", "data-do": name.toLowerCase(), disabled: true, ...attributes }, name);
  const [start, stop, resume] = [button("Start", { type: "submit" }), button("Stop"), button("Resume")];

  async function post(path, body) {
    put(message, "");
    try {
      const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      if (!response.ok) put(message, (await response.json().catch(() => ({}))).error ?? `The server refused this: status ${response.status}.`);
    } catch {
      put(message, "The server cannot be reached. Is it still running?");
    }
  }
  stop.addEventListener("click", () => post(live.stop, {}));
  resume.addEventListener("click", () => post(live.resume, {}));
  const submit = (event) => {
    event.preventDefault();
    post(live.start, { folder: Number(folder.value), studies: chosen(), full: size.value === "full", seeds: seeds.value === "" ? null : Number(seeds.value) });
  };
  const field = (name, control) => lab.el("label", {}, lab.el("span", {}, name), control);
  return {
    node: lab.el("form", { class: "live-controls", onsubmit: submit, onchange: refresh },
      lab.el("details", {}, summary, lab.el("div", { class: "live-studies", role: "group", "aria-label": "Studies" }, choices.map(({ node }) => node))),
      lab.el("div", { class: "fields" }, live.folders.length > 1 ? field("folder", folder) : null, field("size", size), field("seeds", seeds)),
      lab.el("div", { class: "live-buttons" }, start, stop, resume),
      lab.el("p", { class: "remark" }, "Finished runs with the same settings are kept and not repeated. Runs with other settings are moved to old-1, old-2, … in the folder."),
      message),
    show({ phase }) {
      const active = ["opening", "running", "stopping"].includes(phase);
      start.disabled = active;
      stop.disabled = !active || phase === "stopping";
      resume.disabled = phase !== "stopped";
    },
  };
}

// Asks for the report until the page has the newest one, and shows it. One request at a time: what becomes newer meanwhile is
// asked for afterwards. A request that fails is repeated while the page is connected; a new connection asks again anyway.
const AGAIN = 2000; // milliseconds
function follower(live, connected, showed) {
  let number = live.number;
  let newest = number;
  let asking = false;
  let later = null;
  showed(number);
  return async function follow(known) {
    newest = Math.max(newest, known);
    if (asking) return;
    asking = true;
    clearTimeout(later);
    await lab.ready;
    try {
      while (number < newest) {
        const response = await fetch(live.report);
        if (!response.ok) throw new Error(`status ${response.status}`);
        const newer = await response.json();
        if (newer.live.number <= number) throw new Error(`report ${number} is still the newest`);
        lab.update(newer);
        number = newer.live.number;
        showed(number);
      }
    } catch (error) {
      console.warn("the report could not be brought up to date:", error);
      if (connected()) later = setTimeout(() => follow(newest), AGAIN);
    }
    asking = false;
  };
}

lab.live = function (live) {
  if (!live) return null;
  const [runs, folders, compared, form] = [runList(), folderList(live), comparison(live), controls(live)];
  const status = lab.el("p", { class: "live-status", role: "status" }, "Connecting …");
  const detail = lab.el("p", { class: "remark" });
  const all = bar("All runs of the studies");
  const ended = lab.el("p", { class: "remark live-ended" });
  const reload = lab.el("button", { type: "button", class: "live-reload", hidden: true, onclick: () => location.reload() }, "Reload the page");
  const section = lab.el("section", { class: "live", id: lab.place("live"), "data-story": "live", "aria-labelledby": "live-title" }, lab.el("h2", { id: "live-title", tabindex: "-1" }, "Live runs"),
    status, reload, all, detail, runs.node, ended, form.node, folders.node, live.folders.length > 1 ? compared.node : null);
  const finished = new Map();
  const source = new EventSource(live.events);
  const follow = follower(live, () => source.readyState === EventSource.OPEN, (number) => { section.dataset.report = number; });
  let latest = null;

  function state(now) {
    latest = now;
    const { folders: each, job } = now;
    const here = each[live.folder];
    const own = ["opening", "running", "stopping"].includes(job.phase);
    const elsewhere = here.running.length && !(own && job.folder === live.folder);
    const where = job.studies.length && live.folders.length > 1 ? ` in ${live.folders[job.folder]}` : "";
    put(status, job.phase === "running" ? `Running ${job.studies.length > 3 ? lab.count(job.studies.length, "study", "studies") : job.studies.join(", ")}${where}.`
      : elsewhere ? "Another process is running studies in this folder." : PHASES[job.phase] ?? job.phase);
    all.hidden = !own;
    fill(all, job.done);
    const left = lab.isNumber(job.left) && own ? `, about ${minutes(job.left)} left` : "";
    put(detail, [job.total ? `${lab.number(job.ended)} of ${lab.count(job.total, "run")}${left}.` : "", job.message, here.problem ?? ""].filter(Boolean).join(" "));
    runs.show(here.running);
    form.show(job);
    folders.show(each);
    section.dataset.phase = job.phase;
    section.dataset.finished = here.finished;
    section.dataset.newest = here.report;
    follow(here.report);
  }

  function change(entry) {
    if (entry.kind === "finding") return compared.add(entry);
    const key = `${entry.folder}/${entry.run}`;
    finished.delete(key);
    if (entry.finished) finished.set(key, entry);
    return undefined;
  }

  // After a new connection the server sends only what has changed, so the state from before is shown again.
  source.addEventListener("open", () => {
    section.removeAttribute("data-lost");
    if (latest) state(latest);
    else put(status, "Connecting …");
  });
  source.addEventListener("error", () => {
    const closed = source.readyState === EventSource.CLOSED;
    section.dataset.lost = closed ? "closed" : "trying";
    put(status, closed ? "The server refuses this connection. Reload the page. If that fails, the server was started again: open the address that it printed." : "The connection to the server is lost; trying to reconnect …");
    reload.hidden = !closed;
  });
  source.addEventListener("state", (event) => state(JSON.parse(event.data)));
  source.addEventListener("changes", (event) => {
    JSON.parse(event.data).forEach(change);
    const last = [...finished.values()].filter(({ folder }) => folder === live.folder).slice(-SHOWN).map(({ run }) => run);
    put(ended, last.length ? `Finished last: ${last.reverse().join(", ")}.` : "");
    section.dataset.seen = finished.size;
  });
  return section;
};
