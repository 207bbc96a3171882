import { describe, expect, test } from "vitest";
import { UsedSpaces } from "../../../allocations/used-spaces.ts";
import type { CachedAllocation } from "../../../claims/reasons/caches.ts";
import { NetworkStatus, type NetworkStatusOptions } from "../../../controller/network-status.ts";
import { DefinitionCatalog } from "../../../networks/definition-catalog.ts";
import { projectNad } from "../../../networks/nad-view.ts";
import type { KubeObject } from "../../harness/kube-api.ts";
import { ManualClock } from "../../harness/manual-clock.ts";

/** A NetworkAttachmentDefinition that defines network blue. */
function nad(namespace: string, subnet = "10.31.0.0/24") {
  const metadata = { namespace, name: "blue", uid: `uid-${namespace}`, resourceVersion: "1" };
  const ipam = { type: "holdfast-ipam", subnet };
  const config = JSON.stringify({ name: "blue", type: "bridge", ipam });
  return projectNad({
    metadata: { ...metadata, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { config },
  });
}

function allocation(address: string, state: string): CachedAllocation {
  const metadata = { name: address, resourceVersion: "1" };
  const object = { metadata, spec: { network: "blue", owner: { kind: "Pod" } }, status: { state } };
  return { key: address, uid: address, resourceVersion: "1", object, address } as unknown as CachedAllocation;
}

describe("what is taken of a network", () => {
  test("is written when it changes, and again while it is full", async () => {
    const { written, pass, clock, usedSpaces } = publishing();
    await pass();
    expect(written).toHaveLength(1);
    for (let seconds = 0; seconds < 60; seconds += 1) await pass(1_000);
    expect(written).toHaveLength(1);
    for (let last = 1; last <= 6; last += 1) {
      const { object, address } = allocation(`10.31.0.${last}`, "Bound");
      usedSpaces.upsert(object, address);
    }
    for (let seconds = 0; seconds < 60; seconds += 1) await pass(1_000);
    const fromMs = clock.wallMs() - 60_000;
    const stamps = written.slice(1).map((one) => Date.parse(one.status.usedSpace.observed));
    expect(stamps.every((one) => one >= fromMs)).toBe(true);
    expect(stamps.length).toBeGreaterThanOrEqual(5);
    expect(stamps.length).toBeLessThanOrEqual(8);
  });

  test("is not written again and again where the definition has no place for it", async () => {
    const { written, pass } = publishing({ drops: true });
    for (let seconds = 0; seconds < 60; seconds += 1) await pass(1_000);
    expect(written).toHaveLength(1);
  });
});

/** A network of six addresses, and what its IPNetwork gets written. */
function publishing({ drops = false } = {}) {
  const clock = new ManualClock();
  const definitions = new DefinitionCatalog(clock);
  definitions.setOwner("blue", { definedIn: "shop", sharedWith: [] });
  definitions.upsert(nad("shop", "10.31.0.0/29"));
  const usedSpaces = new UsedSpaces();
  const written: KubeObject[] = [];
  const items = new Map<string, { object: KubeObject }>();
  const send = async ({ body }: { body: KubeObject }) => {
    const { usedSpace: _, ...others } = body.status;
    const status = drops ? others : body.status;
    const object = { metadata: { name: "blue", resourceVersion: "1" }, spec: { network: "blue" }, status };
    items.set("blue", { object });
    written.push(body);
    return { status: 200, body: object, serverMs: null };
  };
  const status = new NetworkStatus({
    ...{ api: { clock, send }, definitions, idle: () => null, log: { warn: () => {} } },
    allocations: { known: true, items: new Map() },
    ...{ usedSpaces, serverMs: () => clock.wallMs(), networks: { known: true, items } },
  } as unknown as NetworkStatusOptions);
  const pass = (ms = 0) => {
    clock.nowMs += ms;
    return status.runPass(new AbortController().signal, { writes: true });
  };
  return { written, pass, clock, usedSpaces };
}

describe("the counts of a network", () => {
  test("are those of now when its owner's definition is there again, though others named it all the while", async () => {
    const clock = new ManualClock();
    const definitions = new DefinitionCatalog(clock);
    definitions.setOwner("blue", { definedIn: "shop", sharedWith: [] });
    definitions.upsert(nad("shop"));
    definitions.upsert(nad("bank"));
    const usedSpaces = new UsedSpaces();
    const [bound, cooling] = [allocation("10.31.0.5", "Bound"), allocation("10.31.0.6", "Cooling")];
    for (const { object, address } of [bound, cooling]) usedSpaces.upsert(object, address);
    const status = new NetworkStatus({
      ...{ api: { clock }, definitions, idle: () => null, log: { warn: () => {} } },
      allocations: { known: true, items: new Map() },
      ...{ usedSpaces, serverMs: () => clock.wallMs() },
      networks: { known: true, items: new Map() },
    } as unknown as NetworkStatusOptions);
    const counted = async () => {
      await status.runPass(new AbortController().signal, { writes: false });
      const { allocated, cooling } = status.counts.get("blue")?.counts ?? {};
      return { allocated, cooling };
    };
    expect(await counted()).toEqual({ allocated: 1n, cooling: 1n });

    definitions.remove("shop/blue");
    expect(await counted()).toEqual({});
    usedSpaces.gone(cooling.object, cooling.address);
    expect(await counted()).toEqual({});

    definitions.upsert(nad("shop"));
    expect(await counted()).toEqual({ allocated: 1n, cooling: 0n });
  });
});
