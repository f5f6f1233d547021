// The project's norms, recurrent cells and trainer in a page: calls into layernorm.wasm. No imports, so that a page and a
// worker made from a blob can contain it as it is. Everything after `Engine.load` is synchronous. A call that cannot be
// done throws an Error that says what was expected and what came.
class Engine {
  // bytes: a Uint8Array with the module.
  static async load(bytes) {
    if (!(bytes instanceof Uint8Array)) throw new Error("the module: expected a Uint8Array with layernorm.wasm");
    let module;
    try {
      module = await WebAssembly.instantiate(bytes, {});
    } catch (error) {
      throw new Error(`the module could not be started (it needs a browser of 2021 or later, with WebAssembly SIMD): ${error.message}`);
    }
    const engine = new Engine();
    engine._exports = module.instance.exports;
    engine.version = engine._call("version", {});
    return engine;
  }

  // { kind, x, shape, gain, bias, eps, groups } → { y, mean, rstd }
  norm(options) {
    return this._call("norm", options);
  }

  // { kind, x, dy, shape, gain, bias, eps, groups } → { dx, dgain, dbias }
  normBackward(options) {
    return this._call("normBackward", options);
  }

  // { kind, variant, input, hidden, steps, batch, x, parameters, h0, c0 } → { h, c }, the states of every step
  cell(options) {
    return this._call("cell", options);
  }

  // { kind, variant, input, hidden, seed } → { parameters, layout: [{ name, offset, shape }] }
  cellParameters(options) {
    return this._call("cellParameters", options);
  }

  // The names of the variants of a kind.
  variants(kind) {
    return this._call("variants", { kind });
  }

  // { a, b, shape: [m, k, n], transposed: "none", "a" or "b" } → { y }, the matrix product A·B
  product(options) {
    return this._call("product", options);
  }

  // { formula, values, rows, columns, width, double } → { y }, the formula for each element
  evaluate(options) {
    return this._call("evaluate", options);
  }

  // { x, shape: [outer, n, inner] } → { sum, mean, variance, deviation, length, least, most } over the middle axis
  statistics(options) {
    return this._call("statistics", options);
  }

  // { x, low, high, bins } → { edges, counts }
  histogram(options) {
    return this._call("histogram", options);
  }

  // 16 hexadecimal digits over the bits of the results of random cases; `layernorm verify --checksum` prints the same.
  checksum(seed, cases) {
    return this._call("checksum", { seed, cases });
  }

  // The same, one hash for each of `count` cases.
  cases(seed, first, count) {
    return this._call("cases", { seed, first, count });
  }

  // A trainer; see Trainer.
  trainer(options) {
    return new Trainer(this, this._call("trainer", options));
  }

  _call(command, options) {
    if (this._broken) throw new Error("the engine stopped after an internal error: load it again");
    const message = [command, options];
    const size = Engine._size(message, command);
    let words, at;
    try {
      at = this._exports.layernorm_request(size);
      if (at === 0) throw new Error(`${command}: no memory for a request of ${4 * size} bytes`);
      Engine._write(message, { view: new DataView(this._exports.memory.buffer), at: at >>> 0 });
      at = this._exports.layernorm_call() >>> 0;
      words = this._exports.layernorm_response_words() >>> 0;
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      this._broken = true;
      throw new Error(`${command}: an internal error of the engine (${error.message}); load it again`);
    }
    const view = new DataView(this._exports.memory.buffer, at, 4 * words);
    const result = Engine._read({ view, at: 4 });
    if (view.getUint32(0, true) !== 0) throw new Error(`${command}: ${result}`);
    return result;
  }

  // The number of words of a value; src/message.rs has the format.
  static _size(value, name) {
    if (value === undefined || value === null) return 1;
    if (typeof value === "number") return 3;
    if (typeof value === "boolean") return 2;
    if (typeof value === "string") return 1 + Engine._textSize(value);
    if (value instanceof Float32Array) return 2 + value.length;
    if (value instanceof Float64Array) return 2 + 2 * value.length;
    if (value instanceof Uint8Array) return 2 + Math.ceil(value.length / 4);
    if (Array.isArray(value)) return value.reduce((sum, each) => sum + Engine._size(each, name), 2);
    if (typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype) {
      return Object.entries(value).reduce((sum, [key, each]) => sum + Engine._textSize(key) + Engine._size(each, key), 2);
    }
    const found = typeof value === "object" ? `a value of type ${value.constructor?.name ?? "object"}` : `a value of type ${typeof value}`;
    throw new Error(`${name}: expected a number, a text, a Float32Array, a Float64Array, a Uint8Array, a list or an object, found ${found}`);
  }

  static _textSize(text) {
    return 1 + Math.ceil(new TextEncoder().encode(text).length / 4);
  }

  static _write(value, to) {
    const word = (number) => {
      to.view.setUint32(to.at, number, true);
      to.at += 4;
    };
    const bytes = (array) => {
      word(array.length);
      new Uint8Array(to.view.buffer, to.at, array.length).set(array);
      to.at += 4 * Math.ceil(array.length / 4);
    };
    // As bytes: a NaN keeps its bits.
    const raw = (array) => {
      new Uint8Array(to.view.buffer, to.at, array.byteLength).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
      to.at += array.byteLength;
    };
    const text = (string) => bytes(new TextEncoder().encode(string));
    if (value === undefined || value === null) word(0);
    else if (typeof value === "number") {
      word(1);
      to.view.setFloat64(to.at, value, true);
      to.at += 8;
    } else if (typeof value === "string") {
      word(2);
      text(value);
    } else if (value instanceof Float32Array) {
      word(3);
      word(value.length);
      raw(value);
    } else if (value instanceof Float64Array) {
      word(8);
      word(value.length);
      raw(value);
    } else if (value instanceof Uint8Array) {
      word(4);
      bytes(value);
    } else if (typeof value === "boolean") {
      word(5);
      word(value ? 1 : 0);
    } else if (Array.isArray(value)) {
      word(6);
      word(value.length);
      value.forEach((each) => Engine._write(each, to));
    } else {
      word(7);
      const entries = Object.entries(value);
      word(entries.length);
      for (const [key, each] of entries) {
        text(key);
        Engine._write(each, to);
      }
    }
  }

  static _read(from) {
    const { view } = from;
    const word = () => {
      from.at += 4;
      return view.getUint32(from.at - 4, true);
    };
    const bytes = () => {
      const length = word();
      const start = view.byteOffset + from.at;
      from.at += 4 * Math.ceil(length / 4);
      return new Uint8Array(view.buffer.slice(start, start + length));
    };
    const text = () => new TextDecoder().decode(bytes());
    switch (word()) {
      case 0:
        return undefined;
      case 1:
        from.at += 8;
        return view.getFloat64(from.at - 8, true);
      case 2:
        return text();
      case 3: {
        const length = word();
        const start = view.byteOffset + from.at;
        from.at += 4 * length;
        return new Float32Array(view.buffer.slice(start, start + 4 * length));
      }
      case 4:
        return bytes();
      case 5:
        return word() !== 0;
      case 6:
        return Array.from({ length: word() }, () => Engine._read(from));
      case 8: {
        const length = word();
        const start = view.byteOffset + from.at;
        from.at += 8 * length;
        return new Float64Array(view.buffer.slice(start, start + 8 * length));
      }
      default: {
        const fields = Array.from({ length: word() }, () => [text(), Engine._read(from)]);
        return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
      }
    }
  }
}

// Trains a network in the module. `free` returns its memory; after that, every call throws.
class Trainer {
  constructor(engine, number) {
    this._engine = engine;
    this._number = number;
  }

  // Does `count` steps → { step, loss, accuracy, finite }, means over these steps' batches.
  step(count = 1) {
    return this._engine._call("trainer.step", { trainer: this._number, count });
  }

  // → { loss, accuracy } on the test data.
  evaluate() {
    return this._engine._call("trainer.evaluate", { trainer: this._number });
  }

  // → [{ name, mean, deviation, histogram, range }] of each layer, in the last batch.
  activations() {
    return this._engine._call("trainer.activations", { trainer: this._number });
  }

  // → [{ name, norm }] of each layer, in the last step.
  gradients() {
    return this._engine._call("trainer.gradients", { trainer: this._number });
  }

  // Logits of samples, as at inference.
  predict(x) {
    return this._engine._call("trainer.predict", { trainer: this._number, x });
  }

  free() {
    this._engine._call("trainer.free", { trainer: this._number });
  }
}
