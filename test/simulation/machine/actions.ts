import type { KillPoint } from "../../../platform/kill-point.ts";
import { sleep } from "../../../platform/time.ts";
import type { Chance } from "../engine/chance.ts";
import type { ActionKind, ActionKinds, World } from "../world.ts";
import { MACHINE_COUNTS, machineOf } from "./chosen.ts";
import { defaultNetworkActions } from "./default-network.ts";
import { diskActions } from "./disk-actions.ts";
import { runtimeActions } from "./runtime-actions.ts";
import { switchOverActions } from "./switch-over.ts";

/** Those that a daemon with an API server passes: a transaction has one of its own only where there is none. */
const KILL_POINTS: readonly KillPoint[] = [
  "before-commit",
  "after-commit",
  "after-intent",
  "after-reserve",
  "before-publish",
  "after-publish",
  "before-answer",
];

/** What happens to machines and the processes on them. */
export const machineActions: ActionKinds = {
  "daemon-kill": {
    weight: 2,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (!machine?.daemon) return;
      world.counts.add("crash.anywhere");
      machine.killDaemon();
    },
  },
  "daemon-kill-point": {
    weight: 4,
    run: (world, chance) => {
      const point = chance.of(KILL_POINTS) as KillPoint;
      machineOf(world, chance)?.killAt(point, chance.between(1, 3));
    },
  },
  ...killsInTurn(),
  "daemon-restart": {
    weight: 1,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (!machine?.daemon) return;
      world.counts.add("daemon.restart");
      machine.restartDaemon();
    },
  },
  "daemon-upgrade": { weight: 0.4, run: upgrade },
  "daemon-stop": {
    weight: 1.5,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (!machine?.daemon) return;
      world.counts.add("daemon.stopped");
      machine.stopDaemon(chance.happens(0.5) ? chance.between(100, 3_000) : chance.between(3_000, 40_000));
    },
  },
  "node-power-loss": {
    weight: 0.8,
    run: async (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      machine.losePower();
      const isLong = chance.happens(0.3);
      if (isLong) world.counts.add("node.long-absence");
      await sleep(world.clock, isLong ? chance.between(60_000, 300_000) : chance.between(1_000, 20_000));
      if (!machine.isUp) machine.boot();
    },
  },
  "node-absence": {
    weight: 0,
    isInTurn: true,
    run: async (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      machine.losePower();
      world.counts.add("node.long-absence");
      await sleep(world.clock, chance.between(120_000, 200_000));
      if (!machine.isUp) machine.boot();
    },
  },
  "node-reboot": {
    weight: 0.5,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      world.counts.add("node.reboot");
      machine.boot();
    },
  },
  "node-suspend": {
    weight: 0.5,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      world.counts.add("node.suspend");
      machine.suspend(chance.happens(0.5) ? chance.between(500, 5_000) : chance.between(5_000, 120_000));
    },
  },
  "node-clock-jump": {
    weight: 0.5,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      world.counts.add("node.clock-jump");
      const ms = chance.of([1_000, 60_000, 3_600_000, 400 * 86_400_000]) as number;
      machine.clock.jump(chance.happens(0.5) ? ms : -ms);
    },
  },
  "kubelet-restart": {
    weight: 1,
    run: (world, chance) => {
      const machine = machineOf(world, chance);
      if (machine === null) return;
      world.counts.add("kubelet.restart");
      machine.startKubelet();
    },
  },
  ...runtimeActions,
  ...diskActions,
  ...switchOverActions,
  ...defaultNetworkActions,
} satisfies Record<string, ActionKind>;

/** Each point in its turn: of so many some are passed by nobody in a history, by chance. */
function killsInTurn(): ActionKinds {
  return Object.fromEntries(
    KILL_POINTS.map((point) => [
      `daemon-kill-${point}`,
      {
        weight: 0,
        isInTurn: true,
        run: (world, chance) => machineOf(world, chance)?.killAt(point, 1),
      } satisfies ActionKind,
    ]),
  );
}

/** Names of counts, none of which may be zero after a long run. */
export const MACHINE_OWED: readonly string[] = [...KILL_POINTS.map((point) => `crash.${point}`), ...MACHINE_COUNTS];

/** The package is replaced: the daemon ends, and one of another version begins. */
async function upgrade(world: World, chance: Chance): Promise<void> {
  const machine = machineOf(world, chance);
  if (!machine?.daemon) return;
  world.counts.add("daemon.upgrade");
  await machine.turnDaemonOff();
  await sleep(world.clock, chance.between(100, 6_000));
  machine.version = machine.version === "1.0.0" ? "1.1.0" : "1.0.0";
  machine.startDaemon();
}
