import { expect, test } from "vitest";
import type { NotFound } from "../../guests/port-lookup.ts";
import { type FoundPort, PortSearch } from "../../guests/port-search.ts";
import { systemClock } from "../../platform/time.ts";
import { pause, until } from "../harness/wait.ts";

const NONE: NotFound = { kind: "pending", problem: "there is none" };
const FOUND: FoundPort = {
  kind: "found",
  port: { driver: "ingress", link: "veth1", ifindex: 7, door: "main" },
  mac: "02:00:00:00:00:01",
  space: { netns: "/run/netns/guest", id: null },
};

test("the second of two attachments at one link is reported, and searched for again", async () => {
  const owned = new Set<string>();
  const taken: NotFound = { kind: "pending", problem: "veth1 is the port of another attachment" };
  const search = new PortSearch(
    systemClock,
    () => Promise.resolve(FOUND),
    (key) => {
      if (owned.size > 0) return taken;
      owned.add(key);
      return null;
    },
  );
  const keys = new Set(["a", "b"]);
  search.want(keys, false);
  await search.firstSettled();
  expect([...owned]).toEqual(["a"]);
  expect(search.problemOf("b")).toEqual(taken);
  await until(() => search.isDue, "the next search");
  owned.clear();
  search.want(new Set(["b"]), false);
  await until(() => owned.has("b"), "the link to be free");
});

test("one that is wanted otherwise than before is new, whatever the search under way comes to", async () => {
  const ends: ((found: NotFound) => void)[] = [];
  const search = new PortSearch(
    systemClock,
    () => new Promise((resolve) => ends.push(resolve)),
    () => null,
  );
  const keys = new Set(["a"]);
  search.want(keys, false);
  search.forget("a");
  search.want(keys, false);
  expect(ends).toHaveLength(2);
  ends[0]?.({ kind: "final", problem: "it was a macvlan interface" });
  await pause(10);
  expect(search.problemOf("a")).toBeNull();
  ends[1]?.(NONE);
  await search.firstSettled();
  expect(search.problemOf("a")).toEqual(NONE);
});

test("a failed search gets its turn, however many slow ones were before it", async () => {
  const seen: string[] = [];
  const search = new PortSearch(
    systemClock,
    async (key) => {
      seen.push(key);
      if (key !== "late" || !seen.slice(0, -1).includes("late")) return pause(50).then(() => NONE);
      return FOUND;
    },
    () => null,
  );
  const slow = Array.from({ length: 12 }, (_, at) => `slow${at}`);
  const keys = new Set([...slow, "late"]);
  search.want(keys, false);
  await search.firstSettled();
  await until(() => search.isDue, "repeats");
  // All of them are due, again and again.
  while (seen.filter((key) => key === "late").length < 2) {
    search.want(keys, true);
    await pause(20);
    expect(seen.length).toBeLessThan(13 * 4);
  }
});
