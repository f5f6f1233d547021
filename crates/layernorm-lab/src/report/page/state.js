// The view's state, stored in the URL hash: #view=compare/loss&theme=dark&compare.loss.at=120. A link to the page is
// a link to the view.
let values = new URLSearchParams(location.hash.slice(1));
const listeners = [];
const savers = [];
let timer = null;

function write(how = "replaceState") {
  clearTimeout(timer);
  timer = null;
  const hash = values.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  // Usually replaceState, so that moving a slider does not fill the history. Frames without a URL do not allow it.
  try {
    history[how](null, "", hash ? `#${hash}` : location.pathname + location.search);
  } catch {
    location.hash = hash;
  }
}

lab.state = {
  get: (key, fallback = null) => values.get(key) ?? fallback,
  set(key, value) {
    if (value === null || value === undefined || value === "") values.delete(key);
    else values.set(key, value);
    // Browsers limit how often the hash may change.
    timer ??= setTimeout(write, 200, "replaceState");
  },
  // Adds a history entry, so that the back button returns to the previous view.
  step: () => write("pushState"),
  // `changed` is called when the hash changes from outside: a link, the back button, typing.
  onChange: (changed) => lab.keep(listeners, changed),
  // `save` is called before a link is copied, so that animations can store their position.
  onSave: (save) => lab.keep(savers, save),
  link() {
    savers.forEach((save) => save());
    write();
    return location.href;
  },
};

addEventListener("hashchange", () => {
  clearTimeout(timer);
  timer = null;
  values = new URLSearchParams(location.hash.slice(1));
  listeners.forEach((changed) => changed());
});
