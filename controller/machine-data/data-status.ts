import { isDeepStrictEqual } from "node:util";
import { type ClaimCondition, cutMessage, mergeCondition } from "../../ipam/claim-conditions.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH, ERROR_CHARS_MAX, MACHINE_DATAS_PATH } from "../../kube/metal3.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { ConditionView } from "../../kube/views/conditions.ts";
import { type DataClaimView, type MachineDataView, projectMachineData } from "../../kube/views/machine-data-view.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";

/** How far an object has come. `reason` is a word in CamelCase; `message` is for people. */
export type Progress = Ready | Held;

/** Of a data object that is ready, and whose inputs were changed to what cannot be rendered: its Secrets stay. */
const INPUTS_VALID = "InputsValid";

interface Ready {
  readonly kind: "ready";
  readonly reason: "SecretsRendered" | "SecretsFound" | "ServedByMetadata";
  /** "": its template may change. */
  readonly templateHash: string;
}

/** Why an object has not come further. `failed` needs somebody to change something. */
export interface Held {
  readonly kind: "waiting" | "failed";
  readonly reason: string;
  readonly message: string;
}

export function waiting(reason: string, message: string): Held {
  return { kind: "waiting", reason, message };
}

export function failed(reason: string, message: string): Held {
  return { kind: "failed", reason, message };
}

export function hasInvalidInputs({ conditions }: MachineDataView): boolean {
  return conditions.some(({ type, status }) => type === INPUTS_VALID && status === "False");
}

/** Writes statuses of the data kinds, each only when it changes. Throws ApiAway. */
export class DataStatus {
  readonly #api: KubeApi;
  readonly #log: Pick<Log, "warn">;

  constructor(api: KubeApi, log: Pick<Log, "warn">) {
    this.#api = api;
    this.#log = log;
  }

  /** Before the first Secret is made. Returns the object as it is then; null: changed meanwhile, or refused. */
  async beginEdition(data: MachineDataView, templateHash: string): Promise<MachineDataView | null> {
    const { namespace, name, resourceVersion } = data;
    const path = namespacedPath(MACHINE_DATAS_PATH, namespace, name);
    const body = { metadata: { resourceVersion }, status: { templateHash } };
    const written = await new ObjectClient(this.#api).patchStatus(path, body);
    return written.kind === "done" ? projectMachineData(written.object) : null;
  }

  /** A ready object stays ready: what is wrong with its inputs now is a condition. */
  async writeData(data: MachineDataView, progress: Progress): Promise<void> {
    if (data.ready && progress.kind === "failed") return this.#writeInvalid(data, progress);
    const known = data.conditions.filter(({ type }) => type !== INPUTS_VALID);
    const conditions = this.readyConditions(known, progress);
    const ready = progress.kind === "ready";
    const errorMessage = messageOf(progress);
    const templateHash = progress.kind === "ready" ? progress.templateHash : data.templateHash;
    if (
      data.ready === ready &&
      data.errorMessage === errorMessage &&
      data.templateHash === templateHash &&
      isDeepStrictEqual(conditions, data.conditions)
    )
      return;
    await this.write(MACHINE_DATAS_PATH, data, {
      ready,
      errorMessage: errorMessage || null,
      templateHash: templateHash || null,
      conditions,
    });
  }

  async #writeInvalid(data: MachineDataView, { reason, message }: Held): Promise<void> {
    const condition = { type: INPUTS_VALID, status: "False", reason, message } as const;
    const conditions = this.conditions(data.conditions, condition);
    if (isDeepStrictEqual(conditions, data.conditions)) return;
    await this.write(MACHINE_DATAS_PATH, data, { conditions });
  }

  /** Of a claim that has no data object yet; null: it has one. */
  async writeClaim(claim: DataClaimView, progress: Held | null): Promise<void> {
    const conditions =
      progress === null
        ? claim.conditions.filter(({ type }) => type !== "Ready")
        : this.readyConditions(claim.conditions, progress);
    const errorMessage = progress === null ? "" : messageOf(progress);
    if (claim.errorMessage === errorMessage && isDeepStrictEqual(conditions, claim.conditions)) return;
    await this.write(DATA_CLAIMS_PATH, claim, { errorMessage: errorMessage || null, conditions });
  }

  /** A merge patch of the status at the version that was seen; another writer's change is left to the next pass. */
  async write(
    collection: string,
    view: { readonly namespace: string; readonly name: string; readonly resourceVersion: string },
    status: object,
  ): Promise<void> {
    const path = namespacedPath(collection, view.namespace, view.name);
    const body = { metadata: { resourceVersion: view.resourceVersion }, status };
    const written = await new ObjectClient(this.#api).patchStatus(path, body);
    if (written.kind !== "refused") return;
    const { status: code, body: answer } = written.answer;
    this.#log.warn({ path, status: code, problem: answer?.message }, "no status written");
  }

  readyConditions(known: readonly ConditionView[], progress: Progress): ClaimCondition[] {
    const isReady = progress.kind === "ready";
    return this.conditions(known, {
      type: "Ready",
      status: isReady ? "True" : "False",
      reason: progress.reason,
      message: isReady ? "" : progress.message,
    });
  }

  conditions(known: readonly ConditionView[], condition: Omit<ClaimCondition, "lastTransitionTime">): ClaimCondition[] {
    const lastTransitionTime = isoTime(this.#api.clock.wallMs());
    return mergeCondition(known as readonly ClaimCondition[], { ...condition, lastTransitionTime });
  }
}

function messageOf(progress: Progress): string {
  return progress.kind === "failed" ? cutMessage(progress.message, ERROR_CHARS_MAX) : "";
}
