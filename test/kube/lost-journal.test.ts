/** A node whose journal is damaged or gone: the API knows what its containers use. */
import { closeSync, fstatSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FaultyDisk } from "../faults/faulty-disk.ts";
import { newDirectory } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { added, addedInTheEnd, checked, deleted } from "../harness/world/guests.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", time: "machine", node: { process: true } });
  await world.startController();
});
afterAll(async () => {
  await world?.stop();
});

const LOSSES: readonly [string, (state: string) => void][] = [
  ["damaged", (state) => writeFileSync(join(state, "holdfast.db"), Buffer.alloc(100_000, 7))],
  ["without its log", (state) => rmSync(join(state, "holdfast.db-wal"), { force: true })],
  ["gone with its directory", (state) => rmSync(state, { recursive: true, force: true })],
];

test.each(LOSSES)("a journal that is %s is rebuilt from the API, and DELs release its addresses", async (how, lose) => {
  const net = await world.network(`lost-${how.replaceAll(" ", "-")}`, {
    subnets: "10.70.0.0/24,fd70::/64",
  });
  const node = await world.startNode(`node-${how.replaceAll(" ", "-")}`);
  const [pod, vm] = [await world.guest(net, node.name), await world.vmGuest(net, node.name)];
  const [podIps, vmIps] = [await added(node, pod), await added(node, vm)];
  await node.daemon.end("SIGKILL");
  lose(node.daemon.state);
  await node.restart();
  expect(await added(node, pod)).toEqual(podIps);
  await world.settledWith(net, [
    [pod, podIps],
    [vm, vmIps],
  ]);
  await deleted(node, pod);
  await deleted(node, vm);
  await world.settledWith(net, [[vm, vmIps]]);
});

test("a journal that is damaged while the daemon runs is rebuilt without an operator", async () => {
  const net = await world.network("lost-running", { subnets: "10.71.0.0/24" });
  const directory = newDirectory();
  const disk = new FaultyDisk({ path: (...names) => join(directory, ...names) });
  const node = await world.startNode("node-running", { directory, env: disk.env });
  const [stays, goes, later] = [
    await world.guest(net, node.name),
    await world.guest(net, node.name),
    await world.guest(net, node.name),
  ];
  const [staysIps] = [await added(node, stays), await added(node, goes)];
  for (const file of ["holdfast.db", "holdfast.db-wal"]) overwrite(join(node.daemon.state, file));
  disk.fail({ call: "write", errno: "EIO" });
  await deleted(node, goes);
  disk.mend();
  await until(() => node.log.includes("a new journal is begun"), "the damage to be found");
  const laterIps = await addedInTheEnd(node, later);
  expect(laterIps).not.toEqual(staysIps);
  expect(await addedInTheEnd(node, stays)).toEqual(staysIps);
  await world.settledWith(net, [
    [stays, staysIps],
    [later, laterIps],
  ]);
  await deleted(node, stays);
  await deleted(node, later);
  await world.settledWith(net, []);
  await checked(node);
});

/** Garbage in place of every page. */
function overwrite(path: string): void {
  const fd = openSync(path, "r+");
  writeSync(fd, Buffer.alloc(fstatSync(fd).size, 7), 0, undefined, 0);
  closeSync(fd);
}
