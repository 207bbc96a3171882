import type { World } from "../world.ts";
import { MachineClock } from "./clocks.ts";
import { DaemonProcess } from "./daemon-process.ts";
import { Disk } from "./disk.ts";
import type { SimMachine } from "./machine.ts";

/**
 * A machine that was started under another one's name: a cloned image, a copied unit. It has a boot of its own, no
 * containers, and a disk like the other's, or an empty one. Returns how it ends.
 */
export function startImpostor(
  world: World,
  of: SimMachine,
  { number, withDisk }: { readonly number: number; readonly withDisk: boolean },
): () => void {
  const disk = new Disk(`${of.disk.root}-again-${number}`);
  if (withDisk) disk.clone(of.disk);
  const clock = new MachineClock(world.time.clock({ wallMs: world.clock.wallMs() }));
  const hex = `${number}`.padStart(12, "0");
  const who = `impostor ${number} of ${of.name}`;
  const daemon = new DaemonProcess({
    node: of.name,
    link: `${of.name} again/${number}`,
    state: disk.state,
    identitySocket: `${disk.run}/identity.sock`,
    bootId: `ffffffff-ffff-4fff-8fff-${hex}`,
    version: of.version,
    clock,
    cluster: world.cluster,
    namespaceIdAt: () => "",
    passed: () => {},
    listens: () => world.story.tell(who, "listens"),
    ended: () => {},
    logged: (level, _fields, message) => {
      if (level !== "info") world.story.tell(who, message.replaceAll(disk.root, ""));
    },
  });
  world.story.tell(who, `starts with ${withDisk ? "its disk" : "an empty disk"}`);
  daemon.start();
  return () => {
    daemon.kill();
    world.story.tell(who, "is turned off");
    world.clock.timer(0, () => daemon.bury());
  };
}
