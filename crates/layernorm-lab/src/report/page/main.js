// Builds the page once, then follows changes of the URL hash: the first screen, the course, the studies, how it was made.
const root = document.documentElement;
let report = null;
let stories = [];
let all = []; // every question with its story
lab.storyOf = (id) => stories.find((story) => story.id === id) ?? null;
lab.hasStory = (id) => lab.storyOf(id) !== null;

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => (["light", "dark"].includes(lab.state.get("theme")) ? lab.state.get("theme") : systemDark.matches ? "dark" : "light");
const themeButton = lab.el("button", { type: "button", onclick: () => { lab.state.set("theme", theme() === "dark" ? "light" : "dark"); paint(); } });
const linkButton = lab.el("button", { type: "button", onclick: () => lab.copy(lab.state.link(), linkButton) }, "Copy link to this view");

const BUSY = 12; // milliseconds of work after which the browser may do something else
// Until the browser has drawn a frame; a hidden page draws none.
const rest = () => new Promise((done) => {
  const timer = setTimeout(done, 100);
  requestAnimationFrame(() => { clearTimeout(timer); setTimeout(done); });
});

// Shows the theme. Every element has another style then, which takes the browser long: sections out of sight get theirs one
// after the other.
let painted = 0;
async function paint() {
  const mine = (painted += 1);
  const sections = [...document.querySelectorAll(".chapter, .story, .runs")];
  const here = Math.max(sections.findIndex(({ dataset }) => dataset.story === lab.state.get("view")?.split("/")[0]), 0);
  sections.forEach((section) => section.classList.add("later"));
  root.dataset.theme = theme();
  themeButton.textContent = theme() === "dark" ? "☀ Light" : "☾ Dark";
  themeButton.setAttribute("aria-label", `Switch to ${theme() === "dark" ? "light" : "dark"} colors`);
  for (const section of [...sections.slice(here), ...sections.slice(0, here)]) {
    await rest();
    if (mine !== painted) return;
    section.classList.remove("later");
    let since = performance.now();
    for (const redraw of lab.redraws(section)) {
      redraw();
      if (performance.now() - since < BUSY) continue;
      await rest();
      since = performance.now();
    }
  }
}

const TRAVEL = 1500; // milliseconds after a jump during which scrolling does not count as reading
const SETTLE = 4000; // milliseconds after a jump during which figures that appear do not move its target away
let arrived = 0;
let held = null; // the target of the last jump, until the reader scrolls
let from = 0; // where the jump ended
let moving = false;

function settle() {
  if (Math.abs(held.getBoundingClientRect().top) > 60) held.scrollIntoView({ behavior: "instant", block: "start" });
  from = scrollY;
}
const grown = new ResizeObserver(() => {
  if (!held || moving) return;
  const near = Math.abs(held.getBoundingClientRect().top) <= 60 || Math.abs(scrollY - from) < 2;
  if (near && performance.now() < arrived - TRAVEL + SETTLE) settle();
  else held = null;
});
addEventListener("scrollend", () => {
  if (moving && held) settle();
  moving = false;
});
for (const event of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(event, () => { held = null; }, { passive: true, capture: true });

function show(place, smooth = true) {
  const target = document.getElementById(lab.place(place)) ?? document.getElementById(lab.place(place.split("/")[0]));
  if (!target) return;
  arrived = performance.now() + TRAVEL;
  held = target;
  moving = smooth && !lab.calm() && "onscrollend" in window;
  target.scrollIntoView({ behavior: moving ? "smooth" : "auto", block: "start" });
  from = scrollY;
  grown.observe(document.querySelector("main"));
  target.querySelector("h2")?.focus({ preventScroll: true });
}

// A link within the page keeps the other settings in the hash. The first link of the page, which skips to the course, has the
// chapter's id, as screen readers expect it.
addEventListener("click", (event) => {
  const place = event.target.closest?.('a[href^="#view="], a[href^="#at:"]')?.getAttribute("href").replace(/^#(view=|at:)/, "");
  if (place === undefined) return;
  event.preventDefault();
  lab.state.set("view", decodeURIComponent(place));
  lab.state.step();
  show(decodeURIComponent(place));
  closeContents();
});

const goto = (place, ...children) => lab.el("a", { href: `#view=${encodeURIComponent(place)}` }, ...children);

const findings = () => stories.flatMap((story) => (story.findings ?? []).map((finding) => ({ story, finding })));

// The questions with a verdict, each with a link to its study.
function questions(verdict) {
  const of = all.filter(({ finding }) => finding.verdict === verdict);
  const { mark, text, name } = lab.verdict({ verdict });
  if (!of.length) return null;
  const item = ({ story, finding }) => lab.el("li", {}, goto(lab.questionPlace(story, finding), finding.claim), lab.el("span", { class: "remark" }, ` ${finding.result}`));
  const list = lab.el("ul", { class: "question-list" }, of.map(item));
  const title = [lab.el("span", { class: `badge ${name}` }, lab.el("span", { "aria-hidden": "true" }, mark), ` ${text}`), " ", lab.count(of.length, "question")];
  // The supported ones are the longest list and the least surprising.
  return lab.el("details", { class: "verdict-list", "data-verdict": verdict, open: verdict !== "supported" }, lab.el("summary", {}, title), list);
}

// How many decided questions remain decided if at most 5 % of them may be false discoveries (Benjamini and Hochberg, 1995).
function remaining(paired) {
  const ps = paired.map(({ finding }) => finding.evidence.p ?? 1).sort((a, b) => a - b);
  const last = ps.findLastIndex((p, place) => p <= (0.05 * (place + 1)) / ps.length);
  return last < 0 ? 0 : paired.filter(({ finding }) => finding.verdict !== "undecided" && (finding.evidence.p ?? 1) <= ps[last]).length;
}

// What decides a question, and how much of it may be chance.
function method() {
  const paired = all.filter(({ finding }) => finding.evidence.kind === "paired");
  const counts = lab.verdicts(paired.map(({ finding }) => finding));
  const decided = counts.supported + counts.contradicted;
  const others = all.length - paired.length;
  const remark = (...text) => lab.el("p", { class: "remark" }, ...text);
  const texts = [];
  if (paired.length) {
    texts.push(remark(`${lab.count(paired.length, "question")} ${paired.length === 1 ? "compares" : "compare"} networks in pairs with the same seed: ${counts.supported} supported, ${counts.contradicted} contradicted, ${counts.undecided} undecided. The 95 % interval of the mean difference (Student's t) decides. A bootstrap would be too narrow with so few seeds. ${others ? `The other ${others} have exact results or count cases; some of them follow from definitions.` : ""}`));
    texts.push(remark(`If there were no effects at all, about one in twenty paired questions would be decided by chance. Of the ${decided} decided ones, ${remaining(paired)} remain if at most 5 % may be false discoveries (Benjamini and Hochberg, over all paired questions). A best learning rate is chosen with the runs that are compared, for all norms alike. Intervals of results near 0 or 100 % are approximate.`));
  }
  return texts;
}

function summary() {
  const titles = new Map(stories.map((story) => [story.title, story]));
  const what = (row) => (titles.has(row.what) ? [goto(titles.get(row.what).id, row.what), lab.el("div", { class: "marks-line" }, lab.marks(titles.get(row.what).findings ?? []))] : row.what);
  const section = lab.el("section", { class: "summary", id: "summary" }, lab.el("h2", {}, "Summary"));
  const counts = lab.verdicts(all.map(({ finding }) => finding));
  if (all.length) {
    section.append(lab.el("p", { class: "headline" }, `${lab.count(all.length, "question")}: ${counts.supported} supported, ${counts.contradicted} contradicted, ${counts.undecided} undecided`));
    section.append(...["contradicted", "undecided", "supported"].map(questions).filter(Boolean));
    section.append(...method());
  }
  if (report.summary?.length)
    section.append(lab.wide("Summary", lab.el("table", { class: "plain results" },
      lab.el("thead", {}, lab.el("tr", {}, lab.el("th", { scope: "col" }, "Study"), lab.el("th", { scope: "col" }, "Result"))),
      lab.el("tbody", {}, report.summary.map((row) => lab.el("tr", {}, lab.el("th", { scope: "row" }, what(row)), lab.el("td", {}, row.finding)))))));
  return section;
}

const wideScreen = matchMedia("(min-width: 76rem)");
const contentsBox = lab.el("details", {}, lab.el("summary", {}, "Contents"));
const group = (name, view, items, list = null) => [lab.el("h2", { class: "contents-group" }, goto(view, name)), lab.el("ol", { class: list }, items)];
const evidenceItems = () => [...stories.map((story) => lab.el("li", {}, goto(story.id, story.title, " ", lab.marks(story.findings ?? [])))), lab.el("li", { class: "plain" }, goto("runs", "All runs"))];

function fillContents(chapters) {
  const progress = new Map();
  const chapter = (section) => {
    const mark = lab.el("span", { class: "done-mark" });
    progress.set(section.dataset.chapter, mark);
    return lab.el("li", {}, goto(section.dataset.chapter, section.querySelector("h2").lastChild.textContent, " ", mark));
  };
  const counted = lab.el("span", { class: "progress-line", "aria-live": "polite" });
  const again = lab.el("button", { type: "button", class: "quiet start-over", onclick: () => { if (confirm("Remove all your answers to the exercises?")) lab.state.forget(); } }, "Start over");
  contentsBox.append(
    ...(report.live ? group("Live runs", "live", []) : []),
    ...group("Learn", "why", chapters.map(chapter)), lab.el("p", { class: "progress" }, counted, " ", again),
    ...group("Evidence", "evidence", evidenceItems(), "contents-evidence"),
    ...group("How it was made", "made", []));
  const show = () => {
    const { solved, all: count, of } = lab.progress();
    again.hidden = !solved;
    counted.textContent = count ? `${solved} of ${lab.count(count, "exercise")} solved` : "";
    progress.forEach((mark, id) => {
      const here = of(id);
      const done = here.filter((one) => one.solved).length;
      mark.textContent = done ? (done === here.length ? "✓" : `${done}/${here.length}`) : "";
    });
  };
  lab.onProgress(show);
  show();
}

function closeContents() {
  contentsBox.open = wideScreen.matches;
}

// Keeps the story being read in the hash; a link to one of its figures is left unchanged.
function followReading() {
  let moved = false;
  addEventListener("scroll", () => {
    if (moved) return;
    moved = true;
    setTimeout(() => {
      moved = false;
      const now = [...document.querySelectorAll("[data-story]")].findLast((section) => section.getBoundingClientRect().top < innerHeight * 0.4)?.dataset.story ?? null;
      for (const link of contentsBox.querySelectorAll("a")) {
        if (link.getAttribute("href") === `#view=${encodeURIComponent(now ?? "")}`) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      if (performance.now() > arrived && now !== (lab.state.get("view")?.split("/")[0] ?? null)) lab.state.set("view", now);
    }, 150);
  }, { passive: true });
}

// The heading of the studies: what they found, with what and when.
function evidence() {
  const { about } = report;
  return lab.el("section", { class: "evidence-head", id: lab.place("evidence"), "data-story": "evidence", "aria-labelledby": "evidence-title" },
    lab.el("h2", { id: "evidence-title", tabindex: "-1", class: "part-title" }, "Evidence"),
    lab.el("p", { class: "lead" }, "Claims about layer normalization, each tested on small networks, most of them with five seeds or more."),
    lab.el("p", { class: "about" }, [about.program, about.machine, about.made].filter(Boolean).join(" · ")),
    about.command ? lab.command(about.command) : null);
}

const CHECKED = { seed: 1, cases: 200 };

// What computes this page, and how a reader can check it.
function made() {
  const digits = lab.el("output", { class: "checksum" }, "computing …");
  lab.compute("checksum", CHECKED).then((text) => { digits.textContent = text; }, (error) => { digits.textContent = error.message; });
  return lab.el("section", { class: "made", id: lab.place("made"), "data-story": "made", "aria-labelledby": "made-title" },
    lab.el("h2", { id: "made-title", tabindex: "-1", class: "part-title" }, "How it was made"),
    lab.el("p", {}, "This is one file. It needs no network, and it sends nothing; your answers are kept in its address and in this browser. The numbers of the live figures are computed in your browser by the project's Rust code, compiled to WebAssembly, in workers: norms, gradients, matrix products, activation functions, cells, training and statistics. JavaScript only makes the inputs, checks your answers, merges neighboring points of the playground's long curves, and draws. The norms and recurrent cells have the bits of the native library: your browser has just computed the checksum of ", String(CHECKED.cases), " random cases, and this command prints the same digits on any machine:"),
    lab.command(`layernorm verify --checksum --seed ${CHECKED.seed} --cases ${CHECKED.cases}`),
    lab.el("p", {}, "Checksum computed here: ", digits),
    lab.el("p", {}, "The studies were trained with ", report.about.program, " on ", report.about.made, ". Their records are kept beside the report, and the same settings give the same records, bit for bit."),
    lab.el("p", { class: "remark" }, "Handwritten digits: MNIST by Yann LeCun and Corinna Cortes, CC BY-SA 3.0; those in the playground have 14 × 14 pixels with 16 levels of gray. Formulas: STIX Two Math, SIL Open Font License 1.1. The program is licensed under MIT or Apache-2.0."));
}

// Appends what `makers` return. After each, and after some of its figures, the browser draws a frame, so that the page stays
// responsive.
async function append(main, makers) {
  for (const make of makers) {
    const waiting = [];
    main.append(make((build) => waiting.push(build)));
    await rest();
    let since = performance.now();
    for (const build of waiting) {
      build();
      if (performance.now() - since < BUSY) continue;
      await rest();
      since = performance.now();
    }
  }
}

// The section with this id: as it is, if its data are the same or the reader is using it, or built again.
const shown = new Map();
const used = new WeakSet(); // sections that are built again when the reader leaves them
function onceLeft(node) {
  if (used.has(node)) return;
  used.add(node);
  const leave = ({ relatedTarget }) => {
    if (node.contains(relatedTarget)) return;
    node.removeEventListener("focusout", leave);
    used.delete(node);
    setTimeout(() => lab.update(report));
  };
  node.addEventListener("focusout", leave);
}
function section(id, data, build) {
  const text = JSON.stringify(data);
  const old = document.getElementById(lab.place(id));
  if (old && shown.get(id) === text) return old;
  if (old?.contains(document.activeElement)) {
    onceLeft(old);
    return old;
  }
  shown.set(id, text);
  return lab.within(id, build);
}
const makers = () => [
  ...stories.map((story, index) => (later) => section(story.id, [index, story], () => lab.story(story, index + 1, later))),
  () => section("runs", report.runs, () => lab.runs(report.runs ?? [])),
];

// Shows a newer report in place.
lab.update = function (newer) {
  [report, stories] = [newer, newer.stories ?? []];
  all = findings();
  const now = makers().map((make) => make());
  document.querySelectorAll(".story, .runs").forEach((node) => now.includes(node) || node.remove());
  const top = summary();
  for (const list of document.querySelectorAll("#summary .verdict-list")) top.querySelector(`[data-verdict="${list.dataset.verdict}"]`)?.toggleAttribute("open", list.open);
  document.getElementById("summary").replaceWith(top);
  now.reduce((before, node) => {
    if (before.nextElementSibling !== node) before.after(node);
    return node;
  }, top);
  contentsBox.querySelector(".contents-evidence").replaceChildren(...evidenceItems());
  lab.drawFigures();
};

let isReady = null;
lab.ready = new Promise((done) => { isReady = done; });

async function start() {
  root.dataset.theme = theme();
  // With the font of the formulas at hand, they are not laid out twice.
  const [packed] = await Promise.all([lab.unpack("report"), document.fonts.load('1em "STIX Two Math"').catch(() => {})]);
  report = JSON.parse(new TextDecoder().decode(packed));
  stories = report.stories ?? [];
  all = findings();
  const main = lab.el("main", {});
  const course = lab.course();
  document.getElementById("page").append(
    lab.hero({ tools: [linkButton, themeButton], studies: stories.length, questions: all.length }),
    lab.el("nav", { class: "contents", "aria-label": "Contents" }, contentsBox), main);
  const [first, ...others] = course;
  main.append(first);
  fillContents(course);
  closeContents();
  wideScreen.addEventListener("change", closeContents);
  lab.drawFigures();
  paint();
  root.dataset.usable = String(Math.round(performance.now()));
  performance.mark("usable");
  await rest();
  await append(main, [...others.map((chapter) => () => chapter), evidence, () => lab.live?.(report.live) ?? "", summary, ...makers(), made]);
  lab.drawFigures();
  systemDark.addEventListener("change", paint);
  // A served page starts at the panel of what runs.
  const place = lab.state.get("view") ?? (report.live ? "live" : null);
  if (place) show(place, false);
  followReading();
  lab.state.onChange((touched) => {
    if (touched("theme")) paint();
    if (lab.state.get("view")) show(lab.state.get("view"));
  });
  root.dataset.ready = "";
  isReady();
}
start().catch((error) => {
  document.getElementById("page").append(lab.el("p", { class: "noscript" }, `This page could not start: ${error.message}. It needs a browser of 2023 or later.`));
  throw error;
});
