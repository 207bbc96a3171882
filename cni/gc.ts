import type { CniWireRequest } from "../cni-shim/wire.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { stampOfLive } from "../platform/boot-id.ts";
import { namespaceState } from "../platform/namespaces.ts";
import type { CniContext } from "./context.ts";
import { readConfig } from "./request.ts";

const KEY = "cni.dev/valid-attachments";

/**
 * GC: ends this node's attachments of the named network that the runtime does not list and whose network namespace is
 * gone; in Kubernetes only those whose pod has ended too. Other networks and claims are left alone. Throws RefusalError
 * GC_LIST_MISSING, CONFIG_INVALID, BOOT_MISMATCH.
 */
export async function cniGc(context: CniContext, wire: CniWireRequest): Promise<void> {
  const { conf } = readConfig(wire.config, "GC", "1.1.0");
  const network = conf.name;
  if (typeof network !== "string" || network === "") {
    throw new RefusalError(
      refuse("CONFIG_INVALID", {
        key: "name",
        value: String(network),
        remedy: "expected the name of the network to collect",
      }),
    );
  }
  const valid = readValid(conf[KEY]);
  const stamp = stampOfLive(context.machine, wire);
  for (const attachment of context.store.attachmentsOfNetwork(network)) {
    if (valid.has(`${attachment.containerId}/${attachment.interface}`)) continue;
    const state = namespaceState(context.machine.namespaceIdAt, attachment.netns);
    if (state !== "gone" && state !== "never-there") continue;
    if (context.cluster !== null && !(await context.cluster.podHasEnded(attachment.pod))) continue;
    if (await context.store.endAttachment(attachment, "GC", stamp)) {
      context.log.info(
        { network, containerId: attachment.containerId, interface: attachment.interface },
        "ended by GC",
      );
    }
  }
}

function readValid(list: unknown): Set<string> {
  if (list === undefined || list === null) throw new RefusalError(refuse("GC_LIST_MISSING", {}));
  const wanted = 'expected a list of {"containerID": …, "ifname": …}';
  if (!Array.isArray(list)) invalid(list, wanted);
  return new Set(
    list.map((one: unknown) => {
      const { containerID, ifname } = (one ?? {}) as { containerID?: unknown; ifname?: unknown };
      if (typeof containerID !== "string" || typeof ifname !== "string") invalid(one, wanted);
      return `${containerID}/${ifname}`;
    }),
  );
}

function invalid(value: unknown, remedy: string): never {
  throw new RefusalError(refuse("CONFIG_INVALID", { key: KEY, value: JSON.stringify(value), remedy }));
}
