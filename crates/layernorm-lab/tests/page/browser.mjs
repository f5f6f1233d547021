// Controls headless Chromium over its debugging pipe, without any package.
import { spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell"];
const PATIENCE = 20_000; // milliseconds that an answer may take, if not told otherwise

function runs(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

// `first`, or a program with one of these names on the path; null if there is none.
export function executable(first, names) {
  const places = (process.env.PATH ?? "").split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)));
  return [first, ...places].filter(Boolean).find(runs) ?? null;
}

// $CHROMIUM, or a Chromium on the path; null if there is none.
export const find = () => executable(process.env.CHROMIUM, NAMES);

export async function start(program, { patience = PATIENCE } = {}) {
  const profile = mkdtempSync(join(tmpdir(), "layernorm-page-"));
  // No sandbox: containers often forbid it, and only our own page is opened.
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"];
  const child = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const [, , , input, output] = child.stdio;
  const waiting = new Map();
  const listeners = [];
  let last = 0;
  let rest = "";
  output.setEncoding("utf8");
  output.on("data", (chunk) => {
    const messages = (rest + chunk).split("\0");
    rest = messages.pop();
    for (const message of messages.map((text) => JSON.parse(text))) {
      if (message.id) waiting.get(message.id)?.(message);
      else listeners.forEach((listener) => listener(message));
    }
  });
  function send(method, params = {}, sessionId) {
    last += 1;
    const id = last;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method} took over ${patience} ms`)), patience);
      waiting.set(id, (message) => {
        clearTimeout(timer);
        waiting.delete(id);
        if (message.error) reject(new Error(`${method}: ${message.error.message}`));
        else resolve(message.result);
      });
      input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }
  return {
    send,
    listen: (listener) => listeners.push(listener),
    open: (url, options) => open({ send, listen: (listener) => listeners.push(listener) }, url, options),
    trace: (body) => trace({ send, listen: (listener) => listeners.push(listener) }, body),
    async close() {
      await send("Browser.close").catch(() => child.kill());
      await new Promise((resolve) => (child.exitCode === null ? child.once("exit", resolve) : resolve()));
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

// The tasks of a page's main thread while `body` runs, which returns the page: when each began, in microseconds, and its CPU time in
// milliseconds. Unlike durations, these hardly depend on what else the machine does. `at(name)` is when the page set a mark.
const MARK = "traced";
async function trace(browser, body) {
  const events = [];
  const ended = new Promise((done) => {
    browser.listen(({ method, params }) => {
      if (method === "Tracing.dataCollected") events.push(...params.value);
      if (method === "Tracing.tracingComplete") done();
    });
  });
  await browser.send("Tracing.start", { categories: "toplevel,blink.user_timing", transferMode: "ReportEvents" });
  const page = await body();
  await page.run(`performance.mark("${MARK}"); 0`);
  await browser.send("Tracing.end");
  await ended;
  // Other pages, such as that of a new tab, have main threads too.
  const own = events.find(({ name }) => name === MARK);
  const main = events.filter(({ pid, tid }) => pid === own.pid && tid === own.tid);
  const tasks = main.filter(({ name }) => name.endsWith("RunTask")).map(({ ts, tdur = 0 }) => ({ ts, cpu: tdur / 1000 }));
  return { page, tasks, at: (name) => main.find((event) => event.name === name)?.ts };
}

// A tab with its console messages and network requests.
const READY = 'document.documentElement?.hasAttribute("data-ready") ?? false';
async function open(browser, url, { width = 1280, height = 900, mobile = false, features = [], ready = READY, fresh = true } = {}) {
  const { targetId } = await browser.send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => browser.send(method, params, sessionId);
  const complaints = [];
  const requests = [];
  browser.listen(({ method, params, sessionId: from }) => {
    if (from !== sessionId) return;
    if (method === "Runtime.exceptionThrown") complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type)) complaints.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
    if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level)) complaints.push(params.entry.text);
    if (method === "Network.requestWillBeSent") requests.push(params.request.url);
  });
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
  await send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: mobile ? 2 : 1, mobile });
  await send("Emulation.setEmulatedMedia", { features });
  // What the page has kept in earlier tabs; a reader who comes back has it.
  if (fresh) await send("Storage.clearDataForOrigin", { origin: url.startsWith("file:") ? "file://" : new URL(url).origin, storageTypes: "local_storage" });
  await send("Page.navigate", { url });

  async function run(expression) {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }
  async function until(expression, what) {
    for (const end = Date.now() + PATIENCE; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 50))) if (await run(expression)) return;
    throw new Error(`never came: ${what}`);
  }
  const tasks = async (body) => (await trace(browser, async () => { await body(); return { run }; })).tasks.map(({ cpu }) => cpu);
  // The path of the file that is downloaded into a folder because of `body`.
  async function download(folder, body) {
    await browser.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder, eventsEnabled: true });
    const ended = new Promise((resolve, reject) => {
      let file = null;
      setTimeout(() => reject(new Error(`nothing was downloaded within ${PATIENCE} ms`)), PATIENCE).unref();
      browser.listen(({ method, params }) => {
        if (method === "Browser.downloadWillBegin") file ??= params;
        if (method !== "Browser.downloadProgress" || params.guid !== file?.guid) return;
        if (params.state === "completed") resolve(join(folder, file.suggestedFilename));
        if (params.state === "canceled") reject(new Error(`the download of ${file.suggestedFilename} was cancelled`));
      });
    });
    ended.catch(() => {});
    await body();
    return ended;
  }
  await until(ready, "a page that is ready");
  return { send, run, until, tasks, download, complaints, requests, close: () => browser.send("Target.closeTarget", { targetId }) };
}
