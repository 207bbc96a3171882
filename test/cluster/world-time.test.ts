/** When time passes in a world in memory, and when it stands still. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { interval, sleep } from "../../platform/time.ts";
import { call, run } from "../harness/daemon.ts";
import { WorldTime } from "../harness/world/world-time.ts";

/** A server in this process, with what it has not answered yet. */
async function server(): Promise<{ path: string; asked: ServerResponse[] }> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-time-"));
  const path = join(directory, "s.sock");
  const asked: ServerResponse[] = [];
  const listening = createServer((_request, answer) => void asked.push(answer)).listen(path);
  await once(listening, "listening");
  onTestFinished(() => {
    listening.closeAllConnections();
    listening.close();
    rmSync(directory, { recursive: true });
  });
  return { path, asked };
}

test("an hour passes at once, with everything that is due in it", async () => {
  const time = new WorldTime();
  let count = 0;
  interval(time.clock, 60_000, () => {
    count += 1;
  });
  await time.advance(3_600_500);
  expect([count, time.clock.monotonicMs()]).toEqual([60, 3_600_500]);
});

test("nothing passes while no test waits for the world", async () => {
  const time = new WorldTime();
  time.clock.timer(1, () => expect.unreachable("it fired"));
  await run("sleep", ["0.05"]);
  expect(time.clock.monotonicMs()).toBe(0);
});

test("it stands still while a process runs, and while a file is read", async () => {
  const time = new WorldTime();
  interval(time.clock, 1, () => {});
  await time.run(run("sleep", ["0.1"]));
  await time.run(Promise.all([1, 2, 3].map(() => readFile("/proc/self/status"))));
  expect(time.clock.monotonicMs()).toBe(0);
});

test("it passes while a server of this process has a request, and stands still until that is there and answered", async () => {
  const time = new WorldTime();
  const { path, asked } = await server();
  const answer = time.run(call(path, "POST", "/", "text"));
  await time.until(() => asked.length === 1, "the request");
  expect(time.clock.monotonicMs()).toBeLessThan(100);
  await time.run(sleep(time.clock, 5_000));
  const atMs = time.clock.monotonicMs();
  asked[0]?.end("done");
  expect(await answer).toMatchObject({ status: 200, body: "done" });
  expect(time.clock.monotonicMs()).toBe(atMs);
});

test("a request from a process that waits for an answer lets time pass, and its way there and back does not", async () => {
  const time = new WorldTime();
  const { path, asked } = await server();
  const ask = `require("node:http").get({ socketPath: "${path}" }, (answer) => answer.resume())`;
  let repliedMs = 0;
  const timer = interval(time.clock, 1_000, () => {
    if (asked.length === 0) expect.unreachable("time passes while the process starts");
    if (time.clock.monotonicMs() < 5_000) return;
    timer.cancel();
    repliedMs = time.clock.monotonicMs();
    asked[0]?.end("done");
  });
  expect(await time.run(run(process.execPath, ["-e", ask]))).toMatchObject({ code: 0, stderr: "" });
  expect([repliedMs, time.clock.monotonicMs()]).toEqual([5_000, 5_000]);
});

test("a process of its own sees the world's wall clock", async () => {
  const time = new WorldTime();
  await time.advance(10_000);
  const { stdout } = await run(process.execPath, ["-p", "Date.now()"], time.environment);
  expect(Math.abs(Number(stdout) - time.clock.wallMs())).toBeLessThan(60_000);
});
