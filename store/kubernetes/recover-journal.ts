import type { InterfaceAddress } from "../../ipam/cidr.ts";
import { parseInterfaceAddress } from "../../ipam/cidr.ts";
import { type NetworkDefinition, parsePluginConfig } from "../../ipam/network-definition.ts";
import { placeOf } from "../../ipam/range-set.ts";
import type { AttachWant } from "../allocations.ts";
import type { NodeContext } from "../node-context.ts";
import { record } from "../sqlite/attachment-journal.ts";
import type { Ledger } from "../sqlite/ledger.ts";
import type { StateFolder } from "../sqlite/state-folder.ts";
import { isSound } from "./allocation-object.ts";
import type { KubeApi } from "./kube-api.ts";
import { ALLOCATIONS_PATH, type AllocationAttachment, type IPAllocation } from "./objects.ts";
import { fromAllocationOwner } from "./owners.ts";

interface Found {
  readonly attachment: AllocationAttachment;
  readonly object: IPAllocation;
  readonly addresses: InterfaceAddress[];
}

/**
 * A journal that knows nothing at all, on a node that was installed anew, learns from the API what containers of
 * this node use: otherwise their DELs would find nothing to give back. Their namespaces were never seen, so the witness
 * leaves them alone. Returns how many. Throws ApiAway.
 */
export async function recoverJournal(parts: {
  readonly api: KubeApi;
  readonly folder: StateFolder;
  readonly context: NodeContext;
  definitionOf(network: string): { readonly definition: NetworkDefinition } | null;
}): Promise<number> {
  const { api, folder, context } = parts;
  if (!isBlank(folder.ledger)) return 0;
  const found = new Map<string, Found>();
  await api.list({
    path: ALLOCATIONS_PATH,
    each: (object: IPAllocation) => {
      if (!isSound(object) || object.status?.state !== "Bound") return;
      for (const [key, attachment] of Object.entries(object.status.attachments ?? {})) {
        if (attachment.node !== context.node) continue;
        const id = `${object.spec.network} ${key}`;
        const known = found.get(id) ?? { attachment, object, addresses: [] };
        known.addresses.push(parseInterfaceAddress(object.spec.address));
        found.set(id, known);
      }
    },
    restarted: () => found.clear(),
  });
  let recovered = 0;
  for (const one of found.values()) {
    const { network } = one.object.spec;
    const definition = parts.definitionOf(network)?.definition ?? bare(network);
    const order = ({ address }: InterfaceAddress) => placeOf(definition.rangeSets, address)?.index ?? 0;
    const addresses = one.addresses.toSorted((a, b) => order(a) - order(b));
    recovered += await folder.write((ledger, transaction) => {
      const space = ledger.networkOf(network, transaction);
      const { containerID, interface: interfaceName } = one.attachment;
      if (ledger.sql.attachment.get(containerID, interfaceName, space.id)) return 0;
      const owner = fromAllocationOwner(one.object.spec.owner);
      record(ledger, space, definition, owner, wantOf(one, definition, context), addresses);
      return 1;
    });
  }
  return recovered;
}

/** One that has owed or past entries was not lost: what the API still shows was never answered, or has been deleted since. */
function isBlank({ sql }: Ledger): boolean {
  const past = sql.recentHistory.all(null, null, Number.MAX_SAFE_INTEGER, 1);
  const entries = [sql.attachmentsAfter.all(0, 1), sql.owedAfter.all(0, 1), sql.intents.all(), past];
  return entries.every(({ length }) => length === 0);
}

/** Older than anything that this boot's runtime asks for, so that every DEL of it counts. */
function wantOf(
  { attachment, object }: Found,
  definition: NetworkDefinition,
  context: NodeContext,
): AttachWant {
  const { owner, network, mac } = object.spec;
  return {
    network,
    definition,
    definitionSource: "",
    containerId: attachment.containerID,
    interface: attachment.interface,
    stamp: { bootId: context.bootId, us: 0 },
    netns: { path: "", id: "", witnessed: false },
    pod: attachment.pod ?? null,
    claim: owner.kind === "IPAMClaim" ? { namespace: owner.namespace, name: owner.name } : null,
    requested: [],
    ...(mac === undefined ? {} : { mac }),
    onePerFamily: false,
  };
}

function bare(network: string): NetworkDefinition {
  return parsePluginConfig({ name: network, ipam: { type: "holdfast-ipam" } });
}
