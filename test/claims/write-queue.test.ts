/** Whose write to the API server goes when, and how many of them at once. */
import { expect, test } from "vitest";
import { WriteQueue } from "../../kube/http/write-queue.ts";
import { ApiAway, type Priority } from "../../kube/kube-api.ts";
import { VirtualTime } from "../../platform/virtual-time.ts";

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
    return Promise.all(
      Array.from({ length: count }, (_, index) => this.write(priority, `${priority}${index}`)),
    );
  }

  /** Ends the oldest one that is under way. */
  async endOne(): Promise<void> {
    this.#underWay.shift()?.end();
    await turn();
  }

  async endAll(): Promise<void> {
    while (this.#underWay.length > 0) await this.endOne();
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("half of the places are for ADDs, and a quarter at most for housekeeping", async () => {
  const server = new Server(32);
  const all = [server.writes("housekeeping", 40), server.writes("del", 40), server.writes("add", 40)];
  await turn();
  const count = (priority: Priority) => server.sent.filter((name) => name.startsWith(priority)).length;
  expect([count("housekeeping"), count("del"), count("add")]).toEqual([8, 8, 16]);
  await server.endAll();
  await Promise.all(all);
  expect(server.sent).toHaveLength(120);
});

test("the most urgent write goes next, those of one priority in their order", async () => {
  const server = new Server(1);
  const all = [server.write("housekeeping", "first")];
  all.push(server.write("housekeeping", "h1"), server.write("del", "d1"), server.write("housekeeping", "h2"));
  all.push(server.write("add", "a1"), server.write("del", "d2"), server.write("add", "a2"));
  await server.endAll();
  await Promise.all(all);
  expect(server.sent).toEqual(["first", "a1", "a2", "d1", "d2", "h1", "h2"]);
});

test("a thousand writes of housekeeping wait for no timer between one another", async () => {
  const { queue } = new Server();
  let done = 0;
  const work = async () => {
    done += 1;
  };
  for (let count = 0; count < 1_000; count += 1) void queue.run("housekeeping", Number.MAX_VALUE, work);
  // Virtual time stands still: no timer fires.
  await turn();
  expect(done).toBe(1_000);
});

test("a place is free again after a write that failed", async () => {
  const { queue } = new Server(1);
  const fails = queue.run("add", Number.MAX_VALUE, () => Promise.reject(new Error("no")));
  const next = queue.run("add", Number.MAX_VALUE, async () => "done");
  await expect(fails).rejects.toThrow("no");
  expect(await next).toBe("done");
});

test("one whose deadline passes is not sent, and takes no place of others", async () => {
  const server = new Server(1);
  const first = server.write("add", "first");
  const nowMs = server.time.clock().monotonicMs();
  const late = server.write("add", "late", nowMs + 100);
  const refused = expect(late).rejects.toThrow(ApiAway);
  const last = server.write("add", "last");
  await server.time.pass(200);
  await refused;
  await server.endAll();
  await Promise.all([first, last]);
  expect(server.sent).toEqual(["first", "last"]);
});
