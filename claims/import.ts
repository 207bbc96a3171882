import { mergeCondition } from "../ipam/claim-conditions.ts";
import { ApiAway, type KubeApi } from "../store/kubernetes/kube-api.ts";
import { networkObjectName } from "../store/kubernetes/object-names.ts";
import {
  API_VERSION,
  CLAIMS_PATH,
  type IPNetwork,
  NETWORKS_PATH,
  objectPath,
  PODS_PATH,
} from "../store/kubernetes/objects.ts";
import { createAllocation } from "./create-allocation.ts";
import type { DefinitionBook } from "./definition-book.ts";
import { type ImportCandidate, ImportCandidates } from "./import-candidates.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "./kube/read-object.ts";
import { readNetworkObject } from "./network-object.ts";

/** The condition of an IPNetwork: every address from before Holdfast has its allocation. */
const IMPORTED = "Imported";
/** Objects created side by side: an import of thousands must end within minutes, and others use the server too. */
const CREATED_AT_ONCE = 16;
/** Writers that may come in between when the condition is set; each is one of few controllers and daemons. */
const CONDITION_ATTEMPTS_MAX = 10;
const CONFLICT = 409;

export interface ImportOptions {
  /** Which network a NAD belongs to, and the definition that counts; complete, or addresses would be missed. */
  readonly definitions: Pick<DefinitionBook, "definitionOf" | "networkOfNad">;
  /** RFC 3339, for people. */
  readonly time: () => string;
  /** Also when it was done before: another NAD has joined the network, whose pods have addresses of it. */
  readonly again?: boolean;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

export type ImportResult =
  | { readonly kind: "done-before" }
  | {
      readonly kind: "imported";
      readonly created: number;
      /** Had their allocation already, whoever owns it. */
      readonly existed: number;
      /** What could not be read, a sentence each. */
      readonly problems: readonly string[];
    };

/**
 * Makes an allocation of every address of a network that claims and living pods already have, then says so in the
 * condition `Imported` of its IPNetwork. Before that nobody may allocate there. Any number may do it at once, and be
 * stopped anywhere. Throws ApiAway when it is not done.
 */
export async function importNetwork(
  api: KubeApi,
  network: string,
  options: ImportOptions,
): Promise<ImportResult> {
  if (!options.again && isImported(await readNetworkObject(api, network))) return { kind: "done-before" };
  const candidates = new ImportCandidates(network, options.definitions);
  // Claims first: a pod whose claim is known gives its address to the claim. Without the definition there are none.
  await api.list({
    path: CLAIMS_PATH,
    each: (object) => candidates.addClaim(object),
    restarted: () => candidates.forgetClaims(),
  });
  const pods = await api.list({
    path: PODS_PATH,
    each: (object) => candidates.addPod(object),
    restarted: () => candidates.forgetPods(),
  });
  if (pods.kind === "missing") throw new ApiAway("the server does not know pods");
  const all = candidates.all();
  const created = await createAll(api, network, all, options);
  const result = { kind: "imported", created, existed: all.length - created } as const;
  for (const problem of candidates.problems.slice(0, 20))
    options.log.warn({ network, problem }, "not imported");
  await setImported(api, network, all.length, options.time());
  options.log.info({ network, created, existed: result.existed }, "addresses in use are imported");
  return { ...result, problems: candidates.problems };
}

/** Whether the network's addresses from before Holdfast are all recorded. */
export function isImported(object: IPNetwork | null): boolean {
  const condition = object?.status?.conditions?.find(({ type }) => type === IMPORTED);
  return condition?.status === "True";
}

async function createAll(
  api: KubeApi,
  network: string,
  all: readonly ImportCandidate[],
  { time }: ImportOptions,
): Promise<number> {
  const queue = [...all];
  let created = 0;
  const worker = async () => {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      const { kind } = await createAllocation(api, network, next.one, next.holder, time());
      if (kind === "created") created += 1;
    }
  };
  const workers = await Promise.allSettled(Array.from({ length: CREATED_AT_ONCE }, worker));
  for (const one of workers) if (one.status === "rejected") throw one.reason;
  return created;
}

/** Others write counts into the same object: each attempt carries the version just read. */
async function setImported(api: KubeApi, network: string, count: number, time: string): Promise<void> {
  const condition = {
    type: IMPORTED,
    status: "True",
    reason: "Imported",
    message: `${count} addresses were in use before`,
    lastTransitionTime: time,
  } as const;
  for (let attempt = 0; attempt < CONDITION_ATTEMPTS_MAX; attempt++) {
    const known = await readNetworkObject(api, network);
    if (isImported(known)) return;
    const name = known?.metadata.name ?? networkObjectName(network);
    const conditions = mergeCondition(known?.status?.conditions ?? [], condition);
    const { status, body } = await api.send({
      ...(known === null
        ? {
            method: "POST",
            path: NETWORKS_PATH,
            body: {
              apiVersion: API_VERSION,
              kind: "IPNetwork",
              metadata: { name },
              spec: { network },
              status: { conditions },
            },
          }
        : {
            method: "PATCH",
            patch: "merge",
            path: objectPath(NETWORKS_PATH, name),
            body: { metadata: { resourceVersion: known.metadata.resourceVersion }, status: { conditions } },
          }),
      priority: "housekeeping",
      deadlineMs: performance.now() + HOUSEKEEPING_DEADLINE_MS,
    });
    if (status < 300) return;
    if (status !== CONFLICT && status !== 404) {
      throw new ApiAway(`IPNetwork ${name}: ${status} ${body?.message ?? ""}`);
    }
  }
  throw new ApiAway(`IPNetwork of ${network}: others kept writing it`);
}
