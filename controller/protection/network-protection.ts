import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { WriteOutcome } from "../../kube/answers.ts";
import type { EventObject, EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { labelSelector, networkObjectName } from "../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  API_VERSION,
  type IPAllocation,
  type IPNetwork,
  LABEL_NETWORK,
  NETWORK_FINALIZER,
  NETWORKS_PATH,
  objectPath,
} from "../../kube/objects.ts";
import { IMPORTED } from "../../networks/import-sources.ts";
import { isAdministratorsWord } from "../../networks/network-owner.ts";
import type { Log } from "../../platform/log.ts";

export interface NetworkProtectionOptions {
  readonly api: KubeApi;
  readonly allocations: Cache<CachedAllocation>;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * The finalizer of IPNetworks. Whoever deletes one, and be it the garbage collector, only marks it: while an address of
 * its network is in use it stays, with the record of whose the network is, and then it goes. See docs/decisions/0055.
 */
export class NetworkProtection {
  readonly #options: NetworkProtectionOptions;
  readonly #objects: ObjectClient;

  constructor(options: NetworkProtectionOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { networks, allocations, idle } = this.#options;
    if (!networks.known || !allocations.known) return;
    for (const { object } of networks.items.values()) {
      if (signal.aborted || idle() !== null) return;
      const { deletionTimestamp, finalizers = [] } = object.metadata;
      const isProtected = finalizers.includes(NETWORK_FINALIZER);
      if (deletionTimestamp !== undefined) {
        if (isProtected) await this.#letGo(object);
      } else if (isMisnamed(object) && !isAdministratorsWord(object)) await this.#delete(object);
      else if (!isProtected) await this.#setFinalizers(object, [...finalizers, NETWORK_FINALIZER]);
    }
  }

  async #letGo(object: IPNetwork): Promise<void> {
    const reason = await this.#whyKept(object);
    const { metadata, spec } = object;
    if (reason !== null) {
      const message = `it is being deleted, and stays until then: ${reason}`;
      this.#options.events.warn(networkEventObject(object), "DeletionWaits", message);
      return;
    }
    const others = (metadata.finalizers ?? []).filter((one) => one !== NETWORK_FINALIZER);
    const written = await this.#setFinalizers(object, others);
    if (written.kind === "done")
      this.#options.log.info({ network: spec?.network, object: metadata.name }, "let the deleted IPNetwork go");
  }

  /** It would keep the network whose name it has from being recorded. */
  async #delete({ metadata: { name, uid, resourceVersion }, spec }: IPNetwork): Promise<void> {
    const { log } = this.#options;
    const written = await this.#objects.delete(objectPath(NETWORKS_PATH, name), { uid, resourceVersion });
    warnRefused(log, name, written);
    if (written.kind === "done")
      log.warn({ object: name, network: spec?.network }, "deleted an IPNetwork with another network's name");
  }

  /** null: it may go. */
  async #whyKept(object: IPNetwork): Promise<string | null> {
    const { api, allocations } = this.#options;
    if (isMisnamed(object)) return null;
    const { network } = object.spec;
    const isCounted = (one: CachedAllocation) => one.network === network && isInUse(one.object, network);
    const cached = [...allocations.items.values()].filter(isCounted).length;
    const count = cached > 0 ? cached : await countAllocations(api, network, isInUse);
    if (count > 0) return `${count} addresses of network ${network} are in use`;
    return isUnderWay(object) ? `network ${network} recovers` : null;
  }

  async #setFinalizers({ metadata }: IPNetwork, finalizers: readonly string[]): Promise<WriteOutcome> {
    const { name, uid, resourceVersion } = metadata;
    const body = { metadata: { uid, resourceVersion, finalizers } };
    const written = await this.#objects.patch(objectPath(NETWORKS_PATH, name), body);
    warnRefused(this.#options.log, name, written);
    return written;
  }
}

export function networkEventObject({ metadata: { name, uid } }: IPNetwork): EventObject {
  return { apiVersion: API_VERSION, kind: "IPNetwork", name, uid };
}

/** After a conflict the next pass sees the other writer's version. */
export function warnRefused(log: Pick<Log, "warn">, name: string, written: WriteOutcome): void {
  if (written.kind !== "refused") return;
  const { status, body } = written.answer;
  log.warn({ object: name, status, problem: body?.message }, "IPNetwork not written");
}

/** It has the name of another network's, so it protects nothing. */
function isMisnamed({ metadata, spec }: IPNetwork): boolean {
  return typeof spec?.network !== "string" || networkObjectName(spec.network) !== metadata.name;
}

/** Something is going on in the network that its IPNetwork tells everybody. */
export function isUnderWay({ status }: IPNetwork): boolean {
  return (status?.conditions ?? []).some(({ type, status: is }) => type !== IMPORTED && is === "True");
}

export function isOf({ spec }: IPAllocation, network: string): boolean {
  return spec?.network === network;
}

export function isInUse(object: IPAllocation, network: string): boolean {
  return isOf(object, network) && object.status?.state !== "Cooling";
}

/** The allocations of a network that count, by a quorum read. Throws ApiAway. */
export async function countAllocations(api: KubeApi, network: string, counts: typeof isOf): Promise<number> {
  let count = 0;
  await api.list({
    path: ALLOCATIONS_PATH,
    query: { labelSelector: labelSelector(LABEL_NETWORK, network) },
    each: (object: IPAllocation) => {
      if (counts(object, network)) count += 1;
    },
    restarted: () => {
      count = 0;
    },
  });
  return count;
}
