// A slider with a play button. Positions range from 0 to count − 1 and can be fractional while playing.
lab.player = function ({ count, position, name, text, onMove, onSettle, seconds = 6 }) {
  let at = lab.clamp(position, 0, count - 1);
  let frame = null;
  const slider = lab.el("input", { type: "range", min: 0, max: count - 1, step: 1, "aria-label": name, oninput: () => { pause(); move(Number(slider.value)); onSettle(at); } });
  const button = lab.el("button", { type: "button", class: "play", onclick: () => (frame === null ? play() : pause()) });
  const output = lab.el("output", { "aria-live": "off" });

  function label() {
    button.textContent = frame === null ? "▶ Play" : "❚❚ Pause";
    button.setAttribute("aria-label", `${frame === null ? "Play" : "Pause"}: ${name}`);
  }
  function move(to) {
    at = to;
    const moment = Math.round(at);
    slider.value = String(moment);
    slider.setAttribute("aria-valuetext", text(moment));
    output.textContent = text(moment);
    onMove(at);
  }
  function play() {
    if (at >= count - 1) move(0);
    const from = at;
    const start = performance.now();
    const speed = (count - 1) / (Math.max(seconds, Math.min(count, 4) * 0.5) * 1000);
    const tick = (now) => {
      const to = Math.min(from + Math.max(now - start, 0) * speed, count - 1);
      // With reduced motion the chart jumps from frame to frame instead of interpolating.
      move(lab.calm() ? Math.floor(to) : to);
      if (to < count - 1) frame = requestAnimationFrame(tick);
      else pause();
    };
    frame = requestAnimationFrame(tick);
    label();
  }
  function pause() {
    if (frame === null) return;
    cancelAnimationFrame(frame);
    frame = null;
    move(Math.round(at));
    onSettle(at);
    label();
  }
  label();
  move(at);
  lab.state.onSave(() => { if (frame !== null) pause(); });
  return {
    node: lab.el("div", { class: "player" }, button, slider, output),
    go(to) {
      pause();
      move(lab.clamp(to, 0, count - 1));
    },
  };
};
