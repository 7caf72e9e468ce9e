// The compiled engine: runs of the native core and NumPy's random numbers, in typed arrays.

let exports = null;

export async function load(address) {
  // `address` is that of engine.wasm. The module needs a clock, and calls nothing else of its host in a sound run.
  const module = await compiled(await fetch(address)), host = {};
  for (const { module: space, name } of WebAssembly.Module.imports(module)) {
    host[space] ??= {};
    host[space][name] = name === "clock_time_get" ? writeTime : name === "emscripten_notify_memory_growth" ? () => {} : () => { throw new Error(`The engine called ${name}.`); };
  }
  ({ exports } = await WebAssembly.instantiate(module, host));
  exports._initialize?.();
}

async function compiled(answer) {
  // Compiled while it is read, or afterwards where the file server does not know the type of the file.
  const isNamed = answer.headers.get("content-type") === "application/wasm";
  return isNamed ? WebAssembly.compileStreaming(answer) : WebAssembly.compile(await answer.arrayBuffer());
}

function writeTime(_clock, _precision, address) {
  new DataView(exports.memory.buffer).setBigUint64(Number(address), BigInt(Math.round(1e6 * performance.now())), true);
  return 0;
}

const numbersAt = (address, count) => new Float64Array(exports.memory.buffer, address, count);

function withNumbers(values, use) {
  // Call `use` with the address of a copy of the values, and return that copy as it is afterwards.
  const address = exports.engine_numbers(values.length);
  numbersAt(address, values.length).set(values);
  use(address);
  const after = numbersAt(address, values.length).slice();
  exports.engine_free_numbers(address);
  return after;
}

const SPACES = { euclidean: 0, sphere: 1, rescaled: 2 };
const SLOWNESSES = { post: 0, sqrt: 1, ngpt: 2 };
const METHODS = { tsit5: 0, euler: 1, heun: 2, rk4: 3 };
const RUN_ENDED = { 1: "the next step gave NaN or infinity", 2: "the step fell below the resolution of time" };
const MAX_STEPS = 10_000_000; // attempted steps, as of `Adaptive`

export class Engine {
  // The integration of one model from tokens at a time; `free` gives its memory back.
  #address;

  constructor(model, tokens, time) {
    const { n, d, heads, solver } = model;
    const numbers = [
      SPACES[model.space], SLOWNESSES[model.normalisation.name], model.normalisation.alpha, Number(model.attention.name !== "unnormalised"),
      model.attention.tolerance, model.attention.beta ?? 1, model.attention.offset, ...model.reach,
      METHODS[solver.name], solver.rtol, solver.atol, solver.minStep, solver.step ?? 0, MAX_STEPS,
    ];
    const matrices = heads.flatMap((head) => [...head.queryKey.flat(), ...head.value.flat()]);
    withNumbers([...numbers, ...matrices], (address) => {
      this.#address = exports.engine_new(n, d, heads.length, address, address + 8 * numbers.length);
    });
    this.size = n * d;
    numbersAt(exports.engine_first_tokens(this.#address), this.size).set(tokens);
    exports.engine_begin(this.#address, time);
  }

  get time() { return exports.engine_time(this.#address); }

  get steps() { return exports.engine_steps(this.#address); }

  advance(time, seconds) {
    // The tokens at a time, or null if a further call is needed; about `seconds` of computing.
    const found = exports.engine_advance(this.#address, time, seconds);
    if (found < 0) throw new RunEnded(`The run has ended. Failed at t = ${Number(this.time.toPrecision(6))} after ${this.steps} steps: ${RUN_ENDED[-found]}.`);
    if (!found && this.steps >= MAX_STEPS) throw new RunEnded("The run has ended: the largest number of steps was taken.");
    return found ? numbersAt(exports.engine_tokens(this.#address), this.size).slice() : null;
  }

  free() { exports.engine_free(this.#address); }
}

export function exponential(matrix, time) {
  // e^{time V} as a matrix of size about one and the logarithm of its scale.
  const d = matrix.length;
  let logScale = 0;
  const entries = withNumbers(matrix.flat(), (address) => { logScale = exports.engine_exponential(address, d, time); });
  return { matrix: matrix.map((_, i) => Array.from(entries.subarray(i * d, (i + 1) * d))), logScale };
}

export class RunEnded extends Error {}

export class Random {
  // NumPy's default_rng of a seed and a spawn key; one generator is in use at a time.
  constructor(seed, spawnKey) {
    const entropy = [];
    for (let rest = BigInt(seed); rest > 0n || !entropy.length; rest >>= 32n) entropy.push(Number(rest & 0xffffffffn));
    withNumbers([...entropy, ...spawnKey], (address) => exports.random_seed(address, entropy.length, spawnKey.length));
  }

  uniforms(count) { return withNumbers(new Float64Array(count), (address) => exports.random_uniforms(address, count)); }

  normals(count) { return withNumbers(new Float64Array(count), (address) => exports.random_normals(address, count)); }
}
