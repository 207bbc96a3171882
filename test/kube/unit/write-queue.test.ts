/** Whose write to the API server goes when, and how many of them at once. */
import { expect, test } from "vitest";
import { WriteQueue } from "../../../kube/http/write-queue.ts";
import { ApiAway, type Priority } from "../../../kube/kube-api.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";
import { pause, until } from "../../harness/wait.ts";

/** Writes that end when the test says so. */
class Server {
  readonly time = new VirtualTime(1);
  readonly queue: WriteQueue;
  /** What was sent, in its order. */
  readonly sent: string[] = [];
  readonly #underWay: { readonly name: string; readonly end: () => void }[] = [];

  constructor(inFlightMax?: number) {
    this.queue = new WriteQueue(this.time.clock(), inFlightMax);
  }

  write(priority: Priority, name: string, deadlineMs = Number.POSITIVE_INFINITY): Promise<void> {
    return this.queue.run(priority, deadlineMs, async () => {
      this.sent.push(name);
      await new Promise<void>((end) => this.#underWay.push({ name, end }));
    });
  }

  writes(priority: Priority, count: number): Promise<unknown> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.write(priority, `${priority}${index}`)));
  }

  /** Ends the oldest one that is under way. */
  async endOne(): Promise<void> {
    this.#underWay.shift()?.end();
    await turn();
  }

  /** Until `all` has ended. Bottleneck takes real time to hand a place on. */
  async endAll(all: Promise<unknown>): Promise<void> {
    const ended = all.then(() => true);
    while (!(await Promise.race([ended, pause(1)]))) await this.endOne();
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("ADDs, DELs and housekeeping each have reserved slots, and share the others", async () => {
  const server = new Server(32);
  const all = Promise.all([server.writes("housekeeping", 40), server.writes("del", 40), server.writes("add", 40)]);
  const count = (priority: Priority) => server.sent.filter((name) => name.startsWith(priority)).length;
  expect([count("housekeeping"), count("del"), count("add")]).toEqual([8, 4, 16]);
  await until(() => server.sent.length === 32, "the shared places to be taken");
  await pause(50);
  expect(server.sent).toHaveLength(32);
  expect(count("housekeeping")).toBeLessThanOrEqual(10);
  await server.endAll(all);
  expect(server.sent).toHaveLength(120);
});

test("waiting writes are sent by priority, then in order of arrival", async () => {
  const server = new Server(1);
  const first = server.write("housekeeping", "first");
  await until(() => server.sent.length === 1, "the first write");
  const others = [server.write("del", "d1"), server.write("add", "a1"), server.write("del", "d2")];
  others.push(server.write("add", "a2"));
  await pause(50);
  await server.endAll(Promise.all([first, ...others]));
  expect(server.sent).toEqual(["first", "a1", "a2", "d1", "d2"]);
});

test("a thousand writes of housekeeping, eight at a time, wait for no timer between one another", async () => {
  const { queue } = new Server();
  let left = 1_000;
  const loop = async () => {
    for (; left > 0; left -= 1) await queue.run("housekeeping", Number.MAX_VALUE, async () => {});
  };
  // No timer fires until all are done: nothing waits longer than for what was resolved already.
  void Promise.all(Array.from({ length: 8 }, loop));
  await turn();
  expect(left).toBeLessThanOrEqual(0);
});

test("a failed write frees its slot", async () => {
  const { queue } = new Server(1);
  const fails = queue.run("add", Number.MAX_VALUE, () => Promise.reject(new Error("no")));
  const next = queue.run("add", Number.MAX_VALUE, async () => "done");
  await expect(fails).rejects.toThrow("no");
  expect(await next).toBe("done");
});

test("a write whose deadline has passed is not sent, and takes no slot", async () => {
  const server = new Server(1);
  const first = server.write("add", "first");
  await until(() => server.sent.length === 1, "the first write");
  const nowMs = server.time.clock().monotonicMs();
  const late = server.write("add", "late", nowMs + 100);
  const refused = expect(late).rejects.toThrow(ApiAway);
  const last = server.write("add", "last");
  await server.time.pass(200);
  await refused;
  await server.endAll(Promise.all([first, last]));
  expect(server.sent).toEqual(["first", "last"]);
});
