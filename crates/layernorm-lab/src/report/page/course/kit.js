// Controls of live figures. Each keeps its value in the page's hash through `view`, so that a link restores it.
// A control has: node, value, set(value), restore().

// A slider. `log` makes the slider's positions exponents of ten. `text(value)` labels the value.
lab.slider = function (view, { name, label, min, max, step = 0.01, start, log = false, text = (value) => lab.number(value, 3), changed }) {
  const output = lab.el("output", {});
  const input = lab.el("input", { type: "range", min, max, step, oninput: () => { take(Number(input.value)); view.set(name, String(Number(input.value))); changed?.(control.value); } });
  const control = {
    node: lab.el("label", { class: "control slider" }, lab.el("span", { class: "control-name" }, label), input, output),
    value: 0,
    set(value) {
      take(log ? Math.log10(value) : value);
      view.set(name, String(Number(input.value)));
      changed?.(control.value);
    },
    restore() {
      const saved = Number(view.get(name, "x"));
      take(lab.isNumber(saved) ? lab.clamp(saved, min, max) : log ? Math.log10(start) : start);
    },
  };
  function take(position) {
    input.value = String(position);
    control.value = log ? 10 ** Number(input.value) : Number(input.value);
    output.textContent = text(control.value);
    input.setAttribute("aria-valuetext", text(control.value));
  }
  control.restore();
  return control;
};

// One of a few options, as a row of radio buttons: options are [value, text] pairs.
lab.options = function (view, { name, label, options, start = options[0][0], changed }) {
  const group = lab.id("options");
  const inputs = options.map(([value]) => lab.el("input", { type: "radio", name: group, value, onchange: () => { control.value = value; view.set(name, value); changed?.(value); } }));
  const control = {
    node: lab.el("fieldset", { class: "control segmented" }, lab.el("legend", { class: "control-name" }, label),
      lab.el("div", { class: "segments" }, options.map(([, text], index) => lab.el("label", {}, inputs[index], lab.el("span", {}, text))))),
    value: start,
    set(value) {
      mark(value);
      view.set(name, value);
      changed?.(value);
    },
    restore() {
      const saved = view.get(name);
      mark(options.some(([value]) => value === saved) ? saved : start);
    },
  };
  function mark(value) {
    control.value = value;
    inputs.forEach((input) => { input.checked = input.value === value; });
  }
  control.restore();
  return control;
};

// A choice from a longer list.
lab.menu = function (view, { name, label, options, start = options[0][0], changed }) {
  const select = lab.el("select", { onchange: () => { control.value = select.value; view.set(name, select.value); changed?.(select.value); } }, options.map(([value, text]) => lab.el("option", { value }, text)));
  const control = {
    node: lab.el("label", { class: "control menu" }, lab.el("span", { class: "control-name" }, label), select),
    value: start,
    set(value) {
      control.value = select.value = value;
      view.set(name, value);
      changed?.(value);
    },
    restore() {
      const saved = view.get(name);
      control.value = select.value = options.some(([value]) => value === saved) ? saved : start;
    },
  };
  control.restore();
  return control;
};

// A switch.
lab.toggle = function (view, { name, label, start = false, changed }) {
  const input = lab.el("input", { type: "checkbox", role: "switch", onchange: () => { control.value = input.checked; view.set(name, input.checked ? "on" : "off"); changed?.(input.checked); } });
  const control = {
    node: lab.el("label", { class: "control toggle" }, input, lab.el("span", {}, label)),
    value: start,
    set(value) {
      control.value = input.checked = value;
      view.set(name, value ? "on" : "off");
      changed?.(value);
    },
    restore() {
      control.value = input.checked = { on: true, off: false }[view.get(name)] ?? start;
    },
  };
  control.restore();
  return control;
};

// A number as people write it: 1.25, −0,5, 14 336, 1,234,567, 1e-5, 10^-5, 10⁻⁵, 2·10^-3, 1/3. Returns { value }, or { why } it is
// none; both are null for no text at all.
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const POWER = String.raw`(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:\^[+-]?\d+(?:\.\d+)?)?`;
const EXPRESSION = new RegExp(`^[+-]?${POWER}(?:[*/]${POWER})*$`, "i");
const MOST = 1e30;
lab.parseNumber = function (words) {
  const typed = words.trim();
  if (typed === "") return { value: null, why: null };
  const bad = (why) => ({ value: null, why });
  let text = typed.replace(/[−–]/g, "-").replace(/[·×∙]/g, "*").replace(/[⁄∕]/g, "/")
    .replace(/[⁻⁺⁰¹²³⁴-⁹]+/g, (raised) => `^${[...raised].map((sign) => ({ "⁻": "-", "⁺": "+" })[sign] ?? SUPERSCRIPTS.indexOf(sign)).join("")}`)
    .replace(/\s*([*/^])\s*/g, "$1").replace(/^([+-])\s+/, "$1")
    // Spaces between groups of three digits, as this page writes large numbers.
    .replace(/(?<=\d)\s(?=\d{3}(?!\d))/g, "");
  if (/\d\s+[\d.]/.test(text)) return bad(`“${typed}” looks like more than one number.`);
  const comma = /(?<![\d.,])([1-9]\d{0,2}),(\d{3})(?![\d.,])/.exec(text);
  if (comma) return bad(`“${comma[0]}” can mean ${comma[1]}${comma[2]} or ${comma[1]}.${comma[2]}. Write one of these.`);
  // Several commas, or one before a point, separate thousands; any other one is a decimal comma.
  text = text.replace(/(?<![\d.,])\d{1,3}(?:,\d{3})+(?=\.)|(?<![\d.,])\d{1,3}(?:,\d{3}){2,}(?![\d,])/g, (number) => number.replaceAll(",", ""))
    .replace(/(?<![.,\d])(\d*),(\d+)(?![\d.,])/g, "$1.$2");
  if (!EXPRESSION.test(text)) return bad(`“${typed}” is not a number. Write it like 1.25, −0.5, 1/3 or 10^-5.`);
  const [, sign, rest] = /^([+-]?)(.*)$/.exec(text);
  const power = (part) => { const [base, exponent = "1"] = part.split("^"); return Number(base) ** Number(exponent); };
  // 1e-5 has no operator: a sign after e belongs to the exponent.
  const size = rest.split(/(?=[*/])/).reduce((all, part) => (part[0] === "/" ? all / power(part.slice(1)) : all * power(part.replace("*", ""))), 1);
  if (!lab.isNumber(size) || size > MOST) return bad(`“${typed}” is too large.`);
  return { value: sign === "-" ? -size : size, why: null };
};
const readNumber = (words) => lab.parseNumber(words).value;

// A table of numbers to edit: `start` is a list of rows; value is the same shape. Arrow keys move between cells.
// `cell(row, column)` may return { class, title } for a cell, asked again by paint().
lab.numbers = function (view, { name, label, start, rowNames = null, columnNames = null, cell = null, changed, focused = null }) {
  const width = start[0].length;
  const inputs = start.map((row, r) => row.map((_, c) => lab.el("input", { type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-label": `${rowNames?.[r] ?? `row ${r + 1}`}, ${columnNames?.[c] ?? `column ${c + 1}`}`,
    oninput: () => edit(r, c), onblur: () => tidy(r, c), onfocus: () => focused?.(r, c), onkeydown: (event) => walk(event, r, c) })));
  const cells = inputs.map((row) => row.map((input) => lab.el("td", {}, input)));
  const control = {
    node: lab.el("table", { class: "numbers-edit", "aria-label": label },
      columnNames ? lab.el("thead", {}, lab.el("tr", {}, rowNames ? lab.el("td", {}) : null, columnNames.map((text) => lab.el("th", { scope: "col" }, text)))) : null,
      lab.el("tbody", {}, cells.map((row, r) => lab.el("tr", {}, rowNames ? lab.el("th", { scope: "row" }, rowNames[r]) : null, row)))),
    cells,
    value: start,
    set(value) {
      show(value);
      save();
      changed?.(control.value);
    },
    paint() {
      if (!cell) return;
      cells.forEach((row, r) => row.forEach((td, c) => {
        const { class: name = "", title = "" } = cell(r, c) ?? {};
        td.className = name;
        td.title = title;
      }));
    },
    restore() {
      const saved = (view.get(name, "") || "").split("_").map(readNumber);
      const whole = saved.length === start.length * width && saved.every((number) => number !== null);
      show(whole ? start.map((row, r) => row.map((_, c) => saved[r * width + c])) : start);
    },
  };
  function show(value) {
    control.value = value.map((row) => [...row]);
    inputs.forEach((row, r) => row.forEach((input, c) => { input.value = lab.number(value[r][c], 5).replace(/[\u202f]/g, ""); input.removeAttribute("aria-invalid"); }));
    control.paint();
  }
  const save = () => view.set(name, control.value.flat().join("_"));
  function edit(r, c) {
    const { value: number, why } = lab.parseNumber(inputs[r][c].value);
    inputs[r][c].title = why ?? "";
    if (number === null) {
      inputs[r][c].setAttribute("aria-invalid", "true");
      return;
    }
    inputs[r][c].removeAttribute("aria-invalid");
    control.value[r][c] = number;
    save();
    changed?.(control.value);
  }
  function tidy(r, c) {
    if (readNumber(inputs[r][c].value) !== null) return;
    inputs[r][c].value = String(control.value[r][c]);
    inputs[r][c].title = "";
    inputs[r][c].removeAttribute("aria-invalid");
  }
  function walk(event, r, c) {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    const input = inputs[r][c];
    // Left and right leave the cell only at the ends of its text.
    if (right && (input.selectionStart !== input.selectionEnd || (right < 0 ? input.selectionStart > 0 : input.selectionEnd < input.value.length))) return;
    const next = inputs[r + down]?.[c + right];
    if ((!down && !right) || !next) return;
    event.preventDefault();
    next.focus();
    next.select();
  }
  control.restore();
  return control;
};

// A table of computed numbers. Each cell can be pointed at or focused (one Tab stop; arrow keys move), which calls
// pointed(row, column); `cells` are its elements. show(text, look) fills it: text(r, c) is null for a cell that is not shown.
lab.cells = function ({ label, rows, columns, rowNames = null, columnNames = null, pointed }) {
  const cells = Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_, c) => lab.el("td", { onpointermove: () => { if (under !== cells[r][c]) ask(r, c); }, onpointerleave: () => { under = null; }, onfocus: () => ask(r, c), onkeydown: (event) => walk(event, r, c) })));
  const open = (r, c) => cells[r]?.[c] && !cells[r][c].classList.contains("empty-cell") && !cells[r][c].closest("tr").hidden;
  // A move and not an entry: scrolling and layout also bring cells under the pointer.
  let under = null;
  function ask(r, c) {
    under = cells[r][c];
    if (open(r, c)) pointed(r, c);
  }
  let stop = [0, 0];
  function place() {
    const [r, c] = open(...stop) ? stop : (cells.flatMap((row, r) => row.map((_, c) => [r, c])).find(([r, c]) => open(r, c)) ?? [-1, -1]);
    cells.forEach((row, at) => row.forEach((td, column) => { if (open(at, column)) td.tabIndex = at === r && column === c ? 0 : -1; else td.removeAttribute("tabindex"); }));
  }
  function walk(event, r, c) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !open(r + step[0], c + step[1])) return;
    event.preventDefault();
    stop = [r + step[0], c + step[1]];
    place();
    cells[stop[0]][stop[1]].focus();
  }
  return {
    node: lab.el("table", { class: "numbers-shown", "aria-label": label },
      columnNames ? lab.el("thead", {}, lab.el("tr", {}, rowNames ? lab.el("td", {}) : null, columnNames.map((text) => lab.el("th", { scope: "col" }, text)))) : null,
      lab.el("tbody", {}, cells.map((row, r) => lab.el("tr", {}, rowNames ? lab.el("th", { scope: "row" }, rowNames[r]) : null, row)))),
    cells,
    show(text, look = () => "") {
      cells.forEach((row, r) => row.forEach((td, c) => {
        const words = text(r, c);
        td.textContent = words ?? "";
        td.className = words === null ? "empty-cell" : look(r, c);
      }));
      place();
    },
  };
};

// Three decimals, so that numbers of a table align; very large ones as lab.number writes them.
lab.fixed = (value) => (lab.isNumber(value) && Math.abs(value) < 1e5 ? value.toFixed(3).replace(/^-(0\.000)$/, "$1").replace("-", "−") : lab.number(value, 3));

// A formula as text, for data tables: subscripts follow an underscore.
lab.mathText = (node) => {
  const parts = [...node.childNodes].map((child) => (child.nodeType === Node.TEXT_NODE ? child.data : lab.mathText(child)));
  if (node.localName === "msub") return `${parts[0]}_${parts[1].length > 1 ? `{${parts[1]}}` : parts[1]}`;
  return node.localName === "mspace" ? " " : parts.map((part) => (/^[=+←−∘]$/.test(part) && node.localName === "math" ? ` ${part} ` : part)).join("").trim();
};

// The row of controls above a live figure.
lab.controls = (...nodes) => lab.el("div", { class: "controls" }, nodes);

// A live figure is made by `make(view)`, which returns what the charts of studies return:
// { parts, draw(width), table(), notes, restore() }.
lab.charts.live = (chart, view) => chart.make(view);

// An error of a live figure, in its place.
lab.trouble = function () {
  const node = lab.el("p", { class: "empty trouble", hidden: true });
  return {
    node,
    show(error) {
      node.hidden = false;
      node.textContent = `This could not be computed: ${error.message}`;
    },
    clear() {
      node.hidden = true;
    },
  };
};

// Random numbers with a seed: mulberry32 and Box–Muller. The uniform ones are the same in every browser; a normal one may differ
// in its last bits, because browsers may round Math.log and Math.cos in different ways.
lab.random = function (seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, normal };
};

// Parts of a block diagram (class "diagram"): texts with a subscript, arrows along points, boxes and operators.
const word = (x, y, text, below = "", name = null) => lab.svg("text", { x, y, class: name }, text, below ? lab.svg("tspan", { class: "sub", dy: "0.45em" }, below) : null);
lab.diagram = {
  word,
  arrow(points) {
    const [[ax, ay], [bx, by]] = points.slice(-2);
    const turn = (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
    return [lab.svg("path", { class: "edge", d: `M${points.map((point) => point.join(",")).join("L")}` }),
      lab.svg("path", { class: "head", d: "M1,0L-7,-4.2V4.2z", transform: `translate(${bx} ${by}) rotate(${turn.toFixed(1)})` })];
  },
  box: (x, y, width, text) => lab.svg("g", {}, lab.svg("rect", { class: "box", x: x - width / 2, y: y - 16, width, height: 32, rx: 7 }), word(x, y, text)),
  dot: (x, y, text) => lab.svg("g", {}, lab.svg("circle", { class: "box", cx: x, cy: y, r: 11 }), word(x, y, text)),
};

// Line plots beside each other, below each other on a narrow screen. show() takes [{ title, chart }], charts of lab.charts.lines;
// `common`: the legend of the first serves all. The room for `count` plots is kept free until they come.
const PLOT_GAP = 20;
lab.plots = function (count, { common = true } = {}) {
  const legend = lab.el("div", { class: "plots-legend" });
  const grid = lab.el("div", { class: "plots holder" });
  let charts = null;
  let across = 0;
  function draw(width = across) {
    across = width;
    if (!width) return;
    const columns = width < 560 ? 1 : 2;
    const each = Math.floor((width - PLOT_GAP * (columns - 1)) / columns);
    const room = lab.plotHeight(each) + (common ? 26 : 64);
    grid.style.setProperty("--columns", columns);
    grid.style.minHeight = charts ? "" : `${Math.ceil(count / columns) * (room + PLOT_GAP) - PLOT_GAP}px`;
    charts?.forEach(({ chart }) => chart.draw?.(each));
  }
  return {
    parts: common ? [legend, grid] : [grid],
    draw,
    show(made) {
      charts = made;
      if (common && made[0].chart.parts) legend.replaceChildren(made[0].chart.parts[0]);
      grid.replaceChildren(...made.map(({ title, chart }) => lab.el("div", { class: "panel" }, lab.el("h4", {}, title),
        chart.empty ? lab.el("p", { class: "empty" }, chart.empty) : common ? chart.parts[1] : chart.parts)));
      draw();
    },
    restore: () => charts?.forEach(({ chart }) => chart.restore?.()),
  };
};
