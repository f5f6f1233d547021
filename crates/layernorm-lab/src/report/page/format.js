// Number formatting.
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const minus = (text) => text.replace("-", "−");
const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

// Thin spaces between thousands, for five or more digits.
function grouped(text) {
  const [whole, part] = text.split(".");
  const spaced = whole.replace("-", "").length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  return part === undefined ? spaced : `${spaced}.${part}`;
}

lab.power = (exponent) => "10" + [...String(exponent)].map((digit) => RAISED[digit]).join("");

function scientific(value, digits) {
  const [factor, exponent] = value.toExponential(digits - 1).split("e");
  const power = lab.power(Number(exponent));
  return trim(factor) === "1" ? power : minus(`${trim(factor)}×${power}`);
}

// A measured value with `digits` significant digits.
lab.number = function (value, digits = 4) {
  if (!lab.isNumber(value)) return "—";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e7 || size < 1e-3) return scientific(value, Math.min(digits, 3));
  if (Number.isInteger(value)) return minus(grouped(String(value)));
  if (size >= 10 ** digits) return minus(grouped(value.toFixed(0)));
  return minus(grouped(trim(value.toPrecision(digits))));
};

// A tick label on an axis with ticks `step` apart.
lab.tick = function (value, step) {
  if (Math.abs(value) < step * 1e-6) return "0";
  if (Math.abs(value) >= 1e7 || step < 1e-4) return scientific(value, 3);
  return minus(grouped(value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))));
};

// A table cell: a number, text, or nothing.
lab.cell = (value) => (typeof value === "number" ? lab.number(value) : value === null || value === undefined || value === "" ? "—" : String(value));

lab.axisTitle = (axis) => (axis?.unit ? `${axis.label} (${axis.unit})` : (axis?.label ?? ""));
lab.count = (number, one, many = `${one}s`) => `${lab.number(number)} ${number === 1 ? one : many}`;
