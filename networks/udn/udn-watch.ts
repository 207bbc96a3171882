import type { KubeApi } from "../../kube/kube-api.ts";
import { Reflector } from "../../kube/reflector.ts";
import type { Log } from "../../platform/log.ts";
import { CUDNS_PATH, projectUdn, UDNS_PATH, type UdnKind, type UdnView } from "./udn-object.ts";

export interface UdnWatchOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "info" | "warn">;
  readonly onChange: () => void;
}

const PATHS: Readonly<Record<UdnKind, string>> = {
  UserDefinedNetwork: UDNS_PATH,
  ClusterUserDefinedNetwork: CUDNS_PATH,
};

/** The (Cluster)UserDefinedNetworks of the cluster; none if their definitions are missing or may not be read. */
export class UdnWatch {
  readonly #reflectors: readonly Reflector<UdnView>[];

  constructor({ api, log, onChange }: UdnWatchOptions) {
    this.#reflectors = (Object.keys(PATHS) as UdnKind[]).map(
      (kind) =>
        new Reflector<UdnView>({
          api,
          path: PATHS[kind],
          query: { resourceVersion: "0" },
          forbiddenIsEmpty: true,
          log,
          project: (object) => projectUdn(object, kind),
          onUpsert: onChange,
          onDelete: onChange,
          onState: (state) => {
            if (state === "forbidden") log.warn(`${PATHS[kind]}: no right to read them; they are left out`);
          },
        }),
    );
  }

  start(): void {
    for (const reflector of this.#reflectors) reflector.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()));
  }

  /** Whether everything was listed at least once. */
  get synced(): boolean {
    return this.#reflectors.every(({ synced, missing, forbidden }) => synced || missing || forbidden);
  }

  /** Resolves with true once everything was listed; with false when it was stopped or the signal aborted before. */
  async waitSynced(signal: AbortSignal): Promise<boolean> {
    const all = await Promise.all(this.#reflectors.map((reflector) => reflector.waitSynced(signal)));
    return all.every((one) => one);
  }

  *views(): Generator<UdnView> {
    for (const reflector of this.#reflectors) yield* reflector.items.values();
  }
}
