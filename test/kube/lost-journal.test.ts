/** A node whose journal is damaged or gone: the API knows what its containers use. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { added, deleted, Scene } from "./fault-scene.ts";

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
