import { sleep } from "../../../platform/time.ts";
import type { Chance } from "../engine/chance.ts";
import type { ActionKinds, Interface, World } from "../world.ts";
import { machineOf, machinesOf } from "./chosen.ts";
import { fillDisk, keepFull, makeRoom, refuseWrite } from "./databases.ts";
import { startImpostor } from "./impostor.ts";
import type { SimMachine } from "./machine.ts";

/** Between two looks of whoever keeps a disk full, ms. */
const FULL_MS = 1_000;

/** When the journal that had an interface was lost while it was up, ms of the world. */
export const journalLostAtMs = new WeakMap<Interface, number>();

/** What happens to disks, and to machines with other machines' disks. */
export const diskActions: ActionKinds = {
  "disk-backup": {
    weight: 0.5,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      world.counts.add("disk.backup");
      machine.disk.backUp();
    },
  },
  /** The machine comes back with its disk of earlier. */
  "disk-old": {
    weight: 0.5,
    run: (world, chance) =>
      off(world, chance.of(machinesOf(world).filter(({ disk }) => disk.hasBackup)) ?? null, chance, (machine) => {
        world.counts.add("disk.old");
        machine.disk.restoreBackup();
        world.oracle.journalLost(machine.name);
      }),
  },
  "disk-lost": {
    weight: 0.4,
    run: (world, chance) =>
      chance.happens(0.5)
        ? off(world, machineOf(world, chance), chance, (machine) => loseState(world, machine))
        : withoutDaemon(world, chance, (machine) => loseState(world, machine)),
  },
  "disk-damaged": {
    weight: 0.6,
    run: async (world, chance) => {
      const damage = (machine: SimMachine) => {
        if (!machine.disk.damage(chance)) return;
        noteLost(world, machine);
        world.counts.add("disk.damaged");
        world.story.tell(machine.name, "a page of its database is damaged");
      };
      // While it is in use, or while nobody looks.
      if (!chance.happens(0.5)) return withoutDaemon(world, chance, damage);
      const machine = machineOf(world, chance);
      if (machine !== null) damage(machine);
    },
  },
  "disk-full": {
    weight: 0.6,
    run: async (world, chance) => {
      const machine = machineOf(world, chance);
      if (!machine?.daemon) return;
      world.counts.add("disk.full");
      world.story.tell(machine.name, "its disk is full");
      fillDisk(machine.disk.state);
      for (let leftMs = chance.between(2_000, 30_000); leftMs > 0 && world.faults.isOn; leftMs -= FULL_MS) {
        keepFull(machine.disk.state);
        await sleep(world.clock, FULL_MS);
      }
      makeRoom(machine.disk.state);
      world.story.tell(machine.name, "its disk has room again");
    },
  },
  "disk-refuses": {
    weight: 0,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (!machine?.daemon) return;
      world.counts.add("disk.refuses");
      world.story.tell(machine.name, "its disk refuses the next write");
      refuseWrite(machine.disk.state);
    },
  },
  /** Another machine gets a copy of the disk, under its own name. */
  "node-clone": {
    weight: 0.3,
    run: (world, chance) => {
      const from = machineOf(world, chance);
      if (from === null) return;
      return off(world, chance.of(machinesOf(world).filter((one) => one !== from)) ?? null, chance, (machine) => {
        world.counts.add("node.clone");
        world.story.tell(machine.name, `gets a copy of the disk of ${from.name}`);
        machine.disk.clone(from.disk);
        noteLost(world, machine);
      });
    },
  },
  /** A machine goes on under another node's name, which was of another machine. */
  "node-rename": {
    weight: 0.3,
    run: async (world, chance) => {
      const [one, other] = twoOf(world, chance);
      if (one === undefined || other === undefined) return;
      world.counts.add("node.rename");
      one.losePower();
      await off(world, other, chance, (machine) => {
        if (one.isUp) return;
        world.story.tell(machine.name, `is what ${one.name} was`);
        machine.disk.clone(one.disk);
        one.disk.lose();
        for (const renamed of [one, machine]) noteLost(world, renamed);
      });
      if (!one.isUp) one.boot();
    },
  },
  "node-impostor": {
    weight: 0.4,
    run: async (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      world.counts.add("node.impostor");
      const end = startImpostor(world, machine, {
        number: chance.below(2 ** 32),
        withDisk: chance.happens(0.6),
      });
      for (let leftMs = chance.between(5_000, 60_000); leftMs > 0 && world.faults.isOn; leftMs -= 1_000)
        await sleep(world.clock, 1_000);
      end();
    },
  },
};

function loseState(world: World, machine: SimMachine): void {
  world.counts.add("disk.lost");
  world.story.tell(machine.name, "its state directory is lost");
  machine.disk.lose();
  noteLost(world, machine);
}

/** Its next journal learns from the API what runs, and that has no namespaces. */
function noteLost({ oracle, time }: World, { name, interfaces }: SimMachine): void {
  oracle.journalLost(name);
  for (const one of interfaces.keys()) {
    one.isUnseen = true;
    journalLostAtMs.set(one, time.nowMs);
  }
}

/** Two machines, the first of them up. */
function twoOf(world: World, chance: Chance): SimMachine[] {
  const one = machineOf(world, chance);
  const other = chance.of(machinesOf(world).filter((machine) => machine !== one));
  return one === null || other === undefined ? [] : [one, other];
}

/** Does it while the machine is off, and turns it on again. */
async function off(
  world: World,
  machine: SimMachine | null,
  chance: Chance,
  work: (machine: SimMachine) => void,
): Promise<void> {
  if (machine === null) return;
  machine.losePower();
  await sleep(world.clock, chance.between(500, 10_000));
  // Somebody else has turned it on meanwhile.
  if (machine.isUp) return;
  work(machine);
  machine.boot();
}

/** Does it while no daemon runs on a machine. */
async function withoutDaemon(world: World, chance: Chance, work: (machine: SimMachine) => void): Promise<void> {
  const machine = machineOf(world, chance);
  if (!machine?.daemon) return;
  machine.killDaemon();
  await sleep(world.clock, 100);
  if (machine.isDiskIdle) work(machine);
}
