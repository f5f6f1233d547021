// The project's own Rust code, compiled to WebAssembly, in workers made from a blob. Nothing of it runs on the page's thread.
const text = (id) => document.getElementById(id).textContent;
let source = null;

// The bytes of an element with Base64 of gzip.
lab.unpack = async function (id) {
  const packed = Uint8Array.from(atob(text(id).trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

// A worker: ask(call, options) promises the result of the call; end() stops the worker and rejects what is still open.
lab.worker = function () {
  source ??= URL.createObjectURL(new Blob([text("engine"), "\n", text("worker")], { type: "text/javascript" }));
  const worker = new Worker(source);
  const waiting = new Map();
  let last = 0;
  const fail = (message) => {
    waiting.forEach(({ reject }) => reject(new Error(message)));
    waiting.clear();
  };
  worker.onmessage = ({ data: { id, result, error } }) => {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error === undefined) resolve?.(result);
    else reject?.(new Error(error));
  };
  worker.onerror = (event) => fail(event.message);
  const ask = (call, options = {}) =>
    new Promise((resolve, reject) => {
      last += 1;
      waiting.set(last, { resolve, reject });
      worker.postMessage({ id: last, call, options });
    });
  ask("start", { module: text("module"), digits: text("digits") }).catch(() => {});
  return {
    ask,
    end() {
      worker.terminate();
      fail("stopped");
    },
  };
};

// The worker that all live figures share, started by the first of them: compute("norm", { kind: "layer", x, shape }).
// Calls of a list, [[call, options], …], are done in one message.
let shared = null;
lab.compute = function (call, options) {
  shared ??= lab.worker();
  return Array.isArray(call) ? shared.ask("all", { calls: call }) : shared.ask(call, options);
};

// Calls that use each other's results, done in one message. Each method returns what stands for a result: in the options of
// later calls, and in `wanted`, an object or a list that run() promises with the results in place.
//   const calls = lab.calls();
//   const z = calls.product(x, w, [n, k, m], "b");
//   const { a, spread } = await calls.run({ a: calls.evaluate("tanh(z)", { z }), spread: calls.statistics(z, [1, n * m, 1]).deviation });
lab.calls = function () {
  const calls = [];
  const add = (name, options, results) => {
    const call = calls.push([name, options]) - 1;
    return Object.fromEntries(results.map((result) => [result, { call, result }]));
  };
  return {
    norm: (options) => add("norm", options, ["y", "mean", "rstd"]),
    normBackward: (options) => add("normBackward", options, ["dx", "dgain", "dbias"]),
    cell: (options) => add("cell", options, ["h", "c"]),
    product: (a, b, shape, transposed = "none") => add("product", { a, b, shape, transposed }, ["y"]).y,
    // `rest`: rows and columns, with the width of a row; `double` for a result in 64 bits.
    evaluate: (formula, values, rest = {}) => add("evaluate", { formula, values, ...rest }, ["y"]).y,
    statistics: (x, shape) => add("statistics", { x, shape }, ["sum", "mean", "variance", "deviation", "length", "least", "most"]),
    histogram: (x, low, high, bins) => add("histogram", { x, low, high, bins }, ["edges", "counts"]),
    run(wanted) {
      shared ??= lab.worker();
      return shared.ask("all", { calls, wanted });
    },
  };
};

// Returns a function that runs `compute` and then `show(result)`. Asked again while it runs, it runs once more at the end,
// so a slider never leaves a queue behind. `fail` shows an error.
lab.latest = function (compute, show, fail = (error) => console.error(error)) {
  let running = false;
  let again = false;
  return async function ask() {
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      try {
        show(await compute());
      } catch (error) {
        fail(error);
      }
    }
    running = false;
  };
};
