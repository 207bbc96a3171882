import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { parseRequestedAddress } from "../../ipam/definition/requested-address.ts";
import type { AttachOutcome, AttachWant, DetachOutcome } from "../../store/allocations.ts";
import { hidingMount } from "../../store/host-local/data-dir.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { BOOT } from "./subjects.ts";

/** What release 0.1.0 knows. */

let root: string;
let leases: string;
let store: SqliteStore;
let clock: ManualClock;
let us = 10;
let said: string[];

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "holdfast-lease-"));
  leases = join(root, "networks", "blue");
  mkdirSync(leases, { recursive: true });
  clock = new ManualClock();
  said = [];
  await open();
});

afterEach(() => {
  store.close();
  rmSync(root, { recursive: true, force: true });
});

async function open(bootId = BOOT): Promise<void> {
  const hostLocalDirs = { standard: join(root, "networks"), allowed: null };
  mkdirSync(join(root, "state"), { recursive: true });
  store = new SqliteStore(
    join(root, "state"),
    { clock, node: "node-a", bootId, namespaceGone: () => false, hostLocalDirs },
    { info: (text: unknown) => said.push(String(text)), error: (text: unknown) => said.push(String(text)) },
  );
  await store.open();
}

async function reopen(bootId?: string): Promise<void> {
  store.close();
  await open(bootId);
}

/** As host-local writes it. */
function lease(address: string, container: string, interfaceName = "eth0", directory = leases): void {
  writeFileSync(join(directory, address), `${container}\r\n${interfaceName}`);
}

function configuration(ipam: object = {}): object {
  return {
    name: "blue",
    ipam: { type: "holdfast-ipam", subnet: "10.88.0.0/29", cooldownSeconds: 0, ...ipam },
  };
}

function add(container: string, { conf = configuration(), ip = "", bootId = BOOT } = {}): Promise<AttachOutcome> {
  clock.nowMs += 100;
  return store.attach(wantOf(container, conf, ip, bootId));
}

function wantOf(container: string, conf: object, ip = "", bootId = BOOT): AttachWant {
  return {
    network: "blue",
    definition: parsePluginConfig(conf),
    definitionSource: JSON.stringify(conf),
    containerId: container,
    interface: "eth0",
    stamp: { bootId, us: us++ },
    netns: { path: `/run/netns/${container}`, id: "4:1", witnessed: false },
    pod: null,
    claim: null,
    requested: ip === "" ? [] : [parseRequestedAddress(ip, "test")],
    onePerFamily: false,
  };
}

function del(container: string, bootId = BOOT): Promise<DetachOutcome> {
  return store.detach({
    containerId: container,
    interface: "eth0",
    network: "blue",
    stamp: { bootId, us: us++ },
    reason: "DEL",
  });
}

function answer(outcome: AttachOutcome): string {
  return outcome.kind === "refused" ? outcome.refusal.code : outcome.attachment.ips.map((ip) => ip.address).join(" ");
}

async function held(): Promise<string[]> {
  const { items } = await store.list({ network: "blue" }, { limit: 100 });
  return items.map((one) => `${one.address} ${one.state} ${one.owner.uid} ${one.owner.interface}`);
}

async function problems(): Promise<string[]> {
  return (await store.check()).map((one) => `${one.invariant}: ${one.message}`);
}

function housekeeping(): Promise<void> {
  clock.nowMs += 100;
  return store.housekeeping(us);
}

describe("addresses that host-local gave", () => {
  test("stay with their containers, and the first new container gets another", async () => {
    lease("10.88.0.2", "old-1");
    lease("10.88.0.3", "old-2");
    writeFileSync(join(leases, "last_reserved_ip.0"), "10.88.0.3");
    writeFileSync(join(leases, "lock"), "");
    expect(answer(await add("new-1"))).toBe("10.88.0.4/29");
    expect(await held()).toEqual([
      "10.88.0.2/29 Bound old-1 eth0",
      "10.88.0.3/29 Bound old-2 eth0",
      "10.88.0.4/29 Bound new-1 eth0",
    ]);
    expect(await problems()).toEqual([]);
    expect(said.join()).toContain(`2 addresses that host-local has given are taken over from ${leases}`);
  });

  test("are read from dataDir", async () => {
    const elsewhere = join(root, "elsewhere", "blue");
    mkdirSync(elsewhere, { recursive: true });
    lease("10.88.0.2", "old-1", "eth0", elsewhere);
    const conf = configuration({ dataDir: `${join(root, "elsewhere")}/` });
    expect(answer(await add("new-1", { conf }))).toBe("10.88.0.3/29");
    // The same network with another directory: nothing of the first is forgotten.
    lease("10.88.0.5", "old-2");
    expect(answer(await add("new-2"))).toBe("10.88.0.4/29");
    expect(answer(await add("new-3"))).toBe("10.88.0.6/29");
    expect(answer(await add("new-4"))).toBe("POOL_FULL");
  });

  test("are given again to a container that is started again, and its DEL deletes the file", async () => {
    lease("10.88.0.3", "old-1");
    await add("new-1");
    expect(answer(await add("old-1"))).toBe("10.88.0.3/29");
    expect(existsSync(join(leases, "10.88.0.3"))).toBe(true);
    await del("old-1");
    expect(existsSync(join(leases, "10.88.0.3"))).toBe(false);
    expect(await held()).toEqual(["10.88.0.2/29 Bound new-1 eth0"]);
    expect(answer(await add("old-1", { ip: "10.88.0.3" }))).toBe("10.88.0.3/29");
  });

  test("are released by a DEL of ours, which deletes the file as host-local's DEL would", async () => {
    lease("10.88.0.2", "old-1");
    await add("new-1");
    await del("old-1");
    expect(readdirSync(leases)).toEqual([]);
    expect(await held()).toEqual(["10.88.0.3/29 Bound new-1 eth0"]);
  });

  test("are released when host-local's own DEL has removed the file", async () => {
    lease("10.88.0.2", "old-1");
    lease("10.88.0.4", "old-2");
    await add("new-1");
    rmSync(join(leases, "10.88.0.2"));
    await housekeeping();
    expect(await held()).toEqual(["10.88.0.3/29 Bound new-1 eth0", "10.88.0.4/29 Bound old-2 eth0"]);
    const [first] = (await store.history({ limit: 10 })).filter((one) => one.containerID === "old-1");
    expect(first?.endedBy).toBe("DEL by host-local");
  });

  test("stay with a container whose host-local DEL and our ADD come in one second", async () => {
    lease("10.88.0.2", "old-1");
    await add("new-1");
    rmSync(join(leases, "10.88.0.2"));
    expect(answer(await add("old-1"))).toBe("10.88.0.2/29");
    await housekeeping();
    expect(await held()).toEqual(["10.88.0.2/29 Bound old-1 eth0", "10.88.0.3/29 Bound new-1 eth0"]);
  });

  test("of two families belong to one attachment, which ends when the last file is gone", async () => {
    const conf = {
      name: "blue",
      ipam: {
        type: "holdfast-ipam",
        ranges: [[{ subnet: "10.88.0.0/29" }], [{ subnet: "fd10::/64" }]],
        cooldownSeconds: 0,
      },
    };
    lease("fd10::2", "old-1");
    lease("10.88.0.2", "old-1");
    expect(answer(await add("new-1", { conf }))).toBe("10.88.0.3/29 fd10::3/64");
    expect(answer(await add("old-1", { conf }))).toBe("10.88.0.2/29 fd10::2/64");
    lease("10.88.0.5", "old-2");
    lease("fd10::5", "old-2");
    await housekeeping();
    rmSync(join(leases, "10.88.0.5"));
    await housekeeping();
    expect((await held()).filter((one) => one.includes("old-2"))).toHaveLength(2);
    rmSync(join(leases, "fd10::5"));
    await housekeeping();
    expect((await held()).filter((one) => one.includes("old-2"))).toEqual([]);
  });

  test("belong to one attachment even when the second family's file is written later", async () => {
    const conf = {
      name: "blue",
      ipam: { type: "holdfast-ipam", ranges: [[{ subnet: "10.88.0.0/29" }], [{ subnet: "fd10::/64" }]] },
    };
    lease("fd10::2", "old-1");
    await add("new-1", { conf });
    lease("10.88.0.6", "old-1");
    await housekeeping();
    expect(answer(await add("old-1", { conf }))).toBe("10.88.0.6/29 fd10::2/64");
    expect(await problems()).toEqual([]);
  });

  test("in files without an interface, as versions before 0.8 wrote them, end with any DEL of the container", async () => {
    writeFileSync(join(leases, "10.88.0.2"), "old-1");
    writeFileSync(join(leases, "10.88.0.3"), "old-2\n");
    await add("new-1");
    expect((await held())[0]).toBe("10.88.0.2/29 Bound old-1 ");
    expect(answer(await add("old-2"))).toBe("10.88.0.3/29");
    expect(await problems()).toEqual([]);
    await del("old-1");
    await del("old-2");
    expect(await held()).toEqual(["10.88.0.4/29 Bound new-1 eth0"]);
    expect(readdirSync(leases)).toEqual([]);
  });

  test("in files without an interface get it from an ADD of their container, also after a restart of the daemon", async () => {
    writeFileSync(join(leases, "10.88.0.2"), "old-1");
    await add("new-1");
    await reopen();
    expect(answer(await add("old-1"))).toBe("10.88.0.2/29");
    expect((await held())[0]).toBe("10.88.0.2/29 Bound old-1 eth0");
  });

  test("in files without an interface do not get it from an ADD of the container on another network", async () => {
    writeFileSync(join(leases, "10.88.0.2"), "old-1");
    await add("new-1");
    const other = { name: "green", ipam: { type: "holdfast-ipam", subnet: "10.89.0.0/29" } };
    await store.attach({ ...wantOf("old-1", other), network: "green", interface: "net1" });
    expect((await held())[0]).toBe("10.88.0.2/29 Bound old-1 ");
    expect(answer(await add("old-1"))).toBe("10.88.0.2/29");
  });

  test("stay when a file is touched or restored from elsewhere, and end with their files", async () => {
    lease("10.88.0.2", "old-1");
    lease("10.88.0.3", "old-2");
    lease("10.88.0.4", "old-3");
    await add("new-1");
    const listed = async () => (await store.list({ network: "blue" }, { limit: 100 })).items;
    const [allocated, before] = [await held(), (await listed()).slice(0, 2)];
    utimesSync(join(leases, "10.88.0.2"), 1, 1);
    rmSync(join(leases, "10.88.0.3"));
    lease("10.88.0.3", "old-2");
    rmSync(join(leases, "10.88.0.4"));
    await housekeeping();
    expect(await held()).toEqual(allocated.filter((one) => !one.includes("old-3")));
    expect((await listed()).slice(0, 2)).toEqual(before);
    await del("old-1");
    await del("old-2");
    expect(readdirSync(leases)).toEqual([]);
    expect(await held()).toEqual(["10.88.0.5/29 Bound new-1 eth0"]);
  });

  test("are found again after host-local was the network's plugin for a while", async () => {
    lease("10.88.0.2", "old-1");
    await add("new-1");
    lease("10.88.0.4", "between");
    expect(answer(await add("new-2"))).toBe("10.88.0.5/29");
    expect((await held()).map((one) => one.split(" ")[2])).toEqual(["old-1", "new-1", "between", "new-2"]);
  });

  test("that another owner already holds are reported, and taken over when it has released them", async () => {
    await add("new-1");
    lease("10.88.0.2", "old-1");
    expect(answer(await add("new-2"))).toBe("10.88.0.3/29");
    expect(answer(await add("new-2"))).toBe("10.88.0.3/29");
    const [problem = ""] = await problems();
    expect(problem).toContain("10.88.0.2 of network blue is held by container new-1 (eth0), but");
    expect(problem).toContain("says that container old-1 (eth0) uses it");
    expect(said.join()).toContain("says that container old-1 (eth0) has the address, which is held by container new-1");
    await del("new-1");
    expect(answer(await add("new-3"))).toBe("10.88.0.4/29");
    expect((await held())[0]).toBe("10.88.0.2/29 Bound old-1 eth0");
    expect(await problems()).toEqual([]);
  });

  test("outside the network's subnets are ignored until the network has the subnet", async () => {
    lease("10.99.0.2", "old-1");
    expect(answer(await add("new-1"))).toBe("10.88.0.2/29");
    expect(said.join()).toContain("10.99.0.2 is in no subnet of the network");
    expect(await problems()).toEqual([]);
    const wider = {
      ...configuration({
        subnet: undefined,
        ranges: [[{ subnet: "10.88.0.0/29" }, { subnet: "10.99.0.0/29" }]],
      }),
    };
    await add("new-2", { conf: wider });
    expect(await held()).toContain("10.99.0.2/29 Bound old-1 eth0");
  });

  test("whose file names no container are held until the file is gone", async () => {
    writeFileSync(join(leases, "10.88.0.2"), "");
    writeFileSync(join(leases, "10.88.0.3"), "no container ID\u0000\u0001");
    writeFileSync(join(leases, "10.88.0.4"), "x".repeat(5_000));
    expect(answer(await add("new-1"))).toBe("10.88.0.5/29");
    expect((await problems()).filter((one) => one.includes("names no container"))).toHaveLength(3);
    for (const last of [2, 3, 4]) rmSync(join(leases, `10.88.0.${last}`));
    await housekeeping();
    expect(await held()).toEqual(["10.88.0.5/29 Bound new-1 eth0"]);
  });

  test("a file that is completed between two looks gets its container", async () => {
    writeFileSync(join(leases, "10.88.0.2"), "");
    await add("new-1");
    rmSync(join(leases, "10.88.0.2"));
    lease("10.88.0.2", "old-1");
    await housekeeping();
    expect((await held())[0]).toBe("10.88.0.2/29 Bound old-1 eth0");
  });

  test.each([
    ["a directory in the place of a file", (path: string) => mkdirSync(path), "it is not a regular file"],
    ["a link", (path: string) => symlinkSync("/etc/hostname", path), "it is not a regular file"],
  ])("with %s no address is given until it is removed", async (_, make, problem) => {
    make(join(leases, "10.88.0.2"));
    const outcome = await add("new-1");
    expect(answer(outcome)).toBe("HOST_LOCAL_UNREADABLE");
    expect(outcome.kind === "refused" && outcome.refusal).toMatchObject({
      cniCode: 7,
      message: `${join(leases, "10.88.0.2")}, where host-local keeps addresses of network blue, cannot be read: ${problem}`,
    });
    expect((await problems()).join()).toContain("cannot be read");
    rmSync(join(leases, "10.88.0.2"), { recursive: true });
    expect(answer(await add("new-1"))).toBe("10.88.0.2/29");
    // A repeat is given nothing new, so nothing has to be known.
    make(join(leases, "10.88.0.3"));
    expect(answer(await add("new-1"))).toBe("10.88.0.2/29");
    expect(answer(await add("new-2"))).toBe("HOST_LOCAL_UNREADABLE");
  });

  test("ADDs are refused when there is a file in the place of the directory", async () => {
    rmSync(leases, { recursive: true });
    writeFileSync(leases, "");
    expect(answer(await add("new-1"))).toBe("HOST_LOCAL_UNREADABLE");
    rmSync(leases);
    expect(answer(await add("new-1"))).toBe("10.88.0.2/29");
  });

  test("no address is given while a dataDir is not visible", async () => {
    const hidden = join(root, "hidden");
    const conf = configuration({ dataDir: hidden });
    const outcome = await add("new-1", { conf });
    expect(answer(outcome)).toBe("HOST_LOCAL_UNREADABLE");
    expect((await problems()).join()).toContain(`${hidden}, where host-local keeps addresses of network blue`);
    mkdirSync(join(hidden, "blue"), { recursive: true });
    lease("10.88.0.2", "old-1", "eth0", join(hidden, "blue"));
    expect(answer(await add("new-1", { conf }))).toBe("10.88.0.3/29");
    // What was in it is recorded now.
    rmSync(hidden, { recursive: true });
    expect(answer(await add("new-2", { conf }))).toBe("10.88.0.4/29");
    expect((await problems()).join()).toContain("is gone");
    await reopen();
    expect(answer(await add("new-3", { conf }))).toBe("10.88.0.5/29");
  });

  test("a dataDir without a directory for the network is empty, and so is host-local's own where it was never used", async () => {
    rmSync(join(root, "networks"), { recursive: true });
    expect(answer(await add("new-1", { conf: configuration({ dataDir: root }) }))).toBe("10.88.0.2/29");
    const standard = configuration({ dataDir: join(root, "networks") });
    expect(answer(await add("new-2", { conf: standard }))).toBe("10.88.0.3/29");
  });

  test.each([
    ["/tmp/cni", "/tmp"],
    ["/tmp", "/tmp"],
    ["/var/tmp/cni", "/var/tmp"],
    ["/home/cni", "/home"],
    ["/home/my cni/x", null],
    ["/tmp/seen/cni", null],
    ["/tmpfiles", null],
    ["/srv/cni", null],
  ])("a systemd sandbox over %s is recognised at %s", (path, point) => {
    const mountinfo = [
      "30 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw",
      "31 30 0:29 / /tmp rw shared:2 - tmpfs tmpfs rw",
      "40 31 0:29 /systemd-private-5f1c-holdfast.service-Ab12cd/tmp /tmp rw - tmpfs tmpfs rw",
      "41 30 8:1 /var/tmp/systemd-private-5f1c-holdfast.service-Ef34gh/tmp /var/tmp rw - ext4 /dev/vda1 rw",
      "42 30 0:24 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw",
      "43 42 8:1 /home/my\\040cni /home/my\\040cni rw - ext4 /dev/vda1 rw",
      "44 40 0:29 /seen /tmp/seen rw - tmpfs tmpfs rw",
      "",
    ].join("\n");
    expect(hidingMount(path, mountinfo)).toBe(point);
  });

  test("nothing ends when the whole directory is gone", async () => {
    lease("10.88.0.2", "old-1");
    await add("new-1");
    rmSync(leases, { recursive: true });
    await housekeeping();
    expect((await held())[0]).toBe("10.88.0.2/29 Bound old-1 eth0");
    expect((await problems()).join()).toContain("is gone");
    await del("old-1");
    expect(await problems()).toEqual([]);
  });

  test("a restart of the daemon keeps everything, and sees what happened meanwhile", async () => {
    lease("10.88.0.2", "old-1");
    lease("10.88.0.3", "old-2");
    await add("new-1");
    rmSync(join(leases, "10.88.0.3"));
    await reopen();
    await housekeeping();
    expect(await held()).toEqual(["10.88.0.2/29 Bound old-1 eth0", "10.88.0.4/29 Bound new-1 eth0"]);
    await del("old-1");
    expect(readdirSync(leases)).toEqual([]);
  });

  test("a reboot ends the containers, and deletes their files", async () => {
    lease("10.88.0.2", "old-1");
    await add("new-1");
    await reopen("boot-next");
    await housekeeping();
    expect(readdirSync(leases)).toEqual([]);
    expect(answer(await add("new-2", { bootId: "boot-next" }))).not.toBe("POOL_FULL");
    expect((await held()).filter((one) => one.includes("old-1"))).toEqual([]);
  });

  test("a file that outlives its container's spooled DEL does not bring the container back", async () => {
    lease("10.88.0.2", "old-1");
    await add("new-1");
    const stamp = { bootId: BOOT, us: us++ };
    const which = { containerId: "old-1", interface: "eth0", network: "blue" };
    await store.detach({ ...which, stamp, reason: "DEL from the spool" });
    expect(existsSync(join(leases, "10.88.0.2"))).toBe(true);
    expect(answer(await add("new-2", { ip: "10.88.0.2" }))).toBe("10.88.0.2/29");
    expect(await problems()).toEqual([]);
    await housekeeping();
    expect(existsSync(join(leases, "10.88.0.2"))).toBe(false);
    expect((await held())[0]).toBe("10.88.0.2/29 Bound new-2 eth0");
  });

  test("an ADD of another container that requests one is refused with its container named", async () => {
    lease("10.88.0.2", "old-1");
    const outcome = await add("new-1", { ip: "10.88.0.2" });
    expect(outcome.kind === "refused" && outcome.refusal.message).toContain("held by container old-1 (eth0)");
  });

  test("are released by an operator only by force, which deletes the file too", async () => {
    lease("10.88.0.2", "old-1");
    await add("new-1");
    const which = { network: "blue", address: { family: 4 as const, value: 0x0a580002n } };
    expect(await store.release({ ...which, force: false })).toMatchObject({ refusal: { code: "IN_USE" } });
    expect(await store.release({ ...which, force: true })).toMatchObject({ kind: "released" });
    clock.nowMs += 100;
    await store.hostLocal.takeOver(parsePluginConfig(configuration()));
    expect(readdirSync(leases)).toEqual([]);
    expect((await held()).filter((one) => one.includes("old-1"))).toEqual([]);
  });

  test("hundreds of concurrent ADDs wait for one reading", async () => {
    for (let at = 2; at < 202; at += 1) lease(`10.90.0.${at}`, `old-${at}`);
    const conf = configuration({ subnet: "10.90.0.0/22" });
    const outcomes = await Promise.all(Array.from({ length: 200 }, (_, at) => add(`new-${at}`, { conf })));
    const given = new Set(outcomes.map(answer));
    expect(given.size).toBe(200);
    for (let at = 2; at < 202; at += 1) expect(given.has(`10.90.0.${at}/22`)).toBe(false);
    expect(await problems()).toEqual([]);
  });
});
