/** A node whose journal is damaged or gone: the API knows what its containers use. */
import { closeSync, fstatSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FaultyDisk } from "../faults/faulty-disk.ts";
import { newFolder, until } from "../harness/daemon.ts";
import { added, addedInTheEnd, checked, deleted, Scene } from "./fault-scene.ts";

let scene: Scene;

beforeAll(async () => {
  scene = await Scene.start();
  await scene.controller();
});
afterAll(async () => {
  await scene?.stop();
});

const LOSSES: readonly [string, (state: string) => void][] = [
  ["damaged", (state) => writeFileSync(join(state, "holdfast.db"), Buffer.alloc(100_000, 7))],
  ["without its log", (state) => rmSync(join(state, "holdfast.db-wal"), { force: true })],
  ["gone with its folder", (state) => rmSync(state, { recursive: true, force: true })],
];

test.each(LOSSES)(
  "a journal that is %s is learnt from the API, and DELs free what they should",
  async (how, lose) => {
    const net = await scene.net(`lost-${how.replaceAll(" ", "-")}`, "10.70.0.0/24,fd70::/64");
    const node = await scene.node(`node-${how.replaceAll(" ", "-")}`);
    const [pod, vm] = [await scene.pod(net, node.name), await scene.vm(net, node.name)];
    const [podIps, vmIps] = [await added(node, pod), await added(node, vm)];
    await node.daemon.end("SIGKILL");
    lose(node.daemon.state);
    await node.restart();
    expect(await added(node, pod)).toEqual(podIps);
    await scene.settled(net, [
      [pod, podIps],
      [vm, vmIps],
    ]);
    await deleted(node, pod);
    await deleted(node, vm);
    await scene.settled(net, [[vm, vmIps]]);
  },
);

test("a journal that turns out damaged while the daemon runs mends itself: nothing is typed, nothing leaks", async () => {
  const net = await scene.net("lost-running", "10.71.0.0/24");
  const folder = newFolder();
  const disk = new FaultyDisk({ path: (...names) => join(folder, ...names) });
  const node = await scene.node("node-running", { folder, env: disk.env });
  const [stays, goes, later] = [
    await scene.pod(net, node.name),
    await scene.pod(net, node.name),
    await scene.pod(net, node.name),
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
  await scene.settled(net, [
    [stays, staysIps],
    [later, laterIps],
  ]);
  await deleted(node, stays);
  await deleted(node, later);
  await scene.settled(net, []);
  await checked(node);
});

/** Garbage in place of every page. */
function overwrite(path: string): void {
  const fd = openSync(path, "r+");
  writeSync(fd, Buffer.alloc(fstatSync(fd).size, 7), 0, undefined, 0);
  closeSync(fd);
}
