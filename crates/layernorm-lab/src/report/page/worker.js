// The worker's side: answers { id, call, options } with { id, result } or { id, error }, in order. `Engine` comes before it.
let engine = null;
let images = null;
const trainers = new Map();

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
  all: ({ calls }) => Promise.all(calls.map(([call, options]) => answer(call, options ?? {}))),
  variants: ({ kind }) => engine.variants(kind),
  checksum: ({ seed, cases }) => engine.checksum(seed, cases),
  // Trainers: `train` creates one, with `data: "digits"` for the digits; the others take its number.
  async train(options) {
    const made = engine.trainer({ ...options, data: options.data === "digits" ? await CALLS.digits() : options.data });
    const number = trainers.size ? Math.max(...trainers.keys()) + 1 : 1;
    trainers.set(number, made);
    return number;
  },
  step: (options) => trainer(options).step(options.count),
  evaluate: (options) => trainer(options).evaluate(),
  activations: (options) => trainer(options).activations(),
  gradients: (options) => trainer(options).gradients(),
  predict: (options) => trainer(options).predict(options.x),
  free(options) {
    trainer(options).free();
    trainers.delete(options.number);
  },
};

function answer(call, options) {
  if (Object.hasOwn(CALLS, call)) return CALLS[call](options);
  if (["norm", "normBackward", "cell", "cellParameters"].includes(call)) return engine[call](options);
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
