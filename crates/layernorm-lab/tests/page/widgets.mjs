// What a reader can press, open and drag outside the chapters' figures, with mouse and keys.
//   { name, body({ page, hand, expect, browser }), … } with options of the tab
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const figure = (id) => `[id="at:${id}"]`;
const near = (id) => `Math.abs(document.getElementById("at:${id}").getBoundingClientRect().top) < 200`;

const HERO = ".hero-figure";
const PICTURE = `[...document.querySelectorAll("${HERO} .hero-dot")].map((dot) => dot.getAttribute("cx")).join()`;
const moves = async (page) => { const before = await page.run(PICTURE); await page.until(`${PICTURE} !== ${JSON.stringify(before)}`, "a picture that moves"); };
const rests = async (page, expect, what) => { const before = await page.run(PICTURE); await wait(400); expect((await page.run(PICTURE)) === before, what); };

// Presses a button and waits for what it says then.
const press = async (hand, button, pattern) => { await hand.click(button); await hand.until(button, pattern); };

export const common = [
  {
    name: "the first picture can be paused, and three ways lead on",
    async body({ page, hand, expect }) {
      await hand.until(`${HERO} button`, /Pause/);
      await moves(page);
      await press(hand, `${HERO} button`, /Play/);
      await rests(page, expect, "the picture moves after a pause");
      await press(hand, `${HERO} button`, /Pause/);
      await moves(page);
      for (const [way, id] of [["learn", "why"], ["play", "play"], ["evidence", "evidence"]]) {
        await hand.click(`.way.${way}`);
        await page.until(`new URLSearchParams(location.hash.slice(1)).get("view") === "${id}" && ${near(id)}`, `the place of ${way}`);
      }
    },
  },
  {
    name: "the first picture is legible on a phone", width: 360, height: 780, mobile: true,
    async body({ page, expect }) {
      const heights = await page.run(`[...document.querySelectorAll(".hero-picture text")].map((text) => { const { fontSize } = getComputedStyle(text); return parseFloat(fontSize) * text.getScreenCTM().a; })`);
      expect(heights.length > 10 && heights.every((height) => height >= 11), `the text has ${Math.min(...heights)} pixels`);
    },
  },
  {
    name: "the first picture rests with reduced motion", features: [{ name: "prefers-reduced-motion", value: "reduce" }],
    async body({ page, hand, expect }) {
      // It shows the result.
      await hand.until(`${HERO} .hero-caption`, /After layer norm/);
      expect(/Play/.test(await hand.text(`${HERO} button`)), "the button of a picture that rests does not say Play");
      await rests(page, expect, "the picture moves");
      await press(hand, `${HERO} button`, /Pause/);
      await moves(page);
    },
  },
  {
    name: "every exercise has a hint and a solution, which open",
    async body({ page, hand, expect }) {
      const lacking = await page.run(`[...document.querySelectorAll(".exercise")].filter((one) => [...one.querySelectorAll(".help-row summary")].map((node) => node.textContent).join() !== "Hint,Solution" || [...one.querySelectorAll(".help-row p")].some((node) => node.textContent.length < 10)).map((one) => one.dataset.exercise)`);
      expect(lacking.length === 0, `no hint or solution: ${lacking}`);
      const help = (place) => `[data-exercise="by-hand"] .help-row details:nth-of-type(${place})`;
      const shown = (place) => page.run(`document.querySelector('${help(place)} p').checkVisibility()`);
      for (const place of [1, 2]) expect(!(await shown(place)), "a hint or solution is open from the start");
      await hand.click(`${help(1)} summary`);
      expect((await shown(1)) && !(await shown(2)), "a click does not open the hint");
      await hand.focus(`${help(2)} summary`);
      await hand.key("Enter");
      expect(await shown(2), "Enter does not open the solution");
      await hand.click(`${help(1)} summary`);
      expect(!(await shown(1)), "a click does not close the hint");
    },
  },
  {
    name: "the contents open and close on a phone", width: 360, height: 780, mobile: true,
    async body({ page, hand, expect }) {
      const open = () => page.run('document.querySelector(".contents details").open');
      expect(!(await open()), "the contents are open from the start");
      await hand.click(".contents summary");
      expect(await open(), "a click does not open the contents");
      await hand.click('.contents a[href="#view=affine"]');
      await page.until(near("affine"), "the chapter");
      expect(!(await open()), "the contents stay open after a link");
    },
  },
  {
    name: "a preset on a phone shows what it trains", width: 360, height: 780, mobile: true,
    async body({ page, hand, expect }) {
      const seen = (query) => page.run(`(({ top, bottom }) => [top, bottom])(document.querySelector('${figure("play/train")} ${query}').getBoundingClientRect())`);
      const fold = `${figure("play/train")} .play-fold`;
      expect(!(await page.run(`document.querySelector('${fold}').open`)), "the settings are open from the start");
      await hand.click(`${figure("play/train")} .play-preset`);
      await page.until("(lab.play.current.session()?.step ?? 0) > 20", "training");
      await page.until(`Math.abs(document.querySelector('${figure("play/train")} .play-watch').getBoundingClientRect().top) < 40`, "the sentence about the preset at the top");
      for (const query of [".play-start", ".play-curves svg"]) {
        const [top, bottom] = await seen(query);
        expect(top >= 0 && bottom <= 780, `${query} is from ${top} to ${bottom} of 780 pixels`);
      }
      await hand.click(`${fold} summary`);
      expect(await page.run(`document.querySelector('${fold}').open && document.querySelector('${fold} select').checkVisibility()`), "a click does not open the settings");
      expect((await page.run("document.documentElement.scrollWidth")) <= 360, "the settings are too wide");
    },
  },
  {
    name: "a command is copied",
    async body({ page, hand, expect, browser }) {
      const button = ".made .command .copy";
      const command = await page.run(`document.querySelector("${button}").parentElement.querySelector("code").textContent`);
      expect(/^layernorm verify --checksum/.test(command), `the command is “${command}”`);
      await browser.send("Browser.grantPermissions", { permissions: ["clipboardReadWrite", "clipboardSanitizedWrite"] });
      await press(hand, button, /Copied/);
      expect((await page.run("navigator.clipboard.readText()")) === command, "another text is copied");
      await hand.until(button, /^Copy$/);
      // Without the clipboard, the text is there to be copied by hand.
      await page.run('navigator.clipboard.writeText = () => Promise.reject(new Error("denied"))');
      await hand.click(button);
      await page.until(`document.activeElement.value === ${JSON.stringify(command)} && getSelection().toString() === ${JSON.stringify(command)}`, "the text to copy");
    },
  },
];

export const studies = [
  {
    name: "more runs are shown",
    async body({ page, hand, expect }) {
      const rows = () => page.run('document.querySelectorAll(".runs-table tbody tr").length');
      const all = await page.run('Number(document.querySelector(".runs > .remark").textContent.match(/of (\\d+) runs/)[1])');
      const first = await rows();
      await hand.click(".runs .more");
      expect(first < all && (await rows()) === Math.min(2 * first, all), `${first} of ${all} rows became ${await rows()}`);
      await hand.until(".runs > .remark", new RegExp(`; ${Math.min(2 * first, all)} shown`));
      for (let clicks = 0; (await rows()) < all && clicks < all / first; clicks += 1) await hand.click(".runs .more");
      expect((await rows()) === all && (await page.run('document.querySelector(".runs .more").hidden')), `${await rows()} of ${all} runs are shown`);
    },
  },
  {
    name: "a study's chart is played and scrubbed by hand",
    async body({ page, hand, expect }) {
      const [slider, button, output] = ["input[type=range]", ".play", "output"].map((part) => `${figure("compare/loss")} ${part}`);
      const drawn = `document.querySelector('${figure("compare/loss")} .plot clipPath rect').getAttribute("width")`;
      await hand.slide(slider, 0.3);
      const [early, width] = [await hand.text(output), Number(await page.run(drawn))];
      await hand.slide(slider, 0.8);
      expect((await hand.text(output)) !== early && Number(await page.run(drawn)) > width, `the curves are drawn up to ${await page.run(drawn)} after ${width}`);
      await hand.slide(slider, 0);
      await press(hand, button, /Pause/);
      const before = await hand.text(output);
      await page.until(`document.querySelector('${output}').textContent !== ${JSON.stringify(before)}`, "curves that grow");
      await press(hand, button, /Play/);
      const stopped = await page.run(drawn);
      await wait(250);
      expect((await page.run(drawn)) === stopped, "the curves grow after a pause");
      await page.until('location.hash.includes("compare.loss.at=")', "the place in the hash");
    },
  },
  {
    name: "a cloud is dragged", features: [{ name: "prefers-reduced-motion", value: "reduce" }],
    async body({ page, hand, expect }) {
      const cloud = figure("inside/cloud");
      const turn = async () => (await hand.text(`${cloud} output`)).match(/-?\d+/g).map(Number);
      const [yaw, pitch] = await turn();
      const [width, height] = await page.run(`(({ width, height }) => [width, height])(document.querySelector('${cloud} canvas').getBoundingClientRect())`);
      await hand.drag(`${cloud} canvas`, [0.3, 0.5], [0.5, 0.6]);
      // Half a degree a pixel.
      const [now, up] = await turn();
      expect(Math.abs(now - yaw - 0.1 * width) <= 1 && Math.abs(up - pitch - 0.05 * height) <= 1, `from ${yaw}°, ${pitch}° to ${now}°, ${up}°`);
      await page.until(`new URLSearchParams(location.hash.slice(1)).get("inside.cloud.turn") === "${now},${up}"`, "the turn in the hash");
      await press(hand, `${cloud} .player .play`, /Stop rotation/);
      await page.until(`document.querySelector('${cloud} output').textContent.startsWith("yaw ${now}°") === false`, "a turn by itself");
      await press(hand, `${cloud} .player .play`, /Rotate/);
    },
  },
];
