/** host-local's files on a node of a cluster, where another node or a pod may have an address of theirs. */
import { existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { reserveInUse } from "../../claims/import/create-allocation.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "../../kube/objects.ts";
import { importLeases } from "../../store/host-local/report.ts";
import { StoreNode } from "./store-node.ts";
import { BOOT, detachWant, want } from "./subjects.ts";

let node: StoreNode;

beforeEach(async () => {
  node = new StoreNode();
  node.reportBoot(BOOT);
  node.definitions.set("blue", want("any").definition);
  mkdirSync(join(node.hostLocalDir, "blue"));
  await open();
});

async function open(): Promise<void> {
  await node.open();
  await node.store.recoverJournal();
}

/** As host-local writes it. */
function lease(address: string, container: string, interfaceName = "eth0"): string {
  const path = join(node.hostLocalDir, "blue", address);
  writeFileSync(path, container === "" ? "" : `${container}\r\n${interfaceName}`);
  return path;
}

/** Another node records an address for a container of its own at the moment in which this node creates the object. */
function loseCreatesOf(container: string, addresses: readonly string[], by = "on-b"): void {
  const left = new Set(addresses.map((address) => `${address}/29`));
  node.api.before = async ({ method, body, path, priority, deadlineMs }) => {
    if (method !== "POST") return;
    const object = body as IPAllocation;
    if (object.spec.owner.uid !== container || !left.delete(object.spec.address)) return;
    const text = JSON.stringify(object).replaceAll(container, by).replaceAll("node-a", "node-b");
    await node.api.send({ method, path, priority, deadlineMs, body: JSON.parse(text) });
  };
}

/** What an import of a pod that ran before leaves: no container of it is known. */
async function importPod(name: string, address: string, interfaceName = "eth0"): Promise<void> {
  const one = { address: parseAddress(address), prefixLength: 29 };
  const owner = {
    kind: "Pod",
    namespace: "shop",
    name,
    uid: `${name}-uid`,
    interface: interfaceName,
  } as const;
  await reserveInUse(node.api, "blue", one, { owner, attachment: null });
}

async function housekeeping(): Promise<void> {
  node.clock.nowMs += 100;
  await node.store.housekeeping(1_000);
  await node.store.drainOutbox();
}

async function report(dryRun = true): Promise<string[]> {
  node.clock.nowMs += 100;
  const { items } = await importLeases(node.store.hostLocal, { dryRun });
  return items.map(({ address, action, detail }) => `${address} ${action} ${detail}`.trim());
}

async function problems(): Promise<string[]> {
  const found = await node.store.check();
  return found.filter(({ invariant }) => invariant === "host-local").map(({ message }) => message);
}

/** `container: addresses` of the journal. */
function journal(): string[] {
  return node.store
    .attachmentsAfter(0, 1_000)
    .map(({ containerId, ips }) => `${containerId}: ${ips.map(({ address }) => address).join()}`)
    .sort();
}

describe("an address that another node recorded first", () => {
  test("is reported, and the file of the running container is kept", async () => {
    const file = lease("10.0.0.5", "old-1");
    loseCreatesOf("old-1", ["10.0.0.5"]);
    await node.added(want("new-1", { pod: "p1" }));
    expect(node.bound).toContain("10.0.0.5/29: on-b.eth0");
    expect(journal()).toEqual(["new-1: 10.0.0.6/29"]);
    const conflict = expect.stringContaining(
      "container old-1 (eth0) has the address, which is held by container on-b (eth0)",
    );
    expect(node.said).toContainEqual(conflict);
    expect(node.said).not.toContainEqual(expect.stringContaining("are taken over"));
    expect(await report()).toEqual(["10.0.0.5 conflict held by container on-b (eth0)"]);
    expect(await problems()).toEqual([
      expect.stringMatching(/10\.0\.0\.5 of network blue is held by .*on-b/),
    ]);
    await housekeeping();
    await open();
    await housekeeping();
    expect(await report(false)).toEqual(["10.0.0.5 conflict held by container on-b (eth0)"]);
    expect(existsSync(file)).toBe(true);
    expect(node.bound).toContain("10.0.0.5/29: on-b.eth0");
  });

  test("is recorded for this node's container once the other node has released it", async () => {
    const file = lease("10.0.0.5", "old-1");
    loseCreatesOf("old-1", ["10.0.0.5"]);
    await node.added(want("new-1", { pod: "p1" }));
    const object = node.allocations.find(({ spec }) => spec.address === "10.0.0.5/29") as IPAllocation;
    node.api.remove(objectPath(ALLOCATIONS_PATH, object.metadata.name));
    await node.store.hint.refresh();
    await node.added(want("new-2", { pod: "p2" }));
    expect(node.bound).toContain("10.0.0.5/29: old-1.eth0");
    expect(journal()).toContain("old-1: 10.0.0.5/29");
    expect(existsSync(file)).toBe(true);
  });

  test("does not affect the container's other addresses", async () => {
    for (const address of ["10.0.0.3", "10.0.0.4", "10.0.0.5"]) lease(address, "old-1");
    loseCreatesOf("old-1", ["10.0.0.3", "10.0.0.4"]);
    await node.added(want("new-1", { pod: "p1" }));
    expect(journal()).toEqual(["new-1: 10.0.0.6/29", "old-1: 10.0.0.5/29"]);
    expect((await report()).sort()).toEqual([
      "10.0.0.3 conflict held by container on-b (eth0)",
      "10.0.0.4 conflict held by container on-b (eth0)",
      "10.0.0.5 recorded-before",
    ]);
    await housekeeping();
    await node.store.detach(detachWant("old-1"));
    await node.store.drainOutbox();
    expect(node.bound.sort()).toEqual([
      "10.0.0.3/29: on-b.eth0",
      "10.0.0.4/29: on-b.eth0",
      "10.0.0.6/29: new-1.eth0",
    ]);
  });

  test("is not shared by two nodes whose files name no container", async () => {
    const file = lease("10.0.0.5", "");
    // The other node's daemon has the same name for such a container.
    loseCreatesOf("host-local-10.0.0.5", ["10.0.0.5"], "host-local-10.0.0.5");
    await node.added(want("new-1", { pod: "p1" }));
    expect(journal()).toEqual(["new-1: 10.0.0.6/29"]);
    expect(await report()).toEqual([expect.stringMatching(/^10\.0\.0\.5 conflict /)]);
    rmSync(file);
    await housekeeping();
    expect(node.bound).toContain("10.0.0.5/29: host-local-10.0.0.5.");
  });
});

test("an address whose file named no container at first is its container's afterwards, and is kept", async () => {
  const file = lease("10.0.0.5", "");
  await node.added(want("new-1", { pod: "p1" }));
  expect(node.bound).toContain("10.0.0.5/29: host-local-10.0.0.5.");
  lease("10.0.0.5", "old-1");
  node.clock.nowMs += 100;
  await node.added(want("new-2", { pod: "p2" }));
  for (let look = 0; look < 3; look += 1) {
    await housekeeping();
    expect(existsSync(file)).toBe(true);
  }
  expect(node.bound).toContain("10.0.0.5/29: old-1.eth0");
  await node.store.detach(detachWant("old-1"));
  await node.store.drainOutbox();
  expect(existsSync(file)).toBe(false);
  expect(node.bound).toHaveLength(2);
});

test("a file that is touched, or written again for the same container, frees nothing at any moment", async () => {
  lease("10.0.0.3", "old-1");
  lease("10.0.0.4", "");
  lease("10.0.0.5", "old-2");
  await node.added(want("new-1", { pod: "p1" }));
  const cooled: string[] = [];
  node.api.before = async ({ method, body }) => {
    const { spec, status } = (body ?? {}) as Partial<IPAllocation>;
    if (method === "PUT" && status?.state !== "Bound") cooled.push(spec?.address ?? "");
  };
  utimesSync(join(node.hostLocalDir, "blue", "10.0.0.3"), 1, 1);
  lease("10.0.0.4", "old-3");
  rmSync(join(node.hostLocalDir, "blue", "10.0.0.5"));
  await housekeeping();
  await housekeeping();
  expect(cooled).toEqual(["10.0.0.5/29"]);
  expect(node.bound).toEqual(expect.arrayContaining(["10.0.0.3/29: old-1.eth0", "10.0.0.4/29: old-3.eth0"]));
  expect(journal()).toEqual(expect.arrayContaining(["old-1: 10.0.0.3/29", "old-3: 10.0.0.4/29"]));
  expect(journal()).toHaveLength(3);
  for (const address of ["10.0.0.3", "10.0.0.4"])
    expect(existsSync(join(node.hostLocalDir, "blue", address))).toBe(true);
  expect(node.said).not.toContainEqual(expect.stringContaining("held by"));
  expect(await problems()).toEqual([]);
});

test("a file that names another container than before moves its address to it in one write", async () => {
  const file = lease("10.0.0.5", "old-1");
  await node.added(want("new-1", { pod: "p1" }));
  const written: string[] = [];
  node.api.before = async ({ method, body }) => {
    const { spec, status } = (body ?? {}) as Partial<IPAllocation>;
    if (method === "PUT") written.push(`${spec?.address} ${status?.state} ${spec?.owner.uid}`);
  };
  rmSync(file);
  lease("10.0.0.5", "old-2");
  await housekeeping();
  await housekeeping();
  expect(written).toEqual(["10.0.0.5/29 Bound old-2"]);
  expect(node.bound).toContain("10.0.0.5/29: old-2.eth0");
  expect(journal()).toContain("old-2: 10.0.0.5/29");
  expect(node.said).not.toContainEqual(expect.stringContaining("held by"));
  expect(existsSync(file)).toBe(true);
  expect(node.store.owedCount).toBe(0);
});

test("a file that names another container while the former one runs again does not move the address", async () => {
  lease("10.0.0.5", "old-1");
  await node.added(want("new-1", { pod: "p1" }));
  // Its runtime asks us now: from then on it is ours, and the file is not.
  await node.added(want("old-1"));
  const [holder] = node.bound.filter((one) => one.endsWith("old-1.eth0"));
  lease("10.0.0.5", "old-2");
  await housekeeping();
  await housekeeping();
  expect(node.bound).toContain(holder);
  expect(journal()).not.toContainEqual(expect.stringContaining("old-2: 10.0.0.5"));
});

test("an address that cannot move to its file's container yet moves later", async () => {
  const file = lease("10.0.0.4", "");
  await node.added(want("new-1", { pod: "p1" }));
  lease("10.0.0.4", "old-3");
  rmSync(lease("10.0.0.6", "gone"));
  node.api.before = async ({ method }) => {
    if (method === "PUT") node.api.away = true;
  };
  await housekeeping().catch(() => {});
  node.api.before = async () => {};
  node.api.away = false;
  await open();
  await housekeeping();
  await housekeeping();
  expect(node.bound).toContain("10.0.0.4/29: old-3.eth0");
  expect(journal()).toEqual([expect.stringContaining("new-1"), "old-3: 10.0.0.4/29"]);
  expect(existsSync(file)).toBe(true);
});

describe("an address that was imported for a running pod", () => {
  test("is not in conflict with the file of the pod's sandbox", async () => {
    const file = lease("10.0.0.3", "sandbox-of-web");
    await importPod("web", "10.0.0.3");
    await node.store.hint.refresh();
    await node.added(want("new-1", { pod: "p1" }));
    expect(node.said).toEqual([]);
    expect(await report()).toEqual(["10.0.0.3 held-by-pod pod shop/web (eth0)"]);
    expect(await report(false)).toEqual(["10.0.0.3 held-by-pod pod shop/web (eth0)"]);
    expect(await problems()).toEqual([]);
    await housekeeping();
    expect(existsSync(file)).toBe(true);
    expect(node.said).toEqual([]);
  });

  test("is in conflict when the pod has it on another interface than the file's container", async () => {
    lease("10.0.0.3", "old-1", "eth0");
    await importPod("web", "10.0.0.3", "net1");
    await node.added(want("new-1", { pod: "p1" }));
    expect(await report()).toEqual(["10.0.0.3 conflict held by pod shop/web (net1)"]);
    expect(await problems()).toHaveLength(1);
  });

  test("is in conflict when the pod's own container is known here", async () => {
    await node.added(want("new-1", { pod: "p1", requested: ["10.0.0.3"] }));
    lease("10.0.0.3", "old-1");
    await node.added(want("new-2", { pod: "p2" }));
    expect(await report()).toEqual([expect.stringMatching(/^10\.0\.0\.3 conflict held by pod shop\/p1/)]);
  });

  test("is held for the container in the file when the pod is released and the file is still there", async () => {
    lease("10.0.0.3", "sandbox-of-web");
    await importPod("web", "10.0.0.3");
    await node.added(want("new-1", { pod: "p1" }));
    for (const [path, object] of node.api.objects)
      if (object.spec?.address === "10.0.0.3/29") node.api.remove(path);
    await node.store.hint.refresh();
    await housekeeping();
    expect(node.bound).toContain("10.0.0.3/29: sandbox-of-web.eth0");
  });
});

describe("a journal that was lost", () => {
  async function loseJournal(): Promise<void> {
    await node.store.close();
    rmSync(node.folder, { recursive: true });
    mkdirSync(node.folder);
    await open();
  }

  test("finds host-local's folders again without an ADD, and follows them", async () => {
    const [first, second] = [lease("10.0.0.3", "old-1"), lease("10.0.0.4", "old-2")];
    await node.added(want("new-1", { pod: "p1" }));
    await loseJournal();
    await housekeeping();
    rmSync(first);
    await housekeeping();
    expect(node.bound).toEqual(["10.0.0.4/29: old-2.eth0", expect.stringContaining("new-1.eth0")]);
    // A DEL that comes to us takes the file with it again.
    await node.store.detach(detachWant("old-2"));
    await node.store.drainOutbox();
    expect(node.bound).toEqual([expect.stringContaining("new-1.eth0")]);
    expect(existsSync(second)).toBe(false);
  });

  test("releases nothing for a file that was deleted before it was read again", async () => {
    const [first] = [lease("10.0.0.3", "old-1"), lease("10.0.0.4", "old-2")];
    await node.added(want("new-1", { pod: "p1" }));
    await node.store.close();
    rmSync(first as string);
    await loseJournal();
    await housekeeping();
    await housekeeping();
    expect(node.bound).toContain("10.0.0.3/29: old-1.eth0");
  });
});

describe("check on a node", () => {
  test("names an address in a file that is recorded for nobody, and changes nothing", async () => {
    lease("10.0.0.3", "old-1");
    expect(await problems()).toEqual([
      expect.stringContaining("10.0.0.3 of network blue is in use by container old-1 (eth0)"),
    ]);
    expect(node.bound).toEqual([]);
    await node.added(want("new-1", { pod: "p1" }));
    expect(await problems()).toEqual([]);
  });

  test("names a folder that is gone while its containers run", async () => {
    lease("10.0.0.3", "old-1");
    await node.added(want("new-1", { pod: "p1" }));
    rmSync(join(node.hostLocalDir, "blue"), { recursive: true });
    await housekeeping();
    expect(await problems()).toEqual([expect.stringContaining("is gone")]);
    expect(node.bound).toContain("10.0.0.3/29: old-1.eth0");
  });

  test("reports once that the API server is away, and nothing about what it could not compare", async () => {
    lease("10.0.0.3", "old-1");
    node.api.away = true;
    expect((await node.store.check()).map(({ invariant }) => invariant)).toEqual(["api"]);
  });
});
