import { problemOf } from "../../kube/answers.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { SECRETS_PATH } from "../../kube/metal3.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { MachineDataView } from "../../kube/views/machine-data-view.ts";
import { type Part, secretBody } from "./data-bodies.ts";
import { failed, type Held } from "./data-status.ts";

const CONFLICT = 409;
const FORBIDDEN = 403;
/** Quotas and ending namespaces are forbidden too. */
const LACKS_RIGHT = /cannot create resource/;

/** A document, and the name of the Secret that it belongs in. */
export interface SecretText {
  readonly name: string;
  readonly part: Part;
  readonly text: string;
}

/**
 * Creates Secrets and never reads one: the controller has no other right. Whether one exists is told by the conflict with
 * it, so existing ones stay as they are, whoever made them.
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

  /** Whether there are Secrets of all these names, whoever made them: told by creates that change nothing. Throws ApiAway. */
  async exist(data: MachineDataView, texts: readonly SecretText[]): Promise<boolean> {
    const path = namespacedPath(SECRETS_PATH, data.namespace);
    for (const { name, part, text } of texts) {
      const answer = await this.#api.send({
        method: "POST",
        path,
        query: { dryRun: "All" },
        body: secretBody(data, name, part, text),
        priority: "housekeeping",
        deadlineMs: this.#api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS,
      });
      if (answer.status !== CONFLICT) return false;
    }
    return texts.length > 0;
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
