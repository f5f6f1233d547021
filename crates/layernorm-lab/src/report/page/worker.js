// The worker's side: answers { id, call, options } with { id, result } or { id, error }, in order. `Engine` comes before it.
let engine = null;
let images = null;
const trainers = new Map();
const watched = new Map();

async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const trainer = ({ number }) => {
  const found = trainers.get(number);
  if (!found) throw new Error(`there is no trainer ${number}`);
  return found;
};

const tests = (data, count = data.testLabels.length) => ({ ...data, testX: data.testX.slice(0, count * 196), testLabels: data.testLabels.slice(0, count) });

// Steps in parts that grow while there is time; the loss and the accuracy are means over all of them.
function steps(one, count, end) {
  const all = { done: 0, loss: 0, accuracy: 0, finite: true };
  for (let part = 1; all.done < count && all.finite; ) {
    part = Math.min(part, count - all.done);
    const from = performance.now();
    const { step, loss, accuracy, finite } = one.step(part);
    const to = performance.now();
    Object.assign(all, { step, finite, done: all.done + part, loss: all.loss + loss * part, accuracy: all.accuracy + accuracy * part });
    if (to >= end) break;
    part = Math.max(1, Math.floor(Math.min(4 * part, ((end - to) / Math.max(to - from, 0.01)) * part)));
  }
  return all.done ? { ...all, loss: all.loss / all.done, accuracy: all.accuracy / all.done } : all;
}

const CALLS = {
  async start({ module, digits }) {
    images = digits;
    engine = await Engine.load(await unpack(module));
    return engine.version;
  },
  // The digits: { x, labels, testX, testLabels }, images of 14 × 14 with values from 0 to 1.
  async digits() {
    if (typeof images === "string") {
      const bytes = await unpack(images);
      const count = new DataView(bytes.buffer).getUint32(0, true);
      const train = new DataView(bytes.buffer).getUint32(4, true);
      const labels = bytes.slice(8, 8 + count);
      const x = Float32Array.from(bytes.subarray(8 + count), (value) => value / 15);
      images = { x: x.slice(0, train * 196), labels: labels.slice(0, train), testX: x.slice(train * 196), testLabels: labels.slice(train) };
    }
    return images;
  },
  // The calls of a list, in order. { call, result } in the options of one stands for what the call of this number, before it,
  // returned under this name; so too in `wanted`, which says what to return instead of all results.
  async all({ calls, wanted }) {
    const results = [];
    for (const [call, options] of calls) results.push(await answer(call, filled(options ?? {}, results)));
    return wanted ? filled(wanted, results) : results;
  },
  variants: ({ kind }) => engine.variants(kind),
  checksum: ({ seed, cases }) => engine.checksum(seed, cases),
  // The first test digits: { x, labels }.
  async samples({ count }) {
    const { testX, testLabels } = await CALLS.digits();
    return { x: testX.slice(0, count * 196), labels: testLabels.slice(0, count) };
  },
  // Trainers: `train` creates one, with `data: "digits"` for the digits, and returns its number; the others take the number.
  // `tested` limits the test digits, for networks that need long.
  async train({ tested, ...options }) {
    const made = engine.trainer({ ...options, data: options.data === "digits" ? tests(await CALLS.digits(), tested) : options.data });
    const number = trainers.size ? Math.max(...trainers.keys()) + 1 : 1;
    trainers.set(number, made);
    return number;
  },
  // Keeps samples for `advance` to predict.
  watch({ number, x }) {
    watched.set(number, x);
  },
  // Does up to `count` steps, as many as fit in `milliseconds` but at least one, and returns all that a page shows of them:
  // { step, done, loss, accuracy, finite, spent } and what `want` has of test, activations, gradients and predicted.
  advance({ number, count, milliseconds = 25, want = {} }) {
    const one = trainer({ number });
    const start = performance.now();
    const all = steps(one, count, start + milliseconds);
    const spent = performance.now() - start;
    const test = want.test ? one.evaluate() : null;
    const tested = performance.now() - start - spent;
    return {
      ...all, spent, test, tested,
      activations: want.activations ? one.activations() : null,
      gradients: want.gradients ? one.gradients() : null,
      predicted: want.predicted && watched.has(number) ? one.predict(watched.get(number)) : null,
    };
  },
  free(options) {
    trainer(options).free();
    watched.delete(options.number);
    trainers.delete(options.number);
  },
};

// The value with results in place of what stands for them.
function filled(value, results) {
  if (Array.isArray(value)) return value.map((each) => filled(each, results));
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  if ("call" in value) return results[value.call][value.result];
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, filled(each, results)]));
}

const ENGINE = ["norm", "normBackward", "cell", "cellParameters", "product", "evaluate", "statistics", "histogram"];
function answer(call, options) {
  if (Object.hasOwn(CALLS, call)) return CALLS[call](options);
  if (ENGINE.includes(call)) return engine[call](options);
  throw new Error(`the worker has no call ${call}`);
}

let before = Promise.resolve();
self.onmessage = ({ data: { id, call, options } }) => {
  before = before.then(async () => {
    try {
      self.postMessage({ id, result: await answer(call, options) });
    } catch (error) {
      self.postMessage({ id, error: error.message });
    }
  });
};
