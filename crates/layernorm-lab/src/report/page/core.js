// The shared namespace, and the only functions that create elements. Text is always inserted as text,
// never as markup, because names come from records.
const lab = { charts: {} };

{
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
  }

  lab.el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  lab.svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const MATHML = "http://www.w3.org/1998/Math/MathML";
  lab.math = (tag, attributes, ...children) => fill(document.createElementNS(MATHML, tag), attributes, children);

  lab.isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  lab.clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  lab.calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // The element id of a story or figure; prefixed, so that a story can be called “tip”.
  lab.place = (place) => `at:${place}`;

  // A unique id for ARIA attributes and clip paths.
  let ids = 0;
  lab.id = (name) => `${name}-${++ids}`;

  // What a section registers elsewhere, such as listeners, ends when the section of that name is built again.
  const sections = new Map();
  let current = new AbortController();
  lab.within = function (name, build) {
    const outer = current;
    sections.get(name)?.abort();
    current = new AbortController();
    sections.set(name, current);
    try {
      return build();
    } finally {
      current = outer;
    }
  };
  // `build` as a part of the section that is being built now, for when it is called later.
  lab.bound = function (build) {
    const mine = current;
    return () => {
      const outer = current;
      current = mine;
      try {
        return build();
      } finally {
        current = outer;
      }
    };
  };
  lab.signal = () => current.signal;
  lab.keep = function (list, item) {
    list.push(item);
    current.signal.addEventListener("abort", () => list.splice(list.indexOf(item), 1));
  };

  // Content wider than a phone's screen scrolls separately, including by keyboard.
  lab.wide = (label, ...children) =>
    lab.el("div", { class: "wide", role: "region", tabindex: "0", "aria-label": label }, ...children);
}
