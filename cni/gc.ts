import type { CniWireRequest } from "../cni-shim/wire.ts";
import { isGiven } from "../ipam/definition/definition-keys.ts";
import type { Configuration } from "../ipam/definition/read-keys.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { CniContext } from "./context.ts";
import { readConfig, stampOfLive } from "./request.ts";

/** The specification's two names for the list: libcni writes the first, the section about GC the second. */
const KEYS = ["cni.dev/valid-attachments", "cni.dev/attachments"] as const;

/**
 * Of the named network alone, and no claim: ends what the runtime does not list and whose network namespace is gone; in
 * Kubernetes only if its pod has ended too. Throws RefusalError GC_LIST_MISSING, CONFIG_INVALID.
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
  const valid = readValid(conf);
  const stamp = stampOfLive(context, wire);
  for (const attachment of context.store.attachmentsOfNetwork(network)) {
    if (valid.has(`${attachment.containerId}/${attachment.interface}`)) continue;
    const state = context.namespaces.stateOf(attachment.netns);
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

/** Of two lists, what either of them names is valid. */
function readValid(conf: Configuration): Set<string> {
  const given = KEYS.filter((key) => isGiven(conf[key]));
  if (given.length === 0) throw new RefusalError(refuse("GC_LIST_MISSING", {}));
  return new Set(given.flatMap((key) => readList(key, conf[key])));
}

function readList(key: string, list: unknown): string[] {
  const wanted = 'expected a list of {"containerID": …, "ifname": …}';
  if (!Array.isArray(list)) invalid(key, list, wanted);
  return list.map((one: unknown) => {
    const { containerID, ifname } = (one ?? {}) as { containerID?: unknown; ifname?: unknown };
    if (typeof containerID !== "string" || typeof ifname !== "string") invalid(key, one, wanted);
    return `${containerID}/${ifname}`;
  });
}

function invalid(key: string, value: unknown, remedy: string): never {
  throw new RefusalError(refuse("CONFIG_INVALID", { key, value: JSON.stringify(value), remedy }));
}
