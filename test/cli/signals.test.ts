/**
 * What a signal does to a process of Holdfast. The daemon stands for all: platform/run-process.ts is one for the four.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

let daemon: TestDaemon | null = null;
afterEach(() => daemon?.stop());

/** A client that the daemon knows to send half of a request, and for whom it waits some seconds when it stops. */
async function halfRequest({ socket }: TestDaemon): Promise<void> {
  const client = connect(socket);
  client.on("error", () => {});
  await once(client, "connect");
  client.write("POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n");
  expect((await once(client, "data")).toString()).toContain("100 Continue");
}

test.each(["SIGTERM", "SIGINT"] as const)("%s stops the daemon cleanly", async (signal) => {
  daemon = await TestDaemon.start();
  expect(await daemon.end(signal)).toBe(0);
  expect(daemon.log).toContain(`"signal":"${signal}"`);
  expect(daemon.log).toMatch(/"msg":"stopped"/);
});

test.each([
  ["SIGTERM", "SIGTERM"],
  ["SIGTERM", "SIGINT"],
] as const)("after %s a second signal, %s, kills the stopping daemon at once", async (first, second) => {
  daemon = await TestDaemon.start();
  const { process: child } = daemon;
  await halfRequest(daemon);
  child.kill(first);
  await until(() => daemon?.log.includes('"msg":"stopping"') ?? false, "the first signal to be taken");
  const ended = once(child, "exit");
  child.kill(second);
  expect(await ended).toEqual([null, second]);
  expect(daemon.log).not.toContain('"msg":"stopped"');
});
