// A story: question, expectation, result, findings, charts, data, and the command to reproduce it.
const part = (name, ...children) => lab.el("div", { class: "part" }, lab.el("dt", {}, name), lab.el("dd", {}, ...children));

lab.command = function (text) {
  const button = lab.el("button", { type: "button", class: "copy", "aria-label": `Copy the command ${text}`, onclick: () => lab.copy(text, button) }, "Copy");
  // Break lines between words, not within an option.
  const words = text.split(" ").flatMap((word, index) => [index ? " " : "", lab.el("span", {}, word)]);
  return lab.el("div", { class: "command" }, lab.el("code", {}, words), button);
};

lab.copy = async function (text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Some browsers deny local files access to the clipboard; then show the text for manual copying.
    const field = lab.el("input", { type: "text", class: "by-hand", readonly: true, value: text, "aria-label": "Copy this text manually", onblur: () => field.remove() });
    button.after(field);
    field.select();
    return;
  }
  setTimeout(() => { button.textContent = before; }, 1500);
};

// The studies' figures are numbered apart from those of the chapters: S3.1 is the first one of the third study.
// `later(build)` may put off the building of a figure.
lab.story = function (story, number, later = (build) => build()) {
  const title = lab.id("title");
  const section = lab.el("section", { class: "story", id: lab.place(story.id), "data-story": story.id, "aria-labelledby": title },
    lab.el("h2", { id: title, tabindex: "-1" }, lab.el("span", { class: "count" }, String(number)), story.title),
    lab.el("dl", { class: "asked" },
      part("Question", story.question),
      story.expectation ? part("Expectation", story.expectation) : null,
      part("Result", story.answer)));
  if (story.findings?.length) section.append(lab.findings(story));
  (story.charts ?? []).forEach((chart, index) => {
    const place = lab.el("div", {});
    section.append(place);
    later(lab.bound(() => place.replaceWith(lab.figure(chart, story, `S${number}.${index + 1}`))));
  });
  if (story.numbers?.rows?.length)
    section.append(lab.el("div", { class: "numbers" }, lab.el("h3", {}, "Data"), lab.table(story.numbers, `Data: ${story.title}`), (story.numbers.notes ?? []).map((note) => lab.el("p", { class: "remark" }, note))));
  if (story.notes?.length) section.append(lab.el("ul", { class: "notes" }, story.notes.map((note) => lab.el("li", {}, note))));
  if (story.reproduce) section.append(lab.el("div", { class: "again" }, lab.el("h3", {}, "Reproduce"), lab.command(story.reproduce)));
  return section;
};
