// Downloads of a figure: its data as CSV, its drawing with title, headings and legend as SVG and PNG.
const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "stroke-linejoin", "font-family", "font-size", "font-weight", "font-style", "font-variant-numeric", "text-anchor", "dominant-baseline", "shape-rendering", "letter-spacing", "visibility", "display", "overflow"];
const SVG = "http://www.w3.org/2000/svg";

function download(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = lab.el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Quoted if it contains a separator; text that a spreadsheet would take for a formula gets an apostrophe.
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+@\t\r]|^-(?!\d)/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

lab.csv = ({ columns, rows }) => [columns, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";

// A color as every program writes it. Mixed colors are computed as oklab(…), which only browsers know.
const colors = new Map();
let brush = null;
function plain(color) {
  if (!/^(oklab|oklch|color|lab|lch)\(/.test(color)) return color;
  if (!colors.has(color)) {
    brush ??= lab.el("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = color;
    brush.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
    colors.set(color, `rgba(${red}, ${green}, ${blue}, ${(alpha / 255).toFixed(3)})`);
  }
  return colors.get(color);
}

// A copy of a drawing that needs no stylesheet.
function styled(svg) {
  const copy = svg.cloneNode(true);
  const [from, to] = [[svg, ...svg.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((node, index) => {
    const style = getComputedStyle(node);
    to[index].setAttribute("style", STYLES.map((name) => `${name}:${plain(style.getPropertyValue(name))}`).join(";"));
    to[index].removeAttribute("class");
  });
  return copy;
}

// ---- What is HTML on the page: the legend, headings, names and notes. Controls and tables are left out, and formulas, which
// an SVG cannot have.
const LEFT_OUT = ".controls, .player, .play-fold, .play-presets, .play-watch, .play-bar, .wide, table, math, input, select, button:not(.key), .spoken, .trouble, .empty, .equation, .blind-line";
const RAMP = 10; // stops of a color ramp

const opacity = (node, body) => (node === body || !node ? 1 : Number(getComputedStyle(node).opacity) * opacity(node.parentElement, body));

// The lines of a text, as the page breaks them: { words, box }.
function lines(text) {
  const range = document.createRange();
  const found = [];
  for (const { index, 0: word } of text.data.matchAll(/\S+/g)) {
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    const { left, top, right, bottom, width } = range.getBoundingClientRect();
    if (!width) continue;
    const line = found.at(-1);
    if (line && Math.abs(line.box.top - top) < 2) {
      line.words += ` ${word}`;
      line.box.right = right;
    } else found.push({ words: word, box: { left, top, right, bottom } });
  }
  return found;
}

function written(text, body) {
  const style = getComputedStyle(text.parentElement);
  const number = (name) => Number.parseFloat(style.getPropertyValue(name)) || 0;
  const look = { fill: plain(style.color), "font-family": style.fontFamily, "font-size": number("font-size"), "font-weight": style.fontWeight, "font-style": style.fontStyle, "letter-spacing": number("letter-spacing"), "text-decoration": text.parentElement.closest('[aria-pressed="false"]') ? "line-through" : null, opacity: opacity(text.parentElement, body) };
  const upper = style.textTransform === "uppercase";
  return lines(text).map(({ words, box }) => ({
    box,
    // The baseline lies about a third of the letters' height above the lower edge of the line's middle.
    node: (x, y) => lab.svg("text", { ...look, x, y: y + (box.bottom - box.top) / 2 + look["font-size"] * 0.35, textLength: box.right - box.left, lengthAdjust: "spacingAndGlyphs" }, upper ? words.toUpperCase() : words),
  }));
}

// The colors of linear-gradient(to right in oklab, …) as stops.
function gradient(image) {
  const ends = image.match(/(?:rgba?|oklab|color)\([^()]*\)|#[0-9a-f]{3,8}/gi) ?? [];
  if (!/^linear-gradient\(to right/.test(image) || ends.length < 2) return null;
  const probe = lab.el("span", { hidden: true });
  document.body.append(probe);
  const stops = Array.from({ length: RAMP + 1 }, (_, at) => {
    const place = (at / RAMP) * (ends.length - 1);
    const from = Math.min(Math.floor(place), ends.length - 2);
    probe.style.color = `color-mix(in oklab, ${ends[from + 1]} ${(place - from) * 100}%, ${ends[from]})`;
    return lab.svg("stop", { offset: at / RAMP, "stop-color": plain(getComputedStyle(probe).color) });
  });
  probe.remove();
  return stops;
}

// The ground of an element: one color or a ramp.
function ground(element, body) {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const stops = gradient(style.backgroundImage);
  const color = plain(style.backgroundColor);
  if (!stops && (color === "transparent" || /, 0(\.0+)?\)$/.test(color))) return null;
  const look = { rx: Math.min(Number.parseFloat(style.borderTopLeftRadius) * (style.borderTopLeftRadius.endsWith("%") ? box.width / 100 : 1) || 0, box.height / 2), opacity: opacity(element, body) };
  return {
    box,
    node(x, y) {
      const rect = (fill) => lab.svg("rect", { ...look, x, y, width: box.width, height: box.height, fill });
      if (!stops) return rect(color);
      const id = lab.id("ramp");
      return lab.svg("g", {}, lab.svg("linearGradient", { id }, stops), rect(`url(#${id})`));
    },
  };
}

function drawing(node, body) {
  const box = node.getBoundingClientRect();
  return {
    box,
    node(x, y) {
      const place = { x, y, width: box.width, height: box.height };
      if (node instanceof HTMLCanvasElement) return lab.svg("image", { ...place, preserveAspectRatio: "none", href: node.toDataURL("image/png"), style: `image-rendering:${getComputedStyle(node).imageRendering}` });
      const copy = styled(node);
      Object.entries(place).forEach(([name, value]) => copy.setAttribute(name, value));
      return lab.svg("g", { opacity: opacity(node.parentElement, body) }, copy);
    },
  };
}

// Everything of a figure that is seen, from back to front: { box, node(x, y) }.
function parts(body) {
  const found = [];
  const walk = document.createTreeWalker(body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT,
    (node) => (node.parentElement.closest("svg") || (node instanceof Element && node.matches(LEFT_OUT)) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (node.nodeType === Node.TEXT_NODE) found.push(...written(node, body));
    else if (node instanceof SVGSVGElement || node instanceof HTMLCanvasElement) found.push(drawing(node, body));
    else found.push(ground(node, body));
  }
  return found.filter((part) => part && part.box.right > part.box.left && part.box.bottom > part.box.top);
}

const EDGE = 12; // pixels around the drawing
const GAP = 20; // the highest gap: what is left out leaves none
const TITLE = { "font-family": "system-ui, sans-serif", "font-size": 14, "font-weight": 600 };
const HEAD = 26; // height of the title

function titleWidth(title) {
  const pen = lab.el("canvas").getContext("2d");
  pen.font = "600 14px system-ui, sans-serif";
  return pen.measureText(title).width;
}

// By how much what begins at a height moves up, so that no gap between boxes is higher than GAP.
function closed(boxes) {
  const gaps = [];
  let bottom = Infinity;
  for (const box of [...boxes].sort((a, b) => a.top - b.top)) {
    if (box.top - bottom > GAP) gaps.push([box.top, box.top - bottom - GAP]);
    bottom = bottom === Infinity ? box.bottom : Math.max(bottom, box.bottom);
  }
  return (top) => gaps.reduce((sum, [from, gap]) => (top >= from ? sum + gap : sum), 0);
}

// A figure in one drawing, everything at its place on the page, below the title; null if it has no drawing.
function combined(body, title) {
  const seen = parts(body);
  if (![...body.querySelectorAll("svg:not(.swatch), canvas")].some((node) => node.getBoundingClientRect().width > 0)) return null;
  const ends = (name, most) => most(...seen.map(({ box }) => box[name]));
  const [left, top] = [ends("left", Math.min), ends("top", Math.min)];
  const up = closed(seen.map(({ box }) => box));
  const width = Math.ceil(Math.max(ends("right", Math.max) - left, titleWidth(title)) + 2 * EDGE);
  const height = Math.ceil(Math.max(...seen.map(({ box }) => box.bottom - up(box.top))) - top + HEAD + 2 * EDGE);
  const all = lab.svg("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height });
  all.append(lab.svg("rect", { width, height, fill: getComputedStyle(body).getPropertyValue("--bg").trim() }), lab.svg("text", { ...TITLE, x: EDGE, y: EDGE + 14, fill: lab.css("--ink") }, title));
  seen.forEach(({ box, node }) => all.append(node(box.left - left + EDGE, box.top - up(box.top) - top + EDGE + HEAD)));
  return all;
}

const file = (svg) => new Blob([`<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}`], { type: "image/svg+xml" });

async function png(svg) {
  const scale = 2;
  const [width, height] = [Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
  const url = URL.createObjectURL(file(svg));
  try {
    const image = new Image(width, height);
    await new Promise((done, failed) => {
      image.onload = done;
      image.onerror = () => failed(new Error("the drawing could not be converted"));
      image.src = url;
    });
    const canvas = lab.el("canvas", { width: width * scale, height: height * scale });
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.drawImage(image, 0, 0, width, height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

// The row of buttons below a figure. `table` returns { columns, rows }, or is null.
lab.saveButtons = function (body, title, name, table) {
  const note = lab.el("span", { class: "remark", "aria-live": "polite" });
  const button = (kind, action) =>
    lab.el("button", { type: "button", class: "save", "aria-label": `Download ${title} as ${kind}`, onclick: async () => {
      note.textContent = "";
      try {
        await action();
      } catch (error) {
        note.textContent = ` ${error.message}`;
      }
    } }, kind);
  const whole = () => {
    const svg = combined(body, title);
    if (!svg) throw new Error("there is no drawing to download");
    return svg;
  };
  // Figures that are tables of numbers, such as 2.1 and 3.1, have no drawing: their data are the CSV.
  const drawn = body.querySelector("svg:not(.swatch), canvas") !== null || body.querySelector(".holder, .panels") !== null;
  return lab.el("span", { class: "saves" },
    drawn ? [button("SVG", () => download(file(whole()), `${name}.svg`)), button("PNG", async () => download(await png(whole()), `${name}.png`))] : null,
    table ? button("CSV", () => download(new Blob([lab.csv(table())], { type: "text/csv" }), `${name}.csv`)) : null, note);
};
