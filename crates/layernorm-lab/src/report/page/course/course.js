// Puts the chapters in place: their texts are HTML in the page, their figures and exercises come from the chapters' scripts.
//
//   lab.chapter("why", { figures: { drift: { title, see, make(view) } }, exercises: [{ id, kind, … }] })
//
// In the HTML, <div data-figure="drift"></div> and <div class="exercise" data-exercise="id">question</div> are their places.
const chapters = {};
lab.chapter = (id, parts) => { chapters[id] = parts; };

lab.course = function () {
  const sections = [...document.getElementById("chapters").content.cloneNode(true).querySelectorAll("section.chapter")];
  sections.forEach((section, index) => {
    const id = section.dataset.chapter;
    const number = index + 1;
    section.id = lab.place(id);
    section.dataset.story = id;
    const heading = section.querySelector("h2");
    heading.id = lab.id("chapter");
    heading.tabIndex = -1;
    section.setAttribute("aria-labelledby", heading.id);
    heading.prepend(lab.el("span", { class: "chapter-number", "aria-hidden": "true" }, String(number)));
    const { figures = {}, exercises = [] } = chapters[id] ?? {};
    section.querySelectorAll("[data-figure]").forEach((place, at) => {
      const name = place.dataset.figure;
      const figure = figures[name];
      if (!figure) throw new Error(`chapter ${id} has no figure ${name}`);
      place.replaceWith(lab.figure({ id: name, kind: "live", ...figure }, { id }, `${number}.${at + 1}`));
    });
    section.querySelectorAll("[data-exercise]").forEach((place, at) => {
      const exercise = exercises.find((one) => one.id === place.dataset.exercise);
      if (!exercise) throw new Error(`chapter ${id} has no exercise ${place.dataset.exercise}`);
      lab.exercise(place, id, exercise, `${number}.${at + 1}`);
    });
    // Links to studies that this report does not have are plain text.
    section.querySelectorAll("a[data-study]").forEach((link) => {
      if (lab.hasStory(link.dataset.study.split("/")[0])) link.href = `#view=${encodeURIComponent(link.dataset.study)}`;
      else link.replaceWith(lab.el("span", { title: "This report does not have this study" }, link.textContent));
    });
  });
  return sections;
};
