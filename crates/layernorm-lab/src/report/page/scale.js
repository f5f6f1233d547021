// Maps values to pixels: linear, logarithmic and categorical. A scale has at(value), back(pixel) and ticks.

function steps(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough * 0.999) ?? 10);
}

function linear([low, high], from, to) {
  const step = steps(low, high, Math.abs(to - from) / (from > to ? 48 : 84));
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) ticks.push({ value: n * step, text: lab.tick(n * step, step) });
  return {
    low, high, ticks,
    at: (value) => (lab.isNumber(value) ? from + ((value - low) / (high - low)) * (to - from) : NaN),
    back: (pixel) => low + ((pixel - from) / (to - from)) * (high - low),
  };
}

function logTicks(low, high, length) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const ticks = [];
  if (last - first < 2) {
    // Below two full decades, ticks at powers of ten are too few.
    for (let power = first - 1; power <= last; power += 1)
      for (const factor of [1, 2, 5]) {
        const value = factor * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push({ value, text: lab.number(value) });
      }
    return ticks;
  }
  const every = Math.ceil((last - first + 1) / Math.max(length / 42, 2));
  for (let power = first; power <= last; power += every) ticks.push({ value: 10 ** power, text: lab.power(power) });
  return ticks;
}

function logarithmic([low, high], from, to) {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  return {
    low, high, log: true, ticks: logTicks(low, high, Math.abs(to - from)),
    at: (value) => (lab.isNumber(value) && value > 0 ? from + ((Math.log10(value) - a) / (b - a)) * (to - from) : NaN),
    back: (pixel) => 10 ** (a + ((pixel - from) / (to - from)) * (b - a)),
  };
}

// The bands of a categorical axis; at(index) is the center of a band.
lab.bands = function (names, from, to) {
  const step = (to - from) / Math.max(names.length, 1);
  return {
    step, bands: true,
    ticks: names.map((text, value) => ({ value, text: String(text) })),
    at: (index) => from + (index + 0.5) * step,
    back: (pixel) => lab.clamp(Math.floor((pixel - from) / step), 0, names.length - 1),
  };
};

// The axis range that covers `values`; null if there is nothing to show. `zero` includes zero, for bars.
lab.domain = function (axis, values, { zero = false, pad = 0.04 } = {}) {
  const log = axis?.log === true;
  const shown = values.filter((value) => lab.isNumber(value) && (!log || value > 0));
  const usable = (end) => lab.isNumber(end) && (!log || end > 0);
  if (!shown.length && !(usable(axis?.low) && usable(axis?.high))) return null;
  let low = Infinity;
  let high = -Infinity;
  for (const value of shown) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (zero && !log) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  if (log) {
    const room = Math.max(high / low, 1.5) ** pad;
    [low, high] = low === high ? [low / 2, high * 2] : [low / room, high * room];
  } else {
    const room = high > low ? (high - low) * pad : Math.abs(low) * 0.1 || 1;
    low = zero && low === 0 ? 0 : low - room;
    high = zero && high === 0 ? 0 : high + room;
  }
  if (usable(axis?.low)) low = axis.low;
  if (usable(axis?.high)) high = axis.high;
  return low < high ? [low, high] : [high, log ? low * 10 : low + 1];
};

lab.scale = (axis, domain, from, to) => (axis?.log ? logarithmic(domain, from, to) : linear(domain, from, to));
