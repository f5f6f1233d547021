// 3-D scatter plots side by side that rotate together: automatically, by dragging and by arrow keys.
const START = { yaw: 32, pitch: 22 };
const SPEED = 9; // degrees per second
const HELP = "Drag or use the arrow keys to rotate.";

// Rotates by dragging and by arrow keys. `by` turns by degrees, `stop` ends the automatic rotation and saves the view.
function rotates(canvas, by, stop, turning) {
  let from = null;
  canvas.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return;
    if (turning()) stop();
    by((event.clientX - from[0]) * 0.5, (event.clientY - from[1]) * 0.5);
    from = [event.clientX, event.clientY];
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { if (from && !turning()) stop(); from = null; });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-6, 0], ArrowRight: [6, 0], ArrowUp: [0, 6], ArrowDown: [0, -6] }[event.key];
    if (!step) return;
    event.preventDefault();
    by(...step);
    stop();
  });
}

lab.charts.scatter3d = function (chart, view) {
  const reach = chart.equal ? lab.reach(chart.panels ?? []) : null;
  const panels = (chart.panels ?? []).map((panel) => ({ name: panel.name, sphere: panel.sphere, cloud: lab.cube(panel.points ?? [], reach, panel.sphere) }));
  if (!panels.some(({ cloud }) => cloud.points.length)) return { empty: "There are no finite points to draw." };
  const looks = lab.looks(chart.classes);
  const legend = lab.legend(looks, "point", view);
  const heading = ({ name, sphere, cloud }) => (cloud.sphere ? `${name} (sphere: ${lab.number(sphere, 3)})` : name);
  const lost = panels.reduce((sum, { cloud }) => sum + cloud.lost, 0);
  const canvases = panels.map(({ name }) => lab.el("canvas", { tabindex: "0", role: "img", "aria-label": `${name}: points in 3-D. ${HELP}` }));
  const holder = lab.el("div", { class: "panels clouds" }, panels.map((panel, index) => lab.el("div", { class: "panel" }, lab.el("h4", {}, heading(panel)), canvases[index])));
  const button = lab.el("button", { type: "button", class: "play", onclick: () => (turning() ? stop() : begin()) });
  const output = lab.el("output", { "aria-live": "off" });
  let turn = saved();
  let size = 0;
  let frame = null;
  let visible = false;
  let wanted = view.get("turn") === null && !lab.calm();

  function saved() {
    const [yaw, pitch] = (view.get("turn") ?? "").split(",").map(Number);
    return lab.isNumber(yaw) && lab.isNumber(pitch) && view.get("turn") ? { yaw, pitch } : { ...START };
  }
  function turning() {
    return wanted;
  }
  function paint() {
    output.textContent = `yaw ${Math.round(turn.yaw)}°, pitch ${Math.round(turn.pitch)}°`;
    if (size > 0) panels.forEach(({ cloud }, index) => lab.paintCloud(canvases[index], cloud, turn, chart.axes, looks, legend.shown, size));
  }
  function label() {
    button.textContent = wanted ? "❚❚ Stop rotation" : "▶ Rotate";
    button.setAttribute("aria-pressed", String(wanted));
  }
  function by(yaw, pitch) {
    turn = { yaw: (((turn.yaw + yaw) % 360) + 360) % 360, pitch: lab.clamp(turn.pitch + pitch, -90, 90) };
    paint();
  }
  function run() {
    if (frame !== null || !wanted || !visible) return;
    let last = performance.now();
    const tick = (now) => {
      by((Math.max(now - last, 0) / 1000) * SPEED, 0);
      last = now;
      frame = wanted && visible ? requestAnimationFrame(tick) : null;
    };
    frame = requestAnimationFrame(tick);
  }
  function begin() {
    wanted = true;
    view.set("turn", null);
    label();
    run();
  }
  function stop() {
    wanted = false;
    if (frame !== null) cancelAnimationFrame(frame);
    frame = null;
    turn = { yaw: Math.round(turn.yaw), pitch: Math.round(turn.pitch) };
    view.set("turn", `${turn.yaw},${turn.pitch}`);
    label();
    paint();
  }
  for (const canvas of canvases) rotates(canvas, by, stop, turning);
  new IntersectionObserver((entries) => {
    visible = entries.at(-1).isIntersecting;
    run();
  }).observe(holder);
  lab.state.onSave(() => { if (wanted && visible) stop(); });
  label();
  return {
    parts: [legend.node, holder, lab.el("div", { class: "player" }, button, output, lab.el("span", { class: "help" }, HELP))],
    notes: [chart.equal ? "All axes of all plots have the same scale; the numbers on the axes are its ends. Each sphere is around 0; its radius is in the heading." : "Each plot has its own scale; the numbers on the axes are the ranges.", ...(lost ? [`${lab.count(lost, "point")} without finite coordinates ${lost === 1 ? "is" : "are"} not drawn.`] : [])],
    draw(width) {
      const columns = Math.max(1, Math.min(panels.length, Math.floor((width + 20) / 260)));
      size = Math.min(Math.floor((width - 20 * (columns - 1)) / columns), 440);
      holder.style.setProperty("--columns", columns);
      paint();
    },
    restore() {
      legend.refresh();
      if (view.get("turn") === null) return;
      turn = saved();
      stop();
    },
    table: () => ({
      columns: ["plot", "axis", "min.", "max.", "points"],
      rows: panels.flatMap(({ name, cloud }) => chart.axes.map((axis, index) => [name, axis, ...(cloud.points.length ? cloud.ranges[index] : [null, null]), cloud.points.length])),
    }),
  };
};
