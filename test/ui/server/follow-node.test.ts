import { expect, test } from "vitest";
import type { Following } from "../../../admin/following.ts";
import { NodeFollower } from "../../../ui/follow-node.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";

/** A daemon's answers, and what a follower made of them. */
class FakeDaemon {
  readonly asked: string[] = [];
  allocations: Record<string, string[]> = {};
  history: object[] = [];
  away = false;
  readonly known = new Map<string, string>();
  readonly problems: unknown[] = [];
  synced = 0;

  readonly get = async (path: string, query: Readonly<Record<string, string | undefined>>) => {
    if (this.away) throw Object.assign(new Error("nobody answers"), { hint: "start it" });
    this.asked.push(query.network === undefined ? path : `${path} ${query.network}`);
    if (path === "/v1/history") return { items: this.history };
    if (path === "/v1/networks")
      return { items: Object.entries(this.allocations).map(([name, all]) => ({ name, count: all.length })) };
    const all = this.allocations[query.network as string] as string[];
    const from = Number(query.continue ?? 0);
    const items = all.slice(from, from + 2).map((address) => ({ network: query.network, address }));
    return { items, ...(from + 2 < all.length ? { continue: String(from + 2) } : {}) };
  };

  readonly following: Following = {
    networks: () => {},
    rowOf: ({ address }) => address,
    upsert: (name, row) => this.known.set(name, row),
    gone: (name) => this.known.delete(name),
    synced: () => {
      this.synced += 1;
    },
    problem: (problem) => this.problems.push(problem),
  };
}

async function following(act: (daemon: FakeDaemon, pass: (ms: number) => Promise<void>) => Promise<void>) {
  const time = new VirtualTime();
  const daemon = new FakeDaemon();
  const clock = time.clock();
  const life = new AbortController();
  await time.run(
    (async () => {
      const run = new NodeFollower(daemon.get, clock, daemon.following).run(life.signal);
      const pass = (ms: number) => new Promise<void>((resolve) => void clock.timer(ms, resolve));
      await pass(10);
      await act(daemon, pass);
      life.abort();
      await run;
    })(),
  );
}

test("reads everything once, page by page, then only the networks that changed", () =>
  following(async (daemon, pass) => {
    daemon.allocations = { blue: ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"], red: ["10.1.0.1/24"] };
    await pass(1_000);
    expect([...daemon.known.values()].sort()).toEqual(["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24", "10.1.0.1/24"]);
    expect(daemon.synced).toBeGreaterThan(0);
    daemon.asked.length = 0;
    daemon.allocations.red = ["10.1.0.2/24", "10.1.0.3/24"];
    await pass(1_000);
    expect(daemon.asked.filter((one) => one.startsWith("/v1/allocations"))).toEqual(["/v1/allocations red"]);
    expect([...daemon.known.values()].sort().slice(3)).toEqual(["10.1.0.2/24", "10.1.0.3/24"]);
  }));

test("a new period of the history is news, though every count is the same", () =>
  following(async (daemon, pass) => {
    daemon.history = [{ network: "blue", from: "1" }];
    daemon.allocations = { blue: ["10.0.0.1/24"], red: ["10.1.0.1/24"] };
    await pass(1_000);
    daemon.history = [{ network: "blue", from: "2" }, ...daemon.history];
    daemon.allocations.blue = ["10.0.0.9/24"];
    await pass(1_000);
    expect([...daemon.known.values()]).toEqual(["10.1.0.1/24", "10.0.0.9/24"]);
    // Its end alone is none.
    daemon.asked.length = 0;
    daemon.history = daemon.history.map((one) => ({ ...one, until: "3", endedBy: "DEL" }));
    await pass(1_000);
    expect(daemon.asked.filter((one) => one.startsWith("/v1/allocations"))).toEqual([]);
  }));

test("a network that is gone takes its allocations along", () =>
  following(async (daemon, pass) => {
    daemon.allocations = { blue: ["10.0.0.1/24"], red: ["10.1.0.1/24"] };
    await pass(1_000);
    daemon.allocations = { red: ["10.1.0.1/24"] };
    await pass(1_000);
    expect([...daemon.known.keys()]).toEqual(["red 10.1.0.1/24"]);
  }));

test("a daemon that does not answer is said to, and read again in whole once it does", () =>
  following(async (daemon, pass) => {
    daemon.allocations = { blue: ["10.0.0.1/24"] };
    await pass(1_000);
    daemon.away = true;
    await pass(1_000);
    expect(daemon.problems.at(-1)).toEqual({ message: "nobody answers", hint: "start it" });
    expect([...daemon.known.values()]).toEqual(["10.0.0.1/24"]);
    daemon.away = false;
    daemon.asked.length = 0;
    await pass(2_000);
    expect(daemon.problems.at(-1)).toBeNull();
    expect(daemon.asked).toContain("/v1/allocations blue");
  }));
