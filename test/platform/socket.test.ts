import { createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { closeServer, listen } from "../../platform/socket.ts";
import { systemClock } from "../../platform/time.ts";

const LOOPBACK = { host: "127.0.0.1", port: 0 };

/** A server that keeps its answers, and a client that has asked: its answer, or why there is none. */
async function asked() {
  const waiting: ServerResponse[] = [];
  let arrived = () => {};
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const server = createServer((_request, response) => {
    waiting.push(response);
    arrived();
  });
  await listen(server, LOOPBACK);
  const { port } = server.address() as AddressInfo;
  const answer = new Promise<number | string | undefined>((resolve) => {
    const sent = request({ host: "127.0.0.1", port, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on("error", (error: NodeJS.ErrnoException) => resolve(error.code));
    sent.end();
  });
  await arrival;
  return { server, answer, end: () => waiting[0]?.end() };
}

test("requests that arrived before a server closes are answered", async () => {
  const { server, answer, end } = await asked();
  const closed = closeServer(server, systemClock, 60_000);
  end();
  expect(await answer).toBe(200);
  await closed;
  expect(server.listening).toBe(false);
});

test("a client that is not answered within the grace is cut off", async () => {
  const { server, answer } = await asked();
  await closeServer(server, systemClock, 20);
  expect(await answer).toBe("ECONNRESET");
});

test("a server that never listened closes at once", async () => {
  await closeServer(createServer(), systemClock, 60_000);
});

test("an address that is taken is refused, and the server may listen elsewhere", async () => {
  const [first, second] = [createServer(), createServer()];
  await listen(first, LOOPBACK);
  const taken = { ...LOOPBACK, port: (first.address() as AddressInfo).port };
  await expect(listen(second, taken)).rejects.toThrow("EADDRINUSE");
  await listen(second, LOOPBACK);
  await Promise.all([first, second].map((server) => closeServer(server, systemClock, 0)));
});
