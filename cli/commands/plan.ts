import type { Command } from "commander";
import type { PlanItem } from "../../admin/admin-api.ts";
import type { Clock } from "../../platform/time.ts";
import { withFiles } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import { EXIT } from "../failure.ts";
import { inBatches, type Placed, readManifests } from "../manifests/run.ts";
import { formatOf, isTable, printList, withList } from "../output.ts";
import { note } from "../terminal.ts";

/** Exit 1: a VM does not get an address that it asks for. */
export function addPlan(program: Command, clock: Clock): void {
  withFiles(withList(program.command("plan")))
    .usage("[options] -f <file> | --kubeconfig <file> [-n <namespace>]")
    .description("whether VMs would get the addresses that they ask for; changes nothing")
    .option("-n, --namespace <name>", "of VMs in files without one; without files: of the VMs of the cluster")
    .action(async ({ filename, namespace }: { filename?: string[]; namespace?: string }, command: Command) => {
      const client = clientOf(command);
      const around = namespace === undefined ? {} : { namespace };
      const items: PlanItem[] = [];
      if (filename === undefined && client.kind === "node")
        command.error("error: expected the VMs: a file of them (-f), or a cluster (--kubeconfig)");
      if (filename === undefined) items.push(...(await client.post("/v1/plan", around)).items);
      else {
        const placed = await readManifests(clock, filename, "VirtualMachine");
        await inBatches(clock, placed, async (batch) => {
          const objects = batch.map(({ object }) => object);
          const answer = await client.post("/v1/plan", { objects, ...around });
          items.push(...answer.items.map((item) => withPlace(item, batch, around)));
        });
      }
      const planned = withDuplicates(items);
      // What could not be read is reported already.
      if (planned.length === 0 && process.exitCode !== undefined) return;
      const format = formatOf(command);
      await printList(command, {
        items: planned,
        columns: [
          { header: "VM", cell: ({ vm }) => vm },
          { header: "NETWORK", cell: ({ network }) => network },
          { header: "ADDRESS", cell: ({ address }) => address },
          { header: "ON", cell: ({ on }) => on ?? "" },
          {
            header: "RESULT",
            cell: ({ state, message }) => (state === "fits" ? "fits" : (message ?? state)),
            colour: ({ state }) => (state === "refused" ? "red" : null),
          },
        ],
        empty: "no VM asks for an address (annotation network.kubevirt.io/addresses)",
      });
      const refused = planned.filter(({ state }) => state === "refused").length;
      if (refused === 0) return;
      process.exitCode = EXIT.refused;
      if (isTable(format)) note(`${refused} of ${planned.length} addresses would be refused`);
    });
}

/** Of a VM whose request cannot be read, the message says where it stands. */
function withPlace(item: PlanItem, batch: readonly Placed[], { namespace }: { namespace?: string }): PlanItem {
  if (item.network !== "") return item;
  const found = batch.find(({ object }) => {
    const { metadata } = object as { metadata?: { name?: unknown; namespace?: unknown } };
    const at = metadata?.namespace ?? namespace;
    return at === undefined ? item.vm.endsWith(`/${metadata?.name}`) : item.vm === `${at}/${metadata?.name}`;
  });
  return found === undefined ? item : { ...item, message: `${found.place}: ${item.message}` };
}

/** Of two that ask for one address the first gets it, and the other gets nothing of what it asks for. */
function withDuplicates(items: readonly PlanItem[]): PlanItem[] {
  const first = new Map<string, PlanItem>();
  const byInterface = new Map<string, PlanItem[]>();
  for (const item of items) {
    const key = `${item.vm} ${item.network}`;
    byInterface.set(key, [...(byInterface.get(key) ?? []), item]);
  }
  return [...byInterface.values()].flatMap((asked) => {
    if (asked.some(({ state }) => state !== "fits")) return asked;
    const taken = asked.map((item) => ({ item, by: first.get(addressOf(item)) })).find(({ by }) => by);
    if (taken?.by === undefined) {
      for (const item of asked) first.set(addressOf(item), item);
      return asked;
    }
    const { item, by } = taken;
    const who = by.vm === item.vm ? `its network ${by.network}` : `VM ${by.vm}`;
    const message = `${who} asks for ${item.address}, too`;
    return asked.map((one) => ({
      ...one,
      state: "refused" as const,
      code: "ADDRESS_TAKEN" as const,
      message,
    }));
  });
}

function addressOf({ on, address }: PlanItem): string {
  return `${on} ${address}`;
}
