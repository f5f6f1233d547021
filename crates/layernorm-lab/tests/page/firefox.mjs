// Controls headless Firefox over Marionette, its own protocol, without any package.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { executable } from "./browser.mjs";

const PATIENCE = 60_000; // milliseconds
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// $FIREFOX, or a Firefox on the path; null if there is none.
export const find = () => executable(process.env.FIREFOX, ["firefox-esr", "firefox"]);

// The port that Firefox chose: it writes it into its preferences.
async function port(profile) {
  for (const end = Date.now() + PATIENCE; Date.now() < end; await wait(100)) {
    try {
      const found = /"marionette\.port", (\d+)/.exec(readFileSync(join(profile, "prefs.js"), "utf8"));
      if (found && +found[1]) return +found[1];
    } catch {
      // Firefox has not written the file yet.
    }
  }
  throw new Error(`Firefox did not start within ${PATIENCE} ms`);
}

// Sends commands and resolves their answers: "LENGTH:[0, id, command, parameters]" and "LENGTH:[1, id, error, result]".
async function connection(number) {
  const socket = connect(number, "127.0.0.1");
  const waiting = new Map();
  let rest = Buffer.alloc(0);
  let last = 0;
  const greeted = new Promise((done) => waiting.set(0, { resolve: done }));
  const fail = (error) => waiting.forEach(({ reject }) => reject?.(error));
  socket.on("error", fail);
  socket.on("close", () => fail(new Error("Firefox closed the connection")));
  socket.on("data", (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (let colon = rest.indexOf(":"); colon > 0; colon = rest.indexOf(":")) {
      const end = colon + 1 + Number(rest.subarray(0, colon));
      if (rest.length < end) return;
      const message = JSON.parse(rest.subarray(colon + 1, end));
      rest = rest.subarray(end);
      const [, id, error, result] = Array.isArray(message) ? message : [1, 0, null, message];
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      if (error) reject?.(new Error(`${error.error}: ${error.message}`));
      else resolve?.(result);
    }
  });
  await greeted;
  return function send(command, parameters = {}) {
    last += 1;
    const text = JSON.stringify([0, last, command, parameters]);
    return new Promise((resolve, reject) => {
      waiting.set(last, { resolve, reject });
      socket.write(`${Buffer.byteLength(text)}:${text}`);
    });
  };
}

// A Firefox with one tab.
export async function start(program) {
  const profile = mkdtempSync(join(tmpdir(), "layernorm-firefox-"));
  writeFileSync(join(profile, "user.js"), [
    'user_pref("marionette.port", 0);',
    'user_pref("app.update.disabledForTesting", true);',
    'user_pref("datareporting.policy.dataSubmissionEnabled", false);',
    'user_pref("toolkit.telemetry.reportingpolicy.firstRun", false);',
    'user_pref("network.captive-portal-service.enabled", false);',
    'user_pref("network.connectivity-service.enabled", false);',
    'user_pref("browser.safebrowsing.update.enabled", false);',
    "",
  ].join("\n"));
  const child = spawn(program, ["--headless", "--marionette", "--no-remote", "--profile", profile, "about:blank"], { stdio: "ignore" });
  const ended = new Promise((done) => child.once("exit", done));
  const send = await connection(await port(profile));
  await send("WebDriver:NewSession", { capabilities: { alwaysMatch: { pageLoadStrategy: "normal" } } });
  await send("WebDriver:SetTimeouts", { script: PATIENCE, pageLoad: PATIENCE });

  // The value of an expression in the page, or of what it promises. The page's policy forbids `eval`, so it is part of the script.
  async function run(expression) {
    const script = `const done = arguments[arguments.length - 1]; (async () => (${expression}))().then((value) => done({ value }), (error) => done({ error: String(error) }));`;
    const { value: { value, error } } = await send("WebDriver:ExecuteAsyncScript", { script, args: [], newSandbox: false, sandbox: null });
    if (error) throw new Error(`${expression}: ${error}`);
    return value ?? null;
  }
  async function open(url) {
    await send("WebDriver:Navigate", { url });
    const until = async (expression, what) => {
      for (const end = Date.now() + PATIENCE; Date.now() < end; await wait(50)) if (await run(expression)) return;
      throw new Error(`never came: ${what}`);
    };
    await until('document.documentElement?.hasAttribute("data-ready") ?? false', "a page that is ready");
    return { send, run, until };
  }
  return {
    send,
    open,
    async close() {
      await send("Marionette:Quit", { flags: ["eForceQuit"] }).catch(() => child.kill());
      await Promise.race([ended, wait(5000).then(() => child.kill("SIGKILL"))]);
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
