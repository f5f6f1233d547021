// Exercises: a question with a check that says what is wrong, a hint and a solution. The answers are in the page's hash.
//
//   { id, kind: "choice", options: [{ text, right, why }] }
//   { id, kind: "numbers", labels: ["mean"], answer: [2.5], tolerance: 0.01, mistakes: [{ answer: [...], why }], why }
//   { id, kind: "match", options: ["like batch norm", …], items: [{ text, right: 0, why, wrong: { 1: "…" } }] }
//   { id, kind: "task", check: async () => ({ right, why }), button: "Check" }         something to do in a figure
//
// What was solved once stays solved, whatever is answered afterwards; the feedback is about the present answer.
//
// `hint` and `solution` are texts. Numbers may have `mistake(values)`, which returns a text about a wrong answer, or null;
// their `answer`, `tolerance(answer)` and `why()` may be functions, for a question about what a figure shows.
const exercises = [];
const watchers = [];
lab.progress = () => ({ solved: exercises.filter(({ solved }) => solved).length, all: exercises.length, of: (chapter) => exercises.filter((one) => one.chapter === chapter) });
lab.onProgress = (changed) => watchers.push(changed);

const near = (found, wanted, tolerance) => found.length === wanted.length && found.every((value, at) => Math.abs(value - wanted[at]) <= tolerance);

// Each kind returns { node, restore(), check() }; check() promises { right, why } or null if nothing was answered.
const KINDS = {
  choice({ options }, { get, set }, changed) {
    const name = lab.id("answer");
    const inputs = options.map((_, index) => lab.el("input", { type: "radio", name, onchange: () => { set(String(index)); changed(true); } }));
    const labels = options.map(({ text }, index) => lab.el("label", { class: "option" }, inputs[index], lab.el("span", {}, text)));
    const chosen = () => { const at = get("") === "" ? NaN : Number(get("")); return options[at] ? at : null; };
    return {
      node: lab.el("div", { class: "answers", role: "radiogroup" }, labels),
      instant: true,
      restore: () => inputs.forEach((input, index) => { input.checked = index === chosen(); }),
      check() {
        const at = chosen();
        labels.forEach((label, index) => {
          label.classList.toggle("right", at === index && options[index].right === true);
          label.classList.toggle("wrong", at === index && !options[index].right);
        });
        return at === null ? null : { right: options[at].right === true, why: options[at].why };
      },
    };
  },
  numbers({ labels, answer, tolerance = 0.005, mistakes = [], mistake = null, why = "" }, { get, set }, changed) {
    const inputs = labels.map((label) => lab.el("input", { type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-label": label,
      oninput: () => { set(inputs.map((input) => input.value.trim().replaceAll("_", "")).join("_")); changed(false); },
      onkeydown: (event) => { if (event.key === "Enter") changed(true); } }));
    const wanted = () => (typeof answer === "function" ? answer() : answer);
    return {
      node: lab.el("div", { class: "answers fields-row" }, labels.map((label, at) => lab.el("label", {}, lab.el("span", {}, label), inputs[at]))),
      restore: () => get("").split("_").forEach((words, at) => { if (inputs[at]) inputs[at].value = words; }),
      async check() {
        if (inputs.every((input) => input.value.trim() === "")) return null;
        const parsed = inputs.map((input) => lab.parseNumber(input.value));
        const found = parsed.map(({ value }) => value);
        const missing = found.indexOf(null);
        if (missing >= 0) return { right: false, why: `${labels[missing]}: ${parsed[missing].why ?? "a number is missing."}` };
        const right = await wanted();
        const room = typeof tolerance === "function" ? tolerance(right) : tolerance;
        if (near(found, right, room)) return { right: true, why: typeof why === "function" ? why() : why };
        const known = mistakes.find((one) => near(found, one.answer, room));
        const wrong = found.map((value, at) => (Math.abs(value - right[at]) <= room ? null : labels[at])).filter(Boolean);
        return { right: false, why: known?.why ?? mistake?.(found) ?? (labels.length > 1 ? `Not yet: check ${wrong.join(", ")}.` : "Not yet.") };
      },
    };
  },
  // One of the same options for each item; every item has its own feedback.
  match({ options, items }, { get, set }, changed) {
    const notes = items.map(() => lab.el("p", { class: "match-note" }));
    const tell = (at, right, words) => { notes[at].className = `match-note ${right ? "right" : "wrong"}`; notes[at].textContent = `${right ? "✓" : "✕"} ${words}`; };
    const clear = (at) => { notes[at].className = "match-note"; notes[at].textContent = ""; };
    const menus = items.map((_, at) => lab.el("select", { onchange: () => { set(menus.map((menu) => menu.value).join("_")); clear(at); changed(false); } },
      lab.el("option", { value: "" }, "choose…"), options.map((text, index) => lab.el("option", { value: index }, text))));
    return {
      node: lab.el("div", { class: "answers match" }, items.map(({ text }, at) => lab.el("div", { class: "match-item" }, lab.el("label", {}, lab.el("span", {}, text), menus[at]), notes[at]))),
      restore() {
        const saved = get("").split("_");
        menus.forEach((menu, at) => { menu.value = options[Number(saved[at] || NaN)] === undefined ? "" : saved[at]; clear(at); });
      },
      check() {
        if (menus.every((menu) => menu.value === "")) return null;
        const right = items.map((item, at) => Number(menus[at].value || NaN) === item.right);
        items.forEach((item, at) => {
          if (menus[at].value === "") tell(at, false, "Choose an answer.");
          else tell(at, right[at], right[at] ? item.why : (item.wrong?.[menus[at].value] ?? "Not this one."));
        });
        const count = right.filter(Boolean).length;
        return { right: count === items.length, why: count === items.length ? "" : `${count} of ${items.length} are right.` };
      },
    };
  },
  task({ check }) {
    return { node: null, restore() {}, check };
  },
};

function feedback(node, result) {
  node.className = result === null ? "feedback" : `feedback ${result.right ? "right" : "wrong"}`;
  node.textContent = result === null ? "" : `${result.right ? "✓ Correct." : "✕"} ${result.why ?? ""}`;
}

// Adds the answer, the buttons and the feedback to an element that has the question.
lab.exercise = function (element, chapter, options, number) {
  const key = `${chapter}.${options.id}`;
  const slot = { get: (fallback) => lab.state.get(key, fallback), set: (value) => lab.state.set(key, value) };
  const told = lab.el("p", { class: "feedback", "aria-live": "polite" });
  const task = options.kind === "task";
  const one = { chapter, id: options.id, solved: false, element };
  const kind = KINDS[options.kind](options, slot, (now) => (now ? check() : edited()));
  let version = 0; // of the answer: feedback on an older one is not shown
  function mark(right) {
    one.solved ||= right;
    // A right answer says by itself that the exercise is solved, unless it is about numbers of a figure, which can change; with
    // any other one, the hash has to.
    const lasting = right && typeof options.answer !== "function";
    if (task && right) slot.set("done");
    if (!task) lab.state.set(`${key}.solved`, one.solved && !lasting ? "1" : null);
    element.toggleAttribute("data-solved", one.solved);
    watchers.forEach((watcher) => watcher());
  }
  function edited() {
    version += 1;
    feedback(told, null);
    mark(false);
  }
  async function check() {
    const mine = (version += 1);
    const result = await kind.check();
    if (mine !== version) return;
    feedback(told, result ?? { right: false, why: "Answer first." });
    mark(result?.right === true);
  }
  function restore() {
    version += 1;
    kind.restore();
    one.solved ||= task ? slot.get("") === "done" : lab.state.get(`${key}.solved`) !== null;
    element.toggleAttribute("data-solved", one.solved);
    if (!task && slot.get("") !== "") check();
    else {
      feedback(told, null);
      watchers.forEach((watcher) => watcher());
    }
  }
  const hint = options.hint ? lab.el("details", {}, lab.el("summary", {}, "Hint"), lab.el("p", {}, options.hint)) : null;
  const solution = options.solution ? lab.el("details", { class: "solution-box" }, lab.el("summary", {}, "Solution"), lab.el("p", {}, options.solution)) : null;
  const button = kind.instant ? null : lab.el("button", { type: "button", class: "check", onclick: check }, options.button ?? "Check");
  element.prepend(lab.el("h4", { class: "exercise-name" }, `Exercise ${number}`));
  element.append(...[kind.node, button, told, hint || solution ? lab.el("div", { class: "help-row" }, hint, solution) : null].filter(Boolean));
  exercises.push(one);
  [key, `${key}.solved`].forEach((each) => lab.state.answer(each));
  restore();
  lab.state.onChange((touched) => touched(key) && restore());
};
