// Operates a page like a reader: real mouse and key events at the places where elements are.
const TRIES = 4; // of a click
const KEYS = { Enter: 13, Tab: 9, Escape: 27, " ": 32, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40, Home: 36, End: 35 };

export function hand(page) {
  const find = (query) => `document.querySelector(${JSON.stringify(query)})`;
  // The element's box in the window, after scrolling to it.
  async function box(query) {
    // Figures above may still be drawing, and a followed link may still be scrolling.
    const place = `JSON.stringify((() => { const node = ${find(query)}; if (!node) return null; node.scrollIntoView({ block: "center", behavior: "instant" }); const { x, y, width, height } = node.getBoundingClientRect(); return [x, y, width, height]; })())`;
    for (let before = null, tries = 0; tries < 40; tries += 1) {
      const now = await page.run(place);
      if (now === before) break;
      before = now;
      await new Promise((done) => setTimeout(done, 60));
    }
    const found = await page.run(`(() => { const node = ${find(query)}; if (!node) return null; node.scrollIntoView({ block: "center", behavior: "instant" }); const { x, y, width, height } = node.getBoundingClientRect(); return [x, y, width, height]; })()`);
    if (!found) throw new Error(`there is no ${query}`);
    return found;
  }
  const mouse = (type, x, y, buttons = 1) => page.send("Input.dispatchMouseEvent", { type, x, y, button: type === "mouseMoved" && !buttons ? "none" : "left", buttons, clickCount: type === "mouseMoved" ? 0 : 1 });
  async function press(x, y, to = [x, y]) {
    await mouse("mouseMoved", x, y, 0);
    await mouse("mousePressed", x, y);
    for (let step = 1; step <= 4 && (to[0] !== x || to[1] !== y); step += 1) await mouse("mouseMoved", x + ((to[0] - x) * step) / 4, y + ((to[1] - y) * step) / 4);
    await mouse("mouseReleased", ...to, 0);
  }
  return {
    // Clicks the centre of the first element of a CSS selector; again, like a reader, if the page moved below the pointer meanwhile.
    async click(query) {
      for (let tries = 0; tries < TRIES; tries += 1) {
        const [x, y, width, height] = await box(query);
        await page.run(`{ const node = ${find(query)}; window.clicked = false; addEventListener("click", (event) => { window.clicked = event.composedPath().includes(node); }, { capture: true, once: true }); }`);
        await press(x + width / 2, y + height / 2);
        // A page that the click has left knows nothing of it.
        if ((await page.run("window.clicked")) !== false) return;
      }
    },
    // Drags a slider's thumb from where it is to a fraction of its length.
    async slide(query, to) {
      const [x, y, width, height] = await box(query);
      const from = await page.run(`(() => { const { value, min, max } = ${find(query)}; return (value - min) / (max - min); })()`);
      const thumb = (part) => x + 8 + part * (width - 16);
      await press(thumb(from), y + height / 2, [thumb(to), y + height / 2]);
    },
    // Drags from one fraction of an element's box to another.
    async drag(query, [fx, fy], [tx, ty]) {
      const [x, y, width, height] = await box(query);
      await press(x + fx * width, y + fy * height, [x + tx * width, y + ty * height]);
    },
    async hover(query, [fx, fy] = [0.5, 0.5]) {
      const [x, y, width, height] = await box(query);
      await mouse("mouseMoved", x + fx * width, y + fy * height, 0);
    },
    // Replaces the text of a field.
    async type(query, text) {
      await box(query);
      await page.run(`{ const field = ${find(query)}; field.focus(); field.select(); }`);
      await page.send("Input.insertText", { text });
    },
    async focus(query) {
      await box(query);
      await page.run(`${find(query)}.focus()`);
    },
    // Presses a key of the focused element.
    async key(key) {
      const code = KEYS[key] ?? key.toUpperCase().charCodeAt(0);
      const text = key === "Enter" ? "\r" : key.length === 1 ? key : undefined;
      await page.send("Input.dispatchKeyEvent", { type: "keyDown", key, windowsVirtualKeyCode: code, text });
      await page.send("Input.dispatchKeyEvent", { type: "keyUp", key, windowsVirtualKeyCode: code });
    },
    // Chooses an option of a menu (a native one has no events of its own).
    async choose(query, value) {
      await box(query);
      await page.run(`{ const menu = ${find(query)}; menu.value = ${JSON.stringify(value)}; menu.dispatchEvent(new Event("change", { bubbles: true })); }`);
    },
    text: (query) => page.run(`${find(query)}?.textContent ?? null`),
    // Waits until a text of the page matches.
    until: (query, pattern) => page.until(`${pattern}.test(${find(query)}?.textContent ?? "")`, `${query} like ${pattern}`),
  };
}
