// Downloads of a figure: its data as CSV, its drawing as SVG and PNG.
const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "shape-rendering", "letter-spacing", "visibility", "display"];
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

// A copy of a drawing that needs no stylesheet.
function styled(svg) {
  const copy = svg.cloneNode(true);
  const [from, to] = [[svg, ...svg.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((node, index) => {
    const style = getComputedStyle(node);
    to[index].setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    to[index].removeAttribute("class");
  });
  return copy;
}

// All drawings of a figure in one, at their places on the page.
function combined(body, title) {
  const drawings = [...body.querySelectorAll("svg:not(.swatch)"), ...body.querySelectorAll("canvas")].filter((node) => node.getBoundingClientRect().width > 0);
  if (!drawings.length) return null;
  const boxes = drawings.map((node) => node.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))];
  const width = Math.ceil(Math.max(...boxes.map((box) => box.right)) - left);
  const height = Math.ceil(Math.max(...boxes.map((box) => box.bottom)) - top) + 28;
  const all = lab.svg("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height });
  all.append(lab.svg("rect", { width, height, fill: lab.css("--bg") }), lab.svg("text", { x: 2, y: 17, fill: lab.css("--ink"), "font-family": "system-ui, sans-serif", "font-size": 14, "font-weight": 600 }, title));
  drawings.forEach((node, index) => {
    const place = { x: boxes[index].left - left, y: boxes[index].top - top + 28, width: boxes[index].width, height: boxes[index].height };
    if (node instanceof HTMLCanvasElement) all.append(lab.svg("image", { ...place, href: node.toDataURL("image/png") }));
    else {
      const copy = styled(node);
      Object.entries(place).forEach(([name, value]) => copy.setAttribute(name, value));
      all.append(copy);
    }
  });
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
  const drawing = () => {
    const svg = combined(body, title);
    if (!svg) throw new Error("there is no drawing to download");
    return svg;
  };
  const drawn = body.querySelector("svg:not(.swatch), canvas") !== null || body.querySelector(".holder, .panels") !== null;
  return lab.el("span", { class: "saves" },
    drawn ? [button("SVG", () => download(file(drawing()), `${name}.svg`)), button("PNG", async () => download(await png(drawing()), `${name}.png`))] : null,
    table ? button("CSV", () => download(new Blob([lab.csv(table())], { type: "text/csv" }), `${name}.csv`)) : null, note);
};
