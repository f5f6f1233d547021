// A proxy between a browser and a server of `layernorm serve`: it can cut all connections, hold answers back, and lead to another
// server, as a network or a restarted server would. The server sees its own name in every request.
import { connect, createServer } from "node:net";

const PATIENCE = 20_000; // milliseconds

// `url` is the address of a server; the proxy's is `url` of what is returned.
export async function proxy(url) {
  const { port, pathname } = new URL(url);
  let target = port;
  let isCut = false;
  let path = null; // answers to requests of it are held back
  let held = [];
  let told = () => {};
  const sockets = new Set();
  const listener = createServer((client) => {
    if (isCut) return client.destroy();
    const server = connect(target, "127.0.0.1");
    const [here, there] = [`127.0.0.1:${listener.address().port}`, `127.0.0.1:${target}`];
    for (const [socket, other] of [[client, server], [server, client]]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => { sockets.delete(socket); other.destroy(); });
    }
    client.on("data", (bytes) => {
      const text = bytes.toString("latin1");
      if (path && text.startsWith(`GET ${pathname}${path}`)) {
        server.pause();
        held.push(server);
        told();
      }
      server.write(Buffer.from(text.replaceAll(here, there), "latin1"));
    });
    server.on("data", (bytes) => client.write(bytes));
    return undefined;
  });
  await new Promise((done) => listener.listen(0, "127.0.0.1", done));
  const cut = () => { isCut = true; sockets.forEach((socket) => socket.destroy()); };
  return {
    url: `http://127.0.0.1:${listener.address().port}${pathname}`,
    cut,
    // Connects again, to this server.
    mend(other = url) {
      target = new URL(other).port;
      isCut = false;
    },
    hold(requests) { path = requests; },
    // Ends when an answer is held back.
    isHeld: () => (held.length ? Promise.resolve() : new Promise((done, failed) => {
      told = done;
      setTimeout(() => failed(new Error(`nobody asked for ${path}`)), PATIENCE).unref();
    })),
    release() {
      path = null;
      held.forEach((server) => server.resume());
      held = [];
    },
    close() {
      cut();
      listener.close();
    },
  };
}
