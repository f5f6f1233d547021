// What the reader chose, kept in the URL's hash: #view=compare/loss&theme=dark&compare.loss.at=120. A link to the page is
// a link to the view.
let values = new URLSearchParams(location.hash.slice(1));
const listeners = [];
const savers = [];
let timer = null;

function write(how = "replaceState") {
  clearTimeout(timer);
  timer = null;
  const hash = values.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  // Usually replaceState, so that a moved slider does not fill the history. A frame without a URL of its own refuses it.
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
  // Makes the view that was just set one that the back button leaves.
  step: () => write("pushState"),
  // `changed` is called when the hash was changed from outside: a link, the back button, typing.
  onChange: (changed) => listeners.push(changed),
  // `save` is called before a link is taken, so that what moves can note where it is.
  onSave: (save) => savers.push(save),
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
