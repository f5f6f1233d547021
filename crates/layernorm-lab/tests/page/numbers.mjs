// How answers are read: numbers as people write them, and why others are none.
const READ = [
  ["1.25", 1.25], [" 7 ", 7], [".5", 0.5], ["5.", 5], ["-0.5", -0.5], ["−0.5", -0.5], ["– 0.5", -0.5], ["+3", 3], ["0", 0],
  ["1e-5", 1e-5], ["1E5", 1e5], ["10^-5", 1e-5], ["10⁻⁵", 1e-5], ["10^−5", 1e-5], ["10 ^ -5", 1e-5], ["10⁺²", 100], ["2^0.5", Math.SQRT2], ["-10^-5", -1e-5],
  ["2·10^-3", 0.002], ["2*10^-3", 0.002], ["2 × 10⁻³", 0.002], ["1.5×10⁶", 1.5e6], ["2*7*64", 896],
  ["1/3", 1 / 3], ["−1/4", -0.25], ["2 / 8", 0.25], ["1⁄2", 0.5], ["3/10^2", 0.03], ["1,5/2", 0.75],
  ["14 336", 14336], ["14\u202f336", 14336], ["14\u00a0336", 14336], ["1 234 567.5", 1234567.5], ["0.123 456", 0.123456],
  ["1,5", 1.5], ["−0,671", -0.671], ["0,125", 0.125], [",5", 0.5], ["14,3361", 14.3361], ["1234,567", 1234.567], ["1 234,5", 1234.5], ["1,234,567", 1234567], ["1,234.5", 1234.5],
];
const REFUSED = [
  ["14,336", /“14,336” can mean 14336 or 14\.336/], ["−1,342", /can mean 1342 or 1\.342/], ["1,000/3", /can mean 1000 or 1\.000/],
  ["1 2", /more than one number/], ["0.5 0.5", /more than one number/], ["1234 567 8", /more than one number/],
  ["x", /“x” is not a number.*1\/3 or 10\^-5/], ["1.2.3", /is not a number/], ["1,2,3", /is not a number/], ["--1", /is not a number/], ["2^", /is not a number/], ["1/", /is not a number/], ["1+1", /is not a number/], ["Infinity", /is not a number/], ["0x10", /is not a number/],
  ["1e31", /too large/], ["10^400", /too large/], ["1/0", /too large/],
];

export async function numbers({ page, expect }) {
  const texts = [...READ, ...REFUSED].map(([text]) => text);
  const parsed = await page.run(`${JSON.stringify(texts)}.map((text) => lab.parseNumber(text))`);
  for (const [at, [text, wanted]] of [...READ, ...REFUSED].entries()) {
    const { value, why } = parsed[at];
    const right = typeof wanted === "number" ? value !== null && why === null && Math.abs(value - wanted) <= 1e-12 * Math.abs(wanted) : value === null && wanted.test(why);
    expect(right, `“${text}” is read as ${value}${why ? ` (${why})` : ""}, expected ${wanted}`);
  }
  const [empty] = await page.run('[lab.parseNumber("  ")]');
  expect(empty.value === null && empty.why === null, `no text is read as ${JSON.stringify(empty)}`);
}
