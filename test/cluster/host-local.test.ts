/** Nodes whose containers have addresses of host-local's when Holdfast takes their networks over. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { NodeDaemon } from "../harness/node.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { added, addedInTheEnd, checked } from "../harness/world/guests.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { type StartOptions, World } from "../harness/world/world.ts";

let world: World;
/** host-local's folders of the nodes of one test. */
let root: string;
let count = 0;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
});
afterAll(async () => {
  await world?.stop();
});
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "holdfast-lease-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function start(more: StartOptions = {}): Promise<NodeDaemon> {
  count += 1;
  const name = `leased-${count}`;
  return world.startNode(name, { args: ["--host-local-dirs", join(root, name)], ...more });
}

/** As host-local writes it. */
function lease(node: Pick<NodeDaemon, "name">, network: string, address: string, container: string): string {
  const folder = join(root, node.name, network);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, address), `${container}\r\neth0`);
  return join(folder, address);
}

async function bound(net: Pick<Network, "name">): Promise<string[]> {
  return (await world.bound(net)).map((one) => one.replace("/29", ""));
}

async function boundIs(net: Pick<Network, "name">, wanted: readonly string[]): Promise<void> {
  let seen: string[] = [];
  const same = async () => {
    seen = await bound(net);
    return JSON.stringify(seen) === JSON.stringify(wanted);
  };
  await until(same, "what is Bound", 30_000).catch(() => expect(seen).toEqual(wanted));
}

test("old containers keep their addresses, as objects of theirs, until they are deleted by either plugin", async () => {
  const net = await world.network("leased", { subnets: "10.60.0.0/29" });
  const node = await start();
  const file = lease(node, "leased", "10.60.0.1", "old-1");
  const other = lease(node, "leased", "10.60.0.2", "old-2");
  const dry = await node.daemon.cli("import", "--dry-run", "--network", "leased");
  expect(dry.stdout).toMatch(/leased +10\.60\.0\.1 +container old-1 \(eth0\) +would be recorded/);
  expect(await bound(net)).toEqual([]);
  const pods = [];
  for (let i = 0; i < 4; i += 1) pods.push(await world.guest(net, node.name));
  const given = await Promise.all(pods.map((pod) => added(node, pod)));
  const uids = pods.map(({ pod }, at) => `${given[at]?.[0]?.replace("/29", "")} ${pod.metadata.uid}`);
  await boundIs(net, ["10.60.0.1 old-1", "10.60.0.2 old-2", ...uids].sort());
  const object = (await world.allocations(net)).find(({ spec }) => spec.owner.uid === "old-1");
  expect(object?.spec.owner).toMatchObject({ kind: "Container", uid: "old-1", interface: "eth0" });
  expect(Object.values(object?.status?.attachments ?? {})).toMatchObject([
    { containerID: "old-1", interface: "eth0", node: node.name },
  ]);
  const full = await node.add((await world.guest(net, node.name)).pod, { config: net.config });
  expect(full.json()).toMatchObject({ code: 11, msg: expect.stringContaining("no free address") });
  await checked(node);
  // This one's runtime calls Holdfast, that one's calls host-local.
  expect((await node.daemon.cni("DEL", "old-1", { config: net.config })).code).toBe(0);
  expect(existsSync(file)).toBe(false);
  rmSync(other);
  await boundIs(net, uids.sort());
  await checked(node);
});

test("a file that changes under its running container, or is written late, costs nobody an address", async () => {
  const net = await world.network("leased-touched", { subnets: "10.67.0.0/29" });
  const node = await start();
  const [touched, ended, late] = (
    [
      ["10.67.0.1", "run-1"],
      ["10.67.0.2", "old-2"],
      ["10.67.0.3", "run-3"],
    ] as const
  ).map(([address, container]) => lease(node, "leased-touched", address, container)) as [
    string,
    string,
    string,
  ];
  // host-local makes a file and writes it then.
  writeFileSync(late, "");
  const [ip = ""] = await added(node, await world.guest(net, node.name));
  expect(await bound(net)).toContain("10.67.0.3 host-local-10.67.0.3");
  const versionOf = async (uid: string) =>
    (await world.allocations(net)).find(({ spec }) => spec.owner.uid === uid)?.metadata.resourceVersion;
  const before = await versionOf("run-1");
  writeFileSync(late, "run-3\r\neth0");
  utimesSync(touched, new Date(), new Date());
  rmSync(ended);
  const pod = (await bound(net)).find((one) => one.startsWith(ip.replace("/29", ""))) ?? "";
  await boundIs(net, ["10.67.0.1 run-1", "10.67.0.3 run-3", pod]);
  expect(existsSync(touched) && existsSync(late)).toBe(true);
  expect(await versionOf("run-1")).toBe(before);
  expect(node.log).not.toContain("which is held by");
  await checked(node);
});

test("a daemon that is killed in the middle of it leaks nothing and gives nothing twice", async () => {
  const net = await world.network("leased-crash", { subnets: "10.61.0.0/29" });
  const node = await start({ process: true });
  const file = lease(node, "leased-crash", "10.61.0.1", "old-1");
  lease(node, "leased-crash", "10.61.0.2", "old-2");
  const pod = await world.guest(net, node.name);
  for (const point of ["after-intent:1", "after-reserve:1"]) {
    await node.restart("SIGKILL", { env: { HOLDFAST_KILL_POINT: point } });
    expect((await node.add(pod.pod, { config: net.config })).code).not.toBe(0);
  }
  await node.restart("SIGKILL", { env: {} });
  const [ip = ""] = await addedInTheEnd(node, pod);
  expect(["10.61.0.1/29", "10.61.0.2/29"]).not.toContain(ip);
  const own = `${ip.replace("/29", "")} ${pod.pod.metadata.uid}`;
  await boundIs(net, ["10.61.0.1 old-1", "10.61.0.2 old-2", own]);
  rmSync(file);
  await boundIs(net, ["10.61.0.2 old-2", own]);
  await checked(node);
});

test("a network that only files on the nodes define is taken over by the first ADD", async () => {
  const node = await start();
  const config = {
    cniVersion: "1.0.0",
    name: "cbr0",
    type: "bridge",
    ipam: { type: "holdfast-ipam", subnet: "10.62.0.0/29" },
  };
  lease(node, "cbr0", "10.62.0.2", "old-1");
  const pod = await world.kubevirt.createPod(NAMESPACE, "primary", { node: node.name });
  const answer = await node.add(pod, { config, ifname: "eth0" });
  expect(answer.code, answer.stdout).toBe(0);
  expect(answer.json().ips[0].address).not.toBe("10.62.0.2/29");
  const net = { name: "cbr0" };
  expect(await bound(net)).toContain("10.62.0.2 old-1");
  // A container that no pod stands for, started again, has its address back.
  const again = await node.daemon.cni("ADD", "old-1", { config });
  expect(again.json().ips[0].address).toBe("10.62.0.2/29");
});

test("running pods of a default network that host-local served are no conflicts with their sandboxes' files", async () => {
  const node = await start();
  const config = JSON.stringify({
    cniVersion: "1.0.0",
    name: "podnet",
    type: "bridge",
    ipam: { type: "holdfast-ipam", subnet: "10.66.0.0/29" },
  });
  const net = { name: "podnet", config };
  const old = await world.kubevirt.createPod(NAMESPACE, "old-web", { node: node.name });
  const podIPs = [{ ip: "10.66.0.2" }];
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/old-web/status`;
  await world.cluster.api.patch(path, { status: { phase: "Running", podIP: "10.66.0.2", podIPs } });
  const file = lease(node, "podnet", "10.66.0.2", "sandbox-of-old-web");
  const pod = await world.kubevirt.createPod(NAMESPACE, "new-web", { node: node.name });
  await addedInTheEnd(node, { pod, network: net, options: { config, ifname: "eth0" }, vm: null });
  expect(await bound(net)).toContain(`10.66.0.2 ${old.metadata.uid}`);
  const { stdout, code } = await node.daemon.cli("import", "--network", "podnet");
  expect(stdout).toMatch(
    /10\.66\.0\.2 +container sandbox-of-old-web \(eth0\) +held by its pod +pod shop\/old-web/,
  );
  expect(code).toBe(0);
  expect(node.log).not.toContain("sandbox-of-old-web");
  await checked(node);
  // Its runtime calls Holdfast with the network's present configuration: the file goes as with host-local's own DEL.
  const del = await node.daemon.cni("DEL", "sandbox-of-old-web", { config });
  expect(del.code).toBe(0);
  expect(existsSync(file)).toBe(false);
});

test("an address that another node's container has already is reported, and nobody else's for as long", async () => {
  const net = await world.network("leased-twice", { subnets: "10.63.0.0/29" });
  const [a, b] = [await start(), await start()];
  lease(a, "leased-twice", "10.63.0.1", "on-a");
  lease(b, "leased-twice", "10.63.0.1", "on-b");
  const [pa, pb] = [await world.guest(net, a.name), await world.guest(net, b.name)];
  expect([...(await added(a, pa)), ...(await added(b, pb))]).not.toContain("10.63.0.1/29");
  expect(await bound(net)).toContain("10.63.0.1 on-a");
  await untilSaid(
    () => b.log,
    "says that container on-b (eth0) has the address, which is held by container on-a",
  );
  const { stdout, code } = await b.daemon.cli("import", "--network", "leased-twice");
  expect(stdout).toMatch(/10\.63\.0\.1 +container on-b \(eth0\) +CONFLICT +held by container on-a/);
  expect(code).toBe(1);
  const check = await b.daemon.cli("check");
  expect(check.stdout + check.stderr).toContain(
    "10.63.0.1 of network leased-twice is held by container on-a",
  );
  expect(check.code).toBe(1);
  await checked(a);
});

test("what the daemon cannot see, or cannot read, refuses the network with what to do", async () => {
  const node = await start();
  const hidden = await world.network("leased-hidden", { subnets: "10.64.0.0/29", dataDir: "/srv/elsewhere" });
  const pod = await world.guest(hidden, node.name);
  const answer = await node.add(pod.pod, { config: hidden.config });
  expect(answer.json()).toMatchObject({ code: 7, msg: expect.stringContaining("hostLocalDirs") });
  const broken = await world.network("leased-broken", { subnets: "10.65.0.0/29" });
  mkdirSync(join(root, node.name, "leased-broken", "10.65.0.3"), { recursive: true });
  const other = await world.guest(broken, node.name);
  const refused = await node.add(other.pod, { config: broken.config });
  expect(refused.json()).toMatchObject({ code: 7, msg: expect.stringContaining("is not a regular file") });
  rmSync(join(root, node.name, "leased-broken", "10.65.0.3"), { recursive: true });
  expect((await node.add(other.pod, { config: broken.config })).code).toBe(0);
});
