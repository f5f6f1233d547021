// The view's state, stored in the URL hash: #view=compare/loss&theme=dark&compare.loss.at=120. A link to the page is
// a link to the view.
let values = new URLSearchParams(location.hash.slice(1));
const listeners = [];
const savers = [];
const answers = new Set();
let timer = null;
const OURS = { lab: true }; // marks the history entries that this page has made; one without it is a link, followed or typed

function write(how = "replaceState") {
  clearTimeout(timer);
  timer = null;
  const hash = values.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  // Usually replaceState, so that moving a slider does not fill the history. Frames without a URL do not allow it.
  try {
    history[how](OURS, "", hash ? `#${hash}` : location.pathname + location.search);
  } catch {
    location.hash = hash;
  }
}

// The reader's answers are kept in the browser as well, for when the file is opened anew without them in its address. Some
// browsers allow no storage to files, or to any page.
const KEPT = "layernorm.answers";
function kept() {
  try {
    return new Map(Object.entries(JSON.parse(localStorage.getItem(KEPT)) ?? {}));
  } catch {
    return new Map();
  }
}
const stored = kept();
function keep(key, value) {
  try {
    // Another tab may have stored more meanwhile.
    const now = kept();
    if (value === null) now.delete(key);
    else now.set(key, value);
    localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(now)));
  } catch {
    // Then they are in the address only.
  }
}

lab.state = {
  get: (key, fallback = null) => values.get(key) ?? fallback,
  set(key, value) {
    const none = value === null || value === undefined || value === "";
    if (none) values.delete(key);
    else values.set(key, value);
    if (answers.has(key)) keep(key, none ? null : value);
    // Browsers limit how often the hash may change.
    timer ??= setTimeout(write, 200, "replaceState");
  },
  // Adds a history entry, so that the back button returns to the previous view.
  step: () => write("pushState"),
  // `changed(touched)` is called when the hash changes from outside: a link, the back button, typing. `touched(start)` tells
  // whether the value of a key that starts like this has changed.
  onChange: (changed) => lab.keep(listeners, changed),
  // A key of the reader's answers, which stay when a link without them is followed. One in the address comes before a stored one.
  answer(key) {
    answers.add(key);
    if (!values.has(key) && stored.has(key)) values.set(key, stored.get(key));
  },
  // Opens the page without any answers.
  forget() {
    answers.forEach((key) => { values.delete(key); keep(key, null); });
    write();
    location.reload();
  },
  // `save` is called before a link is copied, so that animations can store their position.
  onSave: (save) => lab.keep(savers, save),
  link() {
    savers.forEach((save) => save());
    write();
    return location.href;
  },
};

try {
  if (!history.state) history.replaceState(OURS, "");
} catch {
  // In a frame without a URL every change counts as a link.
}

// The back and forward buttons go to another place of the page and change nothing else. A link sets everything except the
// reader's answers: those that it does not have stay.
addEventListener("popstate", ({ state }) => {
  const before = values;
  const there = new URLSearchParams(location.hash.slice(1));
  if (state?.lab) {
    values = new URLSearchParams(before);
    lab.state.set("view", there.get("view"));
  } else {
    values = there;
    answers.forEach((key) => { if (!there.has(key) && before.has(key)) values.set(key, before.get(key)); });
  }
  write();
  const changed = [...new Set([...before.keys(), ...values.keys()])].filter((key) => before.get(key) !== values.get(key));
  const touched = (start) => changed.some((key) => key.startsWith(start));
  listeners.forEach((listener) => listener(touched));
});
