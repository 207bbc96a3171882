/**
 * The daemon of a node is replaced under load: every ADD is carried through the gap, and none is refused for Holdfast's
 * sake.
 */
import { describe, expect, test } from "vitest";
import { AddLoad, PATIENT, PATIENT_DAEMON } from "../harness/add-load.ts";
import { runShim } from "../harness/daemon.ts";
import { cniArgs } from "../harness/node.ts";
import { checked } from "../harness/world/guests.ts";
import { ipsOf } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const AT_ONCE = 6;
const WORLDS = {
  "an API server in memory": { api: "memory", time: "machine" },
  "an API server": { api: "server" },
} as const;

describe.each(Object.keys(WORLDS) as (keyof typeof WORLDS)[])("over %s", (kind) => {
  test("restarts by SIGTERM and SIGKILL under load fail no ADD", async () => {
    const world = await World.start(WORLDS[kind]);
    try {
      await world.startController();
      const net = await world.network("blue", { subnets: "10.40.0.0/18" });
      const node = await world.startNode("node-a", { process: true, args: PATIENT_DAEMON });
      const { socket, spool } = node.daemon;
      const load = new AddLoad(AT_ONCE, async (number) => {
        const { pod, options } = await (number % 3 === 0 ? world.vmGuest(net, node.name) : world.guest(net, node.name));
        const id = `sandbox-${pod.metadata.uid}`;
        const { config, ifname = "net1" } = options;
        return runShim("ADD", id, { socket, spool, config, ifname, args: cniArgs(pod, id), env: PATIENT });
      });
      for (const signal of ["SIGTERM", "SIGKILL", "SIGTERM", "SIGKILL"] as const) {
        await load.more(2 * AT_ONCE);
        await node.restart(signal);
      }
      await load.more(AT_ONCE);

      expect(await load.refused()).toEqual([]);
      const given = load.answers.flatMap(ipsOf);
      expect(new Set(given).size).toBe(load.answers.length);
      await checked(node);
    } finally {
      await world.stop();
    }
  });
});
