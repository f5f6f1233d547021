// Quiz questions with immediate feedback.

lab.charts.quiz = function (chart, view) {
  const questions = chart.questions ?? [];
  if (!questions.length) return { empty: "There are no questions." };
  const saved = () => view.get("answers", "").split(",").map((text) => (/^\d+$/.test(text) ? Number(text) : null));
  let answers = saved();

  const shown = questions.map(({ text, options, right, why }, number) => {
    const name = lab.id("quiz");
    const inputs = options.map((_, index) => lab.el("input", { type: "radio", name, onchange: () => answer(number, index) }));
    const labels = options.map((option, index) => lab.el("label", { class: "option" }, inputs[index], lab.el("span", {}, option)));
    const verdict = lab.el("p", { class: "verdict", "aria-live": "polite" });
    const solution = lab.el("p", { class: "solution" }, `Answer: ${options[right] ?? "—"}. ${why}`);
    const node = lab.el("fieldset", { class: "question" }, lab.el("legend", {}, `${number + 1}. ${text}`), labels, verdict, solution);
    const refresh = () => {
      const chosen = answers[number] ?? null;
      inputs.forEach((input, index) => { input.checked = index === chosen; });
      labels.forEach((label, index) => {
        label.classList.toggle("right", chosen !== null && index === right);
        label.classList.toggle("wrong", chosen === index && index !== right);
      });
      verdict.textContent = chosen === null ? "" : `${chosen === right ? "✓ Correct." : "✕ Incorrect."} ${why}`;
    };
    refresh();
    return { node, refresh };
  });
  function answer(number, index) {
    answers = questions.map((_, other) => (other === number ? index : (answers[other] ?? null)));
    view.set("answers", answers.map((one) => one ?? "-").join(","));
    shown[number].refresh();
  }
  return {
    parts: [lab.el("div", { class: "quiz" }, shown.map(({ node }) => node))],
    restore() {
      answers = saved();
      shown.forEach(({ refresh }) => refresh());
    },
  };
};
