import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
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
import type { Clock } from "../../platform/time.ts";
import { DefinitionBook, projectNad } from "../definition-book.ts";
import { claimFact, nodeFact, type SweptPod, sweptPod } from "./fact-views.ts";
import { ABSENT, type Facts, type Found, present, UNKNOWN } from "./facts.ts";

/** Questions that one judgement may ask, one after the other; more attachments than anybody has. */
const ROUNDS_MAX = 64;

/** What no read of the API tells. */
export interface Remembered {
  /** Whether the pod is attached to an address of the claim. */
  readonly attachedToClaim: (pod: SweptPod, claimUid: string) => boolean;
  readonly wasSeenStopped: Facts["wasSeenStopped"];
}

/**
 * Lets `judge` decide on quorum reads alone: what it asks and nobody has read yet is read, then it is asked again, until
 * it has everything. What cannot be read stays unknown. Never throws for a server that is away.
 */
export async function decideFresh<T>(
  api: KubeApi,
  { attachedToClaim, wasSeenStopped }: Remembered,
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
      claim: (namespace, name) =>
        ask(`claim ${namespace}/${name}`, () =>
          read(api, namespacedPath(CLAIMS_PATH, namespace, name), (it) => claimFact(projectClaim(it))),
        ),
      pod: (namespace, name) =>
        ask(`pod ${namespace}/${name}`, () => read(api, namespacedPath(PODS_PATH, namespace, name), podFact)),
      networkOfNad: (nad) => {
        const [namespace = "", name = ""] = nad.split("/");
        return ask(`nad ${nad}`, async () => {
          const found = await read(api, namespacedPath(NADS_PATH, namespace, name), (it) =>
            networkOfNad(it, api.clock),
          );
          return found.kind === "present" && found.it !== null ? present(found.it) : UNKNOWN;
        });
      },
      node: (name) =>
        ask(`node ${name}`, () =>
          read(api, objectPath(NODES_PATH, name), (it) => nodeFact(it as { status?: unknown })),
        ),
      wasSeenStopped,
      podsNaming: (namespace, claim) => {
        const pods = ask(`pods ${namespace}`, () => listPods(api, namespace));
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

/** null: it is none of ours, or wrong. */
function networkOfNad(object: unknown, clock: Clock): string | null {
  const nad = projectNad(object);
  const book = new DefinitionBook(clock);
  book.upsert(nad);
  return book.networkOfNad(nad.key);
}

function podFact(object: unknown): SweptPod {
  return sweptPod(projectPod(object, { addresses: true }));
}

/** An object that makes no sense is there, but says nothing: unknown. */
async function read<F>(api: KubeApi, path: string, project: (object: unknown) => F): Promise<Found<F>> {
  const answer = await new ObjectClient(api).look(path);
  if (answer.kind === "absent") return ABSENT;
  if (answer.kind !== "present") return UNKNOWN;
  try {
    return present(project(answer.object));
  } catch {
    return UNKNOWN;
  }
}

/** All pods of a namespace, from the quorum. One that makes no sense might name anything: unknown. */
async function listPods(api: KubeApi, namespace: string): Promise<Found<readonly SweptPod[]>> {
  let pods: SweptPod[] = [];
  let nonsense = false;
  try {
    const answer = await api.list({
      path: namespacedPath(PODS_PATH, namespace),
      each: (object) => {
        try {
          pods.push(podFact(object));
        } catch {
          nonsense = true;
        }
      },
      restarted: () => {
        pods = [];
      },
    });
    return answer.kind === "listed" && !nonsense ? present(pods) : UNKNOWN;
  } catch (error) {
    if (error instanceof ApiAway) return UNKNOWN;
    throw error;
  }
}
