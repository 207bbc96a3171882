import { randomUUID } from "node:crypto";
import type { TestCluster } from "./cluster.ts";
import type { KubeApi, KubeObject } from "./kube-api.ts";
import { pause } from "./wait.ts";

const NAMESPACE = "flooding";
/** The server's fairness between users is no help against one who creates many of them. */
const ACCOUNTS = Array.from({ length: 8 }, (_, index) => `builder-${index}`);
const CLAIMS = "k8s.cni.cncf.io/ipamclaims";
/** So many that a list takes the API server a tenth of a second. */
const CLAIMS_COUNT = 1_000;
/** Reads all and answers none: the work is the server's, and not that of the client beside it. */
const LIST = `/apis/k8s.cni.cncf.io/v1alpha1/namespaces/${NAMESPACE}/ipamclaims?labelSelector=none%3Dsuch`;
/** Ends by itself, whatever becomes of the test. */
const LASTS_MS_MAX = 180_000;
const TOO_MANY = 429;
const AFTER_REFUSAL_MS = 100;
const RBAC = "rbac.authorization.k8s.io";
const ROLE = { apiVersion: `${RBAC}/v1`, metadata: { name: "builders", namespace: NAMESPACE } };
const OBJECTS: readonly KubeObject[] = [
  { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
  ...ACCOUNTS.map((name) => ({
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace: NAMESPACE },
  })),
  {
    ...{ ...ROLE, kind: "Role" },
    rules: [{ apiGroups: ["k8s.cni.cncf.io"], resources: ["ipamclaims"], verbs: ["list"] }],
  },
  {
    ...{ ...ROLE, kind: "RoleBinding" },
    roleRef: { apiGroup: RBAC, kind: "Role", name: ROLE.metadata.name },
    subjects: ACCOUNTS.map((name) => ({ kind: "ServiceAccount", name, namespace: NAMESPACE })),
  },
];

/** A tenant with many claims, whose service accounts list them over and over. */
export class Flood {
  readonly #apis: readonly KubeApi[];
  #workers: Promise<void>[] = [];
  #endsMs = 0;

  private constructor(apis: readonly KubeApi[]) {
    this.#apis = apis;
  }

  static async prepare(cluster: TestCluster): Promise<Flood> {
    await cluster.apply(OBJECTS);
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
    const apis = ACCOUNTS.map(async (account) => {
      const path = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${account}/token`;
      return cluster.apiWith((await cluster.api.create(path, request)).status.token);
    });
    const claims = Array.from({ length: CLAIMS_COUNT }, (_, index) => claimNamed(`claim-${index}`));
    const name = ({ metadata }: KubeObject) => `${CLAIMS}/${NAMESPACE}/${metadata.name}`;
    await cluster.writeEtcd(new Map(claims.map((claim) => [name(claim), claim])));
    return new Flood(await Promise.all(apis));
  }

  /** Sends lists, so many at once, until `stop`. */
  start(atOnce: number): void {
    this.#endsMs = performance.now() + LASTS_MS_MAX;
    this.#workers = Array.from({ length: atOnce }, (_, index) =>
      this.#work(this.#apis[index % this.#apis.length] as KubeApi),
    );
  }

  /** Resolves when every list that was sent is answered. */
  async stop(): Promise<void> {
    this.#endsMs = 0;
    await Promise.all(this.#workers);
    this.#workers = [];
  }

  close(): void {
    for (const api of this.#apis) api.close();
  }

  async #work(api: KubeApi): Promise<void> {
    while (performance.now() < this.#endsMs) {
      const { status } = await api.call("GET", LIST);
      if (status === TOO_MANY) await pause(AFTER_REFUSAL_MS);
    }
  }
}

function claimNamed(name: string): KubeObject {
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: {
      ...{ name, namespace: NAMESPACE, uid: randomUUID(), generation: 1 },
      creationTimestamp: "2026-01-01T00:00:00Z",
      annotations: { "example.com/note": "x".repeat(1_000) },
    },
    spec: { interface: "net1", network: "blue" },
  };
}
