import { problemOf } from "../../kube/answers.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { CONFLICT, FORBIDDEN } from "../../kube/kube-api.ts";
import { SECRETS_PATH } from "../../kube/metal3.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { MachineDataView } from "../../kube/views/machine-data-view.ts";
import { type Part, secretBody } from "./data-bodies.ts";
import { failed, type Held } from "./data-status.ts";

/** Quotas and ending namespaces are forbidden too. */
const LACKS_RIGHT = /cannot create resource/;

export interface SecretText {
  readonly name: string;
  readonly part: Part;
  readonly text: string;
}

/**
 * Creates Secrets and never reads one: the controller has no other right. Whether one exists is told by the conflict
 * with it, so existing ones stay as they are, whoever made them.
 */
export class Secrets {
  readonly #api: KubeApi;
  readonly #objects: ObjectClient;
  #createdCount = 0;

  constructor(api: KubeApi) {
    this.#api = api;
    this.#objects = new ObjectClient(api);
  }

  /** How many did not exist before. */
  get createdCount(): number {
    return this.#createdCount;
  }

  /** Whether there are Secrets of all these names, whoever made them. Throws ApiAway. */
  async exist(data: MachineDataView, texts: readonly SecretText[]): Promise<boolean> {
    for (const { name, part, text } of texts)
      if ((await this.#tryCreate(data.namespace, secretBody(data, name, part, text))) !== CONFLICT) return false;
    return texts.length > 0;
  }

  /** Where the server does not tell (no right, full quota): there, the baremetal-operator waits. Throws ApiAway. */
  async isMissing(namespace: string, name: string): Promise<boolean> {
    const body = { apiVersion: "v1", kind: "Secret", metadata: { namespace, name } };
    return (await this.#tryCreate(namespace, body)) < 300;
  }

  /** The status of a create that changes nothing. */
  async #tryCreate(namespace: string, body: object): Promise<number> {
    const { status } = await this.#api.send({
      method: "POST",
      path: namespacedPath(SECRETS_PATH, namespace),
      query: { dryRun: "All" },
      body,
      priority: "housekeeping",
      deadlineMs: this.#api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS,
    });
    return status;
  }

  /** Returns why one of them is not there; otherwise whether some were there already. Throws ApiAway. */
  async ensure(
    data: MachineDataView,
    texts: readonly SecretText[],
  ): Promise<Held | { readonly kind: "found" | "created" }> {
    let found = false;
    for (const { name, part, text } of texts) {
      const path = namespacedPath(SECRETS_PATH, data.namespace);
      const created = await this.#objects.create(path, secretBody(data, name, part, text));
      if (created.kind === "done") this.#createdCount += 1;
      if (created.kind === "conflict") found = true;
      if (created.kind === "done" || created.kind === "conflict") continue;
      if (created.answer.status === FORBIDDEN && LACKS_RIGHT.test(problemOf(created.answer)))
        return failed(
          "SecretsForbidden",
          `the controller may not create Secrets: bind ClusterRole holdfast-machine-data-secrets to its service account (${problemOf(created.answer)})`,
        );
      return failed("SecretRefused", `Secret ${data.namespace}/${name}: ${problemOf(created.answer)}`);
    }
    return { kind: found ? "found" : "created" };
  }
}
