import { expect, test } from "vitest";
import { Namespaces } from "../../platform/namespaces.ts";
import { ManualClock } from "../harness/manual-clock.ts";

/** What is at paths, and what processes and mounts use; one namespace, "4:1", was seen at /run/netns/a. */
function seen(witnessed = true) {
  const clock = new ManualClock();
  const at = new Map<string, string | null>([["/run/netns/a", witnessed ? "4:1" : "4:9"]]);
  const inUse = new Set<string>();
  let looks = 0;
  const namespacesInUse = () => {
    looks += 1;
    return new Set(inUse);
  };
  const sight = {
    namespaceIdAt: (path: string) => at.get(path) ?? (at.has(path) ? null : ""),
    namespacesInUse,
  };
  const namespaces = new Namespaces(sight, clock);
  const a = namespaces.identify("/run/netns/a", "4:1");
  at.delete("/run/netns/a");
  return { clock, at, inUse, namespaces, a, looks: () => looks };
}

test("a namespace whose path is gone is elsewhere while a process or a mount has it, and gone after that", () => {
  const { clock, inUse, namespaces, a } = seen();
  inUse.add("4:1");
  expect(namespaces.stateOf(a)).toBe("elsewhere");
  inUse.clear();
  clock.nowMs += 2_000;
  expect(namespaces.stateOf(a)).toBe("gone");
});

test("a namespace that was seen to be gone stays gone when the kernel uses its number again", () => {
  const { clock, at, inUse, namespaces, a } = seen();
  expect(namespaces.stateOf(a)).toBe("gone");
  inUse.add("4:1");
  clock.nowMs += 2_000;
  expect(namespaces.stateOf(a)).toBe("gone");
  at.set("/run/netns/a", "4:1");
  expect(namespaces.stateOf(a)).toBe("alive");
});

test("a number that a later request has at another path is that container's", () => {
  const { at, inUse, namespaces, a } = seen();
  inUse.add("4:1");
  at.set("/run/netns/b", "4:1");
  const b = namespaces.identify("/run/netns/b", "4:1");
  expect([namespaces.stateOf(a), namespaces.stateOf(b)]).toEqual(["gone", "alive"]);
});

test("processes and mounts are looked at once a second at most, and not at all while paths are there", () => {
  const { at, clock, inUse, namespaces, a, looks } = seen();
  inUse.add("4:1");
  for (let i = 0; i < 1_000; i += 1) namespaces.stateOf(a);
  expect(looks()).toBe(1);
  clock.nowMs += 2_000;
  namespaces.stateOf(a);
  expect(looks()).toBe(2);
  at.set("/run/netns/a", "4:1");
  clock.nowMs += 2_000;
  namespaces.stateOf(a);
  expect(looks()).toBe(2);
});

test("nothing is said about a namespace that this daemon has not seen, or a path that it may not read", () => {
  expect(seen(false).namespaces.stateOf(seen(false).a)).toBe("unknown");
  const { at, namespaces, a } = seen();
  at.set("/run/netns/a", null);
  expect(namespaces.stateOf(a)).toBe("unknown");
  expect(namespaces.stateOf({ path: "/nowhere", id: "", witnessed: false })).toBe("never-there");
});
