// The namespace where the files meet, and the one way in which the page makes elements. Text always goes in as text,
// never as markup: names come from records.
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

  lab.isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  lab.clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  lab.calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // The element's id of a story or a figure; a name of its own, so that a story may be called “tip”.
  lab.place = (place) => `at:${place}`;

  // A number that no other element has, for ids that aria attributes and clip paths point to.
  let ids = 0;
  lab.id = (name) => `${name}-${++ids}`;

  // A part of the page that is wider than a phone scrolls by itself, also by the keyboard.
  lab.wide = (label, ...children) =>
    lab.el("div", { class: "wide", role: "region", tabindex: "0", "aria-label": label }, ...children);
}
