import type { NodeContext } from "../node-context.ts";
import { BOOT } from "../sqlite/former-boots.ts";
import type { StateFolder } from "../sqlite/state-folder.ts";
import { addressOf, isSound } from "./allocation-object.ts";
import { owe } from "./journal.ts";
import type { KubeApi } from "./kube-api.ts";
import { ALLOCATIONS_PATH, type AllocationAttachment, type IPAllocation } from "./objects.ts";
import { fromAllocationOwner } from "./owners.ts";

/**
 * Once after a reboot: intents outlive the process but not the power, so an ADD that was under way then may have reserved
 * what the journal does not know. No container of that boot is alive: whatever the API has of this node and the journal
 * has not is owed. Returns how many addresses. Throws ApiAway.
 */
export async function settleFormerBoot(parts: {
  readonly api: KubeApi;
  readonly folder: StateFolder;
  readonly context: NodeContext;
}): Promise<number> {
  const { api, folder, context } = parts;
  const before = folder.ledger.sql.meta.get(BOOT)?.value;
  if (before === context.bootId) return 0;
  const unknown: { object: IPAllocation; attachment: AllocationAttachment }[] = [];
  if (before !== undefined) {
    await api.list({
      path: ALLOCATIONS_PATH,
      each: (object: IPAllocation) => {
        if (!isSound(object)) return;
        for (const attachment of Object.values(object.status?.attachments ?? {})) {
          if (attachment.node === context.node) unknown.push({ object, attachment });
        }
      },
      restarted: () => {
        unknown.length = 0;
      },
    });
  }
  return folder.write((ledger) => {
    let owed = 0;
    for (const { object, attachment } of unknown) {
      const { containerID: containerId, interface: interfaceName } = attachment;
      const { network } = object.spec;
      const space = ledger.networks.get(network);
      if (space && ledger.sql.attachment.get(containerId, interfaceName, space.id)) continue;
      const owner = fromAllocationOwner(object.spec.owner);
      owe(ledger, {
        network,
        address: addressOf(object),
        owner,
        containerId,
        interface: interfaceName,
        uncertain: false,
      });
      owed += 1;
    }
    ledger.sql.putMeta.run(BOOT, context.bootId);
    return owed;
  });
}
