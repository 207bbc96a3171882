import type { KubeApi } from "../../kube/kube-api.ts";
import {
  CLAIMS_PATH,
  NADS_PATH,
  NODES_PATH,
  namespacedPath,
  objectPath,
  PODS_PATH,
} from "../../kube/objects.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import type { SingleFlight } from "../../platform/single-flight.ts";
import type { Clock } from "../../platform/time.ts";
import { DefinitionCatalog, projectNad } from "../definition-catalog.ts";
import { claimFact, nodeFact, type SweptPod, sweptPod } from "./fact-views.ts";
import { type Facts, type Found, present, UNKNOWN } from "./facts.ts";
import { freshMachineFacts } from "./fresh-machine-facts.ts";
import { listFacts, readFact } from "./fresh-read.ts";
import type { MachineMemory } from "./machine-facts.ts";

/** Facts that one verdict may require one after the other; more than any allocation has attachments. */
const ROUNDS_MAX = 64;

/** Facts that cannot be read from the API. */
export interface RememberedFacts {
  readonly machines: MachineMemory;
  /** Decisions that are made at the same time share what many of them ask for. */
  readonly sharedReads: SingleFlight<Found<unknown>>;
  /** Whether the pod is attached to an address of the claim. */
  readonly attachedToClaim: (pod: SweptPod, claimUid: string) => boolean;
  readonly wasSeenStopped: Facts["wasSeenStopped"];
}

/**
 * Runs `decide` on quorum reads alone: facts that it asks for and that are not read yet are read, and it runs again,
 * until it has all of them. Facts that cannot be read stay unknown. Never throws when the server is away.
 */
export async function decideFresh<T>(
  api: KubeApi,
  { attachedToClaim, wasSeenStopped, machines, sharedReads }: RememberedFacts,
  decide: (facts: Facts) => T,
): Promise<T> {
  const answers = new Map<string, Found<unknown>>();
  for (let round = 0; ; round++) {
    const missing = new Map<string, () => Promise<Found<unknown>>>();
    const ask = <F>(question: string, read: () => Promise<Found<F>>): Found<F> => {
      const known = answers.get(question);
      if (known === undefined) missing.set(question, read);
      return (known ?? UNKNOWN) as Found<F>;
    };
    const decision = decide({
      ...freshMachineFacts({ api, machines, sharedReads }, ask),
      claim: (namespace, name) =>
        ask(`claim ${namespace}/${name}`, () =>
          readFact(api, [namespacedPath(CLAIMS_PATH, namespace, name)], (it) => claimFact(projectClaim(it))),
        ),
      pod: (namespace, name) =>
        ask(`pod ${namespace}/${name}`, () =>
          readFact(api, [namespacedPath(PODS_PATH, namespace, name)], podFact),
        ),
      networkOfNad: (nad) => {
        const [namespace = "", name = ""] = nad.split("/");
        return ask(`nad ${nad}`, async () => {
          const found = await readFact(api, [namespacedPath(NADS_PATH, namespace, name)], (it) =>
            networkOfNad(it, api.clock),
          );
          return found.kind === "present" && found.it !== null ? present(found.it) : UNKNOWN;
        });
      },
      node: (name) =>
        ask(`node ${name}`, () =>
          readFact(api, [objectPath(NODES_PATH, name)], (it) => nodeFact(it as { status?: unknown })),
        ),
      wasSeenStopped,
      podsNaming: (namespace, claim) => {
        const pods = ask(`pods ${namespace}`, () =>
          listFacts(api, namespacedPath(PODS_PATH, namespace), podFact),
        );
        if (pods.kind !== "present") return UNKNOWN;
        const naming = pods.it.filter((pod) => !pod.terminal && pod.claims.includes(claim));
        return present(
          naming.map((pod) => ({ ...pod, attachedToClaim: (uid) => attachedToClaim(pod, uid) })),
        );
      },
    });
    if (missing.size === 0 || round === ROUNDS_MAX) return decision;
    for (const [question, read] of missing) answers.set(question, await read());
  }
}

/** null: it is not ours, or invalid. */
function networkOfNad(object: unknown, clock: Clock): string | null {
  const nad = projectNad(object);
  const catalog = new DefinitionCatalog(clock);
  catalog.upsert(nad);
  return catalog.networkOfNad(nad.key);
}

function podFact(object: unknown): SweptPod {
  return sweptPod(projectPod(object, { addresses: true }));
}
