import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, Machine, World } from "../../world.ts";
import { askCluster, askNode, type Told } from "./commands.ts";
import { said } from "./releases.ts";

/** What people ask at any time. None of it may fail in itself, nor change what is in use. */
export const CHECKS: ActionKinds = {
  "people-check-node": {
    weight: 0.5,
    run: (world, chance) => onNode(world, chance, "check", { path: "/v1/check" }),
  },
  "people-check-cluster": {
    weight: 0.3,
    run: (world, chance) => {
      const query = chance.happens(0.5) ? { grace: `${chance.below(60)}` } : {};
      return inCluster(world, "check", { path: "/v1/check", query });
    },
  },
  "people-import": {
    weight: 0.3,
    run: (world, chance) => {
      const body = { dryRun: chance.happens(0.5) };
      return inCluster(world, "import", { method: "POST", path: "/v1/import", body });
    },
  },
  "people-rebuild": { weight: 0.2, run: rebuild },
  "people-look": { weight: 0.2, run: look },
};

const REBUILDS = [{ empty: true }, { from: "/nowhere/holdfast.db" }, { from: "/nowhere/holdfast.db", replace: true }];
const VIEWS = ["/v1/networks", "/v1/allocations", "/v1/claims", "/v1/history"];

/**
 * In a cluster there is nothing to rebuild: a journal that is sound stays as it is, and one that is not mends itself.
 */
async function rebuild(world: World, chance: Chance): Promise<void> {
  const body = chance.of(REBUILDS) as object;
  await onNode(world, chance, "rebuild", { method: "POST", path: "/v1/rebuild", body });
}

async function look(world: World, chance: Chance): Promise<void> {
  const path = chance.of(VIEWS) as string;
  await (chance.happens(0.5) ? onNode(world, chance, "look", { path }) : inCluster(world, "look", { path }));
}

async function onNode(world: World, chance: Chance, name: string, asked: Parameters<typeof askNode>[1]): Promise<void> {
  const machine = chance.of(world.machines.filter(({ daemon }) => daemon !== null));
  if (machine === undefined) return;
  tell(world, name, machine, await askNode(machine, asked));
}

async function inCluster(world: World, name: string, asked: Parameters<typeof askCluster>[1]): Promise<void> {
  tell(world, name, null, await askCluster(world, asked));
}

function tell(world: World, name: string, machine: Machine | null, outcome: Told): void {
  const where = machine === null ? "--kubeconfig" : `on ${machine.name}`;
  const findings: { message: string }[] = outcome.kind === "answered" ? (outcome.body.findings ?? []) : [];
  const found = findings.length === 0 ? "" : `, ${findings.length} found: ${findings[0]?.message}`;
  world.story.tell("alice", `holdfast ${name} ${where}: ${said(outcome)}${found}`);
  world.counts.add(`people.${name}.${outcome.kind}`);
}
