// The playground's data: points in the plane, made here, and the digits, which are in the worker.
const POINTS = 300; // for training, and as many for the test
const SEED = 20; // of the points: new weights keep the data

const SHAPES = {
  circles: (label, { uniform }) => {
    const angle = 2 * Math.PI * uniform();
    const radius = label ? 1 : 0.45;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  },
  moons: (label, { uniform }) => {
    const angle = Math.PI * uniform();
    return label ? [1 - Math.cos(angle), 0.5 - Math.sin(angle)] : [Math.cos(angle), Math.sin(angle)];
  },
  spirals: (label, { uniform }) => {
    const along = Math.sqrt(uniform());
    const angle = along * 3.3 * Math.PI + label * Math.PI;
    return [along * Math.cos(angle), along * Math.sin(angle)];
  },
  xor: (label, { uniform }) => {
    const [x, side] = [0.08 + 0.92 * uniform(), uniform() < 0.5 ? -1 : 1];
    const y = 0.08 + 0.92 * uniform();
    return [x * side, y * side * (label ? -1 : 1)];
  },
};

function points(shape, noise, random) {
  const x = new Float32Array(2 * POINTS);
  const labels = new Uint8Array(POINTS);
  for (let at = 0; at < POINTS; at += 1) {
    labels[at] = at % 2;
    const place = SHAPES[shape](labels[at], random);
    for (const axis of [0, 1]) x[2 * at + axis] = place[axis] + noise * random.normal();
  }
  return { x, labels };
}

// Training and test points, standardized with the training points' mean and deviation.
function plane(shape, noise) {
  const random = lab.random(SEED);
  const [train, test] = [points(shape, noise, random), points(shape, noise, random)];
  for (const axis of [0, 1]) {
    const values = train.x.filter((_, at) => at % 2 === axis);
    const mean = values.reduce((sum, value) => sum + value, 0) / POINTS;
    const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / POINTS);
    for (const { x } of [train, test]) for (let at = axis; at < x.length; at += 2) x[at] = (x[at] - mean) / deviation;
  }
  return { x: train.x, labels: train.labels, testX: test.x, testLabels: test.labels };
}

const GRID = 44; // points of the decision regions, each way
const REACH = 2.4; // the plane is drawn from −REACH to REACH
const DIGITS = 12; // test digits that are shown

// The centers of the cells of the decision regions, row by row from the top.
function cells() {
  const x = new Float32Array(2 * GRID * GRID);
  const at = (cell) => ((cell + 0.5) / GRID) * 2 * REACH - REACH;
  for (let cell = 0; cell < GRID * GRID; cell += 1) [x[2 * cell], x[2 * cell + 1]] = [at(cell % GRID), -at(Math.floor(cell / GRID))];
  return x;
}

lab.play = {
  GRID, REACH, DIGITS,
  flat: (data) => Object.hasOwn(SHAPES, data),
  plane,
  // What is predicted in every burst.
  async watched(data) {
    return lab.play.flat(data) ? { x: cells() } : lab.compute("samples", { count: DIGITS });
  },
};
