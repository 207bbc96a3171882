import type { PoolEvaluation } from "../../claims/pools/evaluate-pool.ts";
import { type PoolFindings, statusPatch } from "../../claims/pools/pool-status.ts";
import { problemOf } from "../../kube/answers.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { ADDRESS_POOLS_PATH, namespacedPath } from "../../kube/objects.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { Log } from "../../platform/log.ts";

/** The status of a pool is written at most this often, ms, however fast its addresses come and go. */
const WRITE_MS_MIN = 3_000;

export interface PoolStatusWriterOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "warn">;
}

interface Written {
  readonly atMs: number;
  /** What was written, without times; null: it was not accepted. */
  readonly text: string | null;
  /** The version of the pool afterwards. */
  readonly resourceVersion: string;
}

export class PoolStatusWriter {
  readonly #options: PoolStatusWriterOptions;
  /** By UID of the pool. */
  readonly #written = new Map<string, Written>();

  constructor(options: PoolStatusWriterOptions) {
    this.#options = options;
  }

  forgetAllBut(uids: ReadonlySet<string>): void {
    for (const uid of this.#written.keys()) if (!uids.has(uid)) this.#written.delete(uid);
  }

  /** Returns false where it is to be written later; true: it says what is true, as far as can be. Throws ApiAway. */
  async write(pool: AddressPoolView, evaluation: PoolEvaluation, findings: PoolFindings): Promise<boolean> {
    const { api, log } = this.#options;
    const status = statusPatch(pool, evaluation, findings, api.clock.wallMs());
    if (status === null) return true;
    const nowMs = api.clock.monotonicMs();
    const last = this.#written.get(pool.uid);
    if (last !== undefined && nowMs - last.atMs < WRITE_MS_MIN) return false;
    const text = JSON.stringify(status, (key, value) => (key === "lastTransitionTime" ? undefined : value));
    // An older definition of the kind may have dropped a part of it, and would again.
    if (last?.text === text && last.resourceVersion === pool.resourceVersion) return true;
    const { namespace, name, uid, resourceVersion } = pool;
    const path = namespacedPath(ADDRESS_POOLS_PATH, namespace, name);
    const outcome = await new ObjectClient(api).patchStatus(path, { metadata: { resourceVersion }, status });
    const version = outcome.kind === "done" ? outcome.object.metadata.resourceVersion : resourceVersion;
    // After a conflict the next pass sees the other writer's version.
    const isFinal = outcome.kind === "done" || outcome.kind === "refused";
    this.#written.set(uid, { atMs: nowMs, text: isFinal ? text : null, resourceVersion: version });
    if (outcome.kind === "refused")
      log.warn({ pool: pool.key, problem: problemOf(outcome.answer) }, "status of the AddressPool not written");
    return isFinal;
  }
}
