import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseAddress } from "../../ipam/space/address.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { BOOT, detachWant, said, type WantOptions, want } from "./subjects.ts";

const NEXT_BOOT = "boot-next";

let root: string;
let backup: string;
let leases: string;
let store: SqliteStore;
let clock: ManualClock;
let gone: Set<string>;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "holdfast-replace-"));
  backup = join(root, "old.db");
  leases = join(root, "networks", "blue");
  mkdirSync(join(root, "state"));
  mkdirSync(leases, { recursive: true });
  clock = new ManualClock();
  gone = new Set();
  store = await open(BOOT);
});

afterEach(() => {
  store.close();
  rmSync(root, { recursive: true, force: true });
});

async function open(bootId: string): Promise<SqliteStore> {
  const context = {
    clock,
    node: "node-a",
    bootId,
    namespaceGone: ({ path }: { path: string }) => gone.has(path),
    hostLocalDirs: { standard: join(root, "networks"), allowed: null },
  };
  const opened = new SqliteStore(join(root, "state"), context, { info: () => {}, error: () => {} });
  await opened.open();
  return opened;
}

async function reboot(): Promise<void> {
  store.close();
  store = await open(NEXT_BOOT);
}

/** A container is started: a network namespace of its own at each start. */
async function start(container: string, netns: string, options: WantOptions = {}): Promise<string> {
  clock.nowMs += 100;
  const one = want(container, { ipam: { cooldownSeconds: 0 }, ...options });
  return said(await store.attach({ ...one, netns: { path: `/run/netns/${netns}`, id: netns, witnessed: true } }));
}

function stop(container: string, options: { bootId?: string; us?: number } = {}) {
  return store.detach(detachWant(container, options));
}

/** What an operator sees of it: accepted, or why not. */
function replace(): Promise<string> {
  return store.rebuild(backup, true).then(
    () => "accepted",
    (error: Error) => error.message,
  );
}

/** Starts containers until the network is full; the addresses that they got. */
async function fill(bootId = BOOT): Promise<string[]> {
  const given: string[] = [];
  for (let n = 1; n <= 8; n += 1) {
    const answer = await start(`new-${n}`, `new-${n}`, { bootId });
    if (answer === "POOL_FULL") return given;
    given.push(answer);
  }
  throw new Error("a network of six addresses has given eight");
}

function plain(cidr: string): string {
  return cidr.split("/")[0] as string;
}

function held(container: string) {
  const row = store.attachmentsAfter(0, 100).find((one) => one.containerId === container);
  return row && { ips: row.ips.map((ip) => ip.address), boot: row.stamp.bootId, netns: row.netns.path };
}

test("a container that was stopped and started since the backup keeps its address", async () => {
  const address = await start("web", "first");
  await store.backup(backup);
  await stop("web");
  gone.add("/run/netns/first");
  expect(await start("web", "second", { requested: [plain(address)] })).toBe(address);

  expect(await replace()).toBe("accepted");
  expect(held("web")).toEqual({ ips: [address], boot: BOOT, netns: "/run/netns/second" });
  expect(await store.check()).toEqual([]);
  expect(await fill()).not.toContain(address);
});

test("a container that was started again by a reboot since the backup keeps its address", async () => {
  const address = await start("web", "first");
  await start("db", "db");
  await store.backup(backup);
  await reboot();
  expect(await start("web", "second", { bootId: NEXT_BOOT, requested: [plain(address)] })).toBe(address);

  expect(await replace()).toBe("accepted");
  expect(held("web")).toEqual({ ips: [address], boot: NEXT_BOOT, netns: "/run/netns/second" });
  expect(held("db")).toBeUndefined();
  expect(await fill(NEXT_BOOT)).not.toContain(address);
});

test("a DEL from before the container's last start, delivered after the restore, ends nothing", async () => {
  const address = await start("web", "first", { us: 100 });
  await store.backup(backup);
  await start("web", "second", { us: 300 });

  expect(await replace()).toBe("accepted");
  await stop("web", { us: 200 });
  expect(held("web")).toMatchObject({ ips: [address], netns: "/run/netns/second" });
});

test("an ADD that is older than a DEL from after the backup gets no address after the restore", async () => {
  await start("db", "db");
  await store.backup(backup);
  await stop("web", { us: 2_000_000_000 });

  expect(await replace()).toBe("accepted");
  expect(await start("web", "first", { us: 1_999_999_999 })).toBe("SUPERSEDED");
});

test("a container that has another address than in the backup is reported, and nothing is changed", async () => {
  await start("web", "first");
  await store.backup(backup);
  await stop("web");
  await start("db", "db");
  const address = await start("web", "second", { requested: ["10.0.0.5"] });
  gone.add("/run/netns/db");

  expect(await replace()).toContain("container web (eth0)");
  expect(held("web")?.ips).toEqual([address]);
  expect(held("db")).toBeDefined();
});

test("a container with the same address on another network than in the backup is reported", async () => {
  const address = await start("web", "first");
  await store.backup(backup);
  await stop("web");
  expect(await start("web", "second", { network: "green" })).toBe(address);
  expect(await replace()).toContain("container web (eth0)");
});

test("a container that has its address from another claim than in the backup is reported", async () => {
  const claim = { namespace: "shop", name: "vm1", network: "blue", vm: { name: "", uid: "" } };
  const manifest = { metadata: {}, spec: { network: "blue", interface: "" } };
  await store.applyClaim({ ...claim, manifest, ips: [] });
  const address = await start("vm", "first", { claim: "vm1" });
  await store.backup(backup);
  await stop("vm");
  await store.deleteClaim("shop", "vm1");
  await store.applyClaim({ ...claim, manifest, ips: [] });
  expect(await start("vm", "second", { claim: "vm1", requested: [plain(address)] })).toBe(address);
  expect(await replace()).toContain("container vm (eth0)");
});

test("a VM that runs with a claim of the backup keeps its address", async () => {
  const manifest = { metadata: {}, spec: { network: "blue", interface: "" } };
  const vm = { name: "", uid: "" };
  await store.applyClaim({ namespace: "shop", name: "vm1", network: "blue", manifest, vm, ips: [] });
  const address = await start("vm", "first", { claim: "vm1" });
  await store.backup(backup);
  await reboot();
  expect(await start("vm", "second", { claim: "vm1", bootId: NEXT_BOOT })).toBe(address);

  expect(await replace()).toBe("accepted");
  expect(held("vm")).toEqual({ ips: [address], boot: NEXT_BOOT, netns: "/run/netns/second" });
  expect(await store.check()).toEqual([]);
});

test("a container taken over from host-local is recognised by its current file", async () => {
  const file = join(leases, "10.0.0.3");
  writeFileSync(file, "old\r\neth0");
  await start("web", "web");
  await store.backup(backup);
  // host-local itself has stopped and started it: another file of the same address.
  rmSync(file);
  clock.nowMs += 100;
  await store.housekeeping(0);
  expect(held("old")).toBeUndefined();
  writeFileSync(file, "old\r\neth0");
  await start("web2", "web2");
  await stop("web2");
  expect(held("old")?.ips).toEqual(["10.0.0.3/29"]);

  expect(await replace()).toBe("accepted");
  const [carried] = store.attachmentsAfter(0, 1);
  expect(carried?.containerId).toBe("old");
  clock.nowMs += 100;
  await store.housekeeping(0);
  // Not ended and taken over anew in between.
  expect(store.attachmentsAfter(0, 1)).toEqual([carried]);
  expect(existsSync(file)).toBe(true);
  rmSync(file);
  clock.nowMs += 100;
  await store.housekeeping(0);
  expect(held("old")).toBeUndefined();
});

test("a wrong forced release of a container taken over from host-local is undone", async () => {
  const file = join(leases, "10.0.0.3");
  writeFileSync(file, "old\r\neth0");
  await start("web", "web");
  await store.backup(backup);
  await store.release({ network: "blue", address: parseAddress("10.0.0.3"), force: true });
  clock.nowMs += 100;
  await store.housekeeping(0);
  expect(existsSync(file)).toBe(false);

  expect(await replace()).toBe("accepted");
  clock.nowMs += 100;
  await store.housekeeping(0);
  expect(held("old")?.ips).toEqual(["10.0.0.3/29"]);
  expect(await fill()).not.toContain("10.0.0.3/29");
});

test("files of host-local's that the backup does not know are taken over again", async () => {
  await start("web", "web");
  await store.backup(backup);
  writeFileSync(join(leases, "10.0.0.3"), "old\r\neth0");
  await start("db", "db");
  clock.nowMs += 100;
  await start("db", "db");
  await stop("db");
  await store.release({ network: "blue", address: parseAddress("10.0.0.3"), force: true });

  expect(await replace()).toBe("accepted");
  expect(await fill()).not.toContain("10.0.0.3/29");
  expect(held("old")?.ips).toEqual(["10.0.0.3/29"]);
});
