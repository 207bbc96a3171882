import type { TestCluster } from "../cluster.ts";
import type { KubeObject } from "../kube-api.ts";
import type { ApiServer } from "../kube-fake/api-server.ts";
import { Failure } from "../kube-fake/failure.ts";
import type { Gates } from "../kube-fake/requests.ts";
import { type Refused, Webhook } from "../webhook.ts";
import type { Cluster } from "../world/cluster.ts";
import { MemoryCluster } from "../world/memory-cluster.ts";
import { type CapiReview, capiProblems, concernsCapi } from "./capi-rules.ts";

const NAME = "capi";
const DENIED = `admission webhook "${NAME}.holdfast.test" denied the request: `;
const UNREACHED = `Internal error occurred: failed calling webhook "${NAME}.holdfast.test": connect: connection refused`;
const everyVersion = { apiGroups: ["ipam.cluster.x-k8s.io"], apiVersions: ["*"] };
const RULES = [
  { ...everyVersion, operations: ["CREATE", "UPDATE"], resources: ["ipaddresses"] },
  { ...everyVersion, operations: ["UPDATE"], resources: ["ipaddressclaims"] },
];

/** How it answers: by the rules, not at all (the server answers 500), or with a refusal of every IPAddress. */
type Mode = "up" | "down" | "refusing";

type ClaimReader = (path: string) => Promise<KubeObject | null> | KubeObject | null;

/** A stand-in for the webhooks of Cluster API's own controller, before either kind of API server. */
export class CapiAdmission {
  /** Messages of everything that was refused. */
  readonly refusals: string[] = [];
  #webhook: Webhook | null = null;
  #mode: Mode = "up";

  private constructor() {}

  static async start(cluster: Cluster): Promise<CapiAdmission> {
    const admission = new CapiAdmission();
    if (cluster instanceof MemoryCluster) {
      cluster.admitters.push(admission.gate(cluster.objects));
      return admission;
    }
    const decide = async (request: KubeObject) =>
      admission.#decide(request, await claimOf(request, (path) => cluster.api.find(path)));
    admission.#webhook = await Webhook.start(cluster as TestCluster, { name: NAME, rules: RULES, decide });
    return admission;
  }

  /** Resolves when it answers so; a real server notices at its next question. */
  async become(mode: Mode): Promise<void> {
    if (mode === "down") await this.#webhook?.down();
    else if (this.#mode === "down") await this.#webhook?.up();
    this.#mode = mode;
  }

  async stop(): Promise<void> {
    await this.#webhook?.stop();
  }

  /** The same as a gate of a server in memory. */
  gate(server: ApiServer): NonNullable<Gates["admit"]> {
    return (review) => {
      if (!concernsCapi(review)) return null;
      if (this.#mode === "down") throw new Failure(500, "InternalError", UNREACHED);
      const refused = this.#decide(review, claimOf(review, (path) => server.at(path)) as KubeObject | null);
      if (refused !== null) throw new Failure(refused.code, refused.reason, `${DENIED}${refused.message}`);
      return null;
    };
  }

  #decide(review: CapiReview, claim: KubeObject | null): Refused | null {
    const problems =
      this.#mode === "refusing" && concernsCapi(review) ? ["the test refuses it"] : capiProblems(review, claim);
    if (problems.length === 0) return null;
    const { kind, metadata } = review.object;
    const message = `${kind}.ipam.cluster.x-k8s.io "${metadata.name}" is invalid: ${problems.join(", ")}`;
    this.refusals.push(message);
    return { code: 422, reason: "Invalid", message };
  }
}

/** The claim that a new IPAddress answers; null: there is none, or nobody asks. */
function claimOf(review: CapiReview, read: ClaimReader): ReturnType<ClaimReader> {
  const { operation, object } = review;
  if (operation !== "CREATE") return null;
  const { apiVersion, metadata, spec } = object;
  return read(
    `/apis/${apiVersion}/namespaces/${metadata.namespace}/ipaddressclaims/${encodeURIComponent(spec.claimRef.name)}`,
  );
}
