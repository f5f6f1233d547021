// Geometry of a rotating point cloud, and its drawing on a canvas.

const finite = (points) => points.filter((point) => [0, 1, 2].every((axis) => lab.isNumber(point[axis])));

// The largest coordinate or radius of some panels: the end of every axis if they share one scale.
lab.reach = (panels) => Math.max(...panels.flatMap(({ points, sphere }) => [sphere ?? 0, ...finite(points ?? []).flatMap((point) => point.slice(0, 3).map(Math.abs))])) * 1.02 || 1;

// Scales points to the cube from −1 to 1. Without a `reach`, the same for all axes, each axis has its own scale. The
// scale is shown at the ends of the axes.
lab.cube = function (points, reach = null, sphere = null) {
  const good = finite(points);
  const ranges = [0, 1, 2].map((axis) => {
    if (reach) return [-reach, reach];
    let [low, high] = [Infinity, -Infinity];
    for (const point of good) [low, high] = [Math.min(low, point[axis]), Math.max(high, point[axis])];
    return high > low ? [low, high] : [low - 1, high + 1];
  });
  const within = (value, [low, high]) => ((value - low) / (high - low)) * 2 - 1;
  return { ranges, sphere: reach && sphere ? sphere / reach : null, lost: points.length - good.length, points: good.map((point) => [...ranges.map((range, axis) => within(point[axis], range)), point[3] ?? 0]) };
};

// A camera that looks at the cube's center: [x, y, depth] on a canvas `size` wide. Distance and zoom ensure that no
// corner or label leaves the canvas at any rotation.
const FAR = 7;
const ZOOM = 0.25;
const TALL = 1.06; // height / width
function camera({ yaw, pitch }, size) {
  const [a, b] = [(yaw * Math.PI) / 180, (pitch * Math.PI) / 180];
  const [sa, ca, sb, cb] = [Math.sin(a), Math.cos(a), Math.sin(b), Math.cos(b)];
  return ([x, y, z]) => {
    const [across, into] = [x * ca - y * sa, x * sa + y * ca];
    const [up, depth] = [z * cb + into * sb, into * cb - z * sb];
    const scale = (FAR / (FAR + depth)) * size * ZOOM;
    return [size / 2 + across * scale, (size * TALL) / 2 - up * scale, depth];
  };
}

const SIGNS = [[-1, -1], [-1, 1], [1, -1], [1, 1]];
// The point at `value` on an edge parallel to an axis, `out` from the center in the other two directions.
const onEdge = (axis, [a, b], value, out = 1) => [[value, a * out, b * out], [a * out, value, b * out], [a * out, b * out, value]][axis];

// The edges with the labels are at the rim: the lowest for x and y, the leftmost for z.
function carrier(project, axis) {
  const place = (signs) => project(onEdge(axis, signs, 0));
  return SIGNS.reduce((best, signs) => (axis === 2 ? place(signs)[0] < place(best)[0] : place(signs)[1] > place(best)[1]) ? signs : best);
}

function frame(context, project, cloud, axes, ink, line) {
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = ink;
  axes.forEach((name, axis) => {
    const rim = carrier(project, axis);
    for (const signs of SIGNS) {
      context.strokeStyle = signs === rim ? ink : line;
      context.beginPath();
      context.moveTo(...project(onEdge(axis, signs, -1)).slice(0, 2));
      context.lineTo(...project(onEdge(axis, signs, 1)).slice(0, 2));
      context.stroke();
    }
    const [low, high] = cloud.ranges[axis];
    for (const [text, value] of [[lab.number(low, 2), -0.84], [name, 0], [lab.number(high, 2), 0.84]]) {
      const [x, y] = project(onEdge(axis, rim, value, 1.17));
      context.fillText(text, x, y);
    }
  });
}

// A wireframe sphere around the cube's center: circles of latitude and longitude.
const CIRCLES = 9;
const CORNERS = 64;
function sphere(context, project, radius, line) {
  context.strokeStyle = line;
  const circle = (at) => {
    context.beginPath();
    for (let corner = 0; corner <= CORNERS; corner += 1) {
      const [x, y] = project(at((corner / CORNERS) * 2 * Math.PI).map((value) => value * radius));
      if (corner) context.lineTo(x, y);
      else context.moveTo(x, y);
    }
    context.stroke();
  };
  for (let number = 0; number < CIRCLES; number += 1) {
    const turn = (number / CIRCLES) * Math.PI;
    const [sin, cos] = [Math.sin(turn), Math.cos(turn)];
    circle((angle) => [Math.cos(angle) * cos, Math.cos(angle) * sin, Math.sin(angle)]);
    if (number) circle((angle) => [Math.cos(angle) * sin, Math.sin(angle) * sin, cos]);
  }
}

// Draws one cloud; `looks` has the color and marker of each class, `shown` tells whether it is visible.
lab.paintCloud = function (canvas, cloud, turn, axes, looks, shown, size) {
  const sharp = Math.max(devicePixelRatio || 1, 1.5);
  canvas.width = Math.round(size * sharp);
  canvas.height = Math.round(size * TALL * sharp);
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  const project = camera(turn, size);
  frame(context, project, cloud, axes, lab.css("--soft"), lab.css("--line"));
  if (cloud.sphere) sphere(context, project, cloud.sphere, lab.css("--line"));
  const colors = looks.map(({ variable }) => lab.css(variable));
  const shapes = looks.map(({ shape }) => new Path2D(lab.marker(shape, 3.4)));
  const far = cloud.points.filter((point) => shown(point[3])).map((point) => [...project(point), point[3]]).sort((a, b) => b[2] - a[2]);
  for (const [x, y, depth, kind] of far) {
    const near = 1 - (depth + 1.7) / 3.4;
    const zoom = 0.75 + near * 0.55;
    context.setTransform(sharp * zoom, 0, 0, sharp * zoom, x * sharp, y * sharp);
    context.globalAlpha = 0.45 + 0.5 * lab.clamp(near, 0, 1);
    context.fillStyle = colors[kind] ?? lab.css("--ink");
    context.fill(shapes[kind] ?? shapes[0]);
  }
  context.globalAlpha = 1;
};
