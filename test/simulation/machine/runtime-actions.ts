import type { ActionKinds } from "../world.ts";
import { machineOf } from "./chosen.ts";
import type { PluginConfig } from "./multus.ts";

/** What happens to containers, and what a runtime asks on its own account. */
export const runtimeActions: ActionKinds = {
  /** A pause container is killed: its pod gets another sandbox. */
  "sandbox-dies": {
    weight: 2,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      const live = machine && chance.of([...machine.runtime.sandboxes.values()].filter((one) => one.state === "ready"));
      if (!live) return;
      world.counts.add("sandbox.died");
      world.story.tell(`kubelet ${machine.name}`, `the sandbox of ${live.pod.namespace}/${live.pod.name} dies`);
      machine.runtime.vanish(live);
      machine.kubelet.wake(live.pod.uid);
    },
  },
  /**
   * The runtime loses everything that it knows of a sandbox, and its namespace goes: nobody sends a DEL for it, ever.
   * Not of one whose namespace nobody sees, as at the end of a pod.
   */
  "sandbox-vanishes": {
    weight: 1,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      const live =
        machine &&
        chance.of([...machine.runtime.sandboxes.values()].filter((one) => one.state === "ready" && !one.isUnseen));
      if (!live) return;
      world.counts.add("sandbox.vanished");
      world.story.tell(`kubelet ${machine.name}`, `the sandbox of ${live.pod.namespace}/${live.pod.name} vanishes`);
      machine.runtime.vanish(live);
      live.attachments.length = 0;
      machine.kubelet.wake(live.pod.uid);
    },
  },
  "plugin-other-boot-id": {
    weight: 0.3,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      world.counts.add("cni.boot-untold");
      machine.hideBoot(chance.between(500, 8_000));
    },
  },
  "runtime-check": {
    weight: 1,
    run: async (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      for (const { sandbox, attachment } of [...machine.runtime.living()].slice(0, 5))
        if (attachment.isUp) await machine.runtime.check(sandbox, attachment);
    },
  },
  "runtime-gc": {
    weight: 1,
    run: async (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      const { runtime } = machine;
      const networks = new Map<string, PluginConfig>();
      for (const { attachment } of runtime.living()) networks.set(attachment.config.network, attachment.config);
      for (const config of networks.values()) await runtime.collect({ ...config, text: as110(config.text) });
    },
  },
  "runtime-status": {
    weight: 1,
    run: async (world, chance) => {
      const machine = machineOf(world, chance);
      const live = machine && chance.of([...machine.runtime.living()]);
      if (live) await machine.runtime.status({ ...live.attachment.config, text: as110(live.attachment.config.text) });
    },
  },
};

/** GC and STATUS came with this version. */
function as110(text: string): string {
  return JSON.stringify({ ...JSON.parse(text), cniVersion: "1.1.0" });
}
