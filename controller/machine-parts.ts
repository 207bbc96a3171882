import type { MachineSources } from "../claims/reasons/caches.ts";
import { AskedNamespaces } from "./capi/asked-namespaces.ts";
import { ClusterMachines } from "./capi/cluster-machines.ts";
import { machineSources, servedPathIn } from "./capi/machine-sources.ts";
import { PausedClusters } from "./capi/paused-clusters.ts";
import { directReservation } from "./machine-data/direct-reservation.ts";
import { OwnMode } from "./machine-data/own-mode.ts";
import type { ControllerPart, PartContext } from "./part.ts";

interface MachinePartsOptions extends PartContext {
  onDefinitions(): void;
  /** Something of machines has changed, or whether it is followed. */
  onFollowed(): void;
  /** A namespace that the sweep asked for is another than before. */
  onNamespace(name: string): void;
}

/** Machines of Cluster API, and Metal3's data of them. Their own work begins with `start`, after everything else. */
export class MachineParts {
  readonly cluster: ClusterMachines;
  /** null: Metal3's data kinds are left to CAPM3. */
  readonly data: OwnMode | null;
  readonly sources: MachineSources;
  readonly parts: readonly ControllerPart[];

  constructor({ api, log, idle, settings, identity, events, watched, occur, ...on }: MachinePartsOptions) {
    const shared = { api, log, idle };
    const { allocations, networks, catalog } = watched;
    const everyMs = settings.sweepIntervalSeconds * 1_000;
    this.cluster = new ClusterMachines({
      ...shared,
      ...{ watched, events, identity, passMs: everyMs },
      onDefinitions: () => on.onDefinitions(),
      onOwnerGone: () => occur("owner-ended"),
      onPool: () => occur("changed"),
      onFollowed: () => on.onFollowed(),
      // Before anything of it is released: what a pause tells is remembered although it may last a second only.
      onCluster: (cluster) => {
        if (pausedClusters.note(cluster)) occur("cluster-paused");
        this.data?.clusterChanged();
      },
    });
    const { caches } = this.cluster;
    this.data =
      settings.machineData === "off"
        ? null
        : new OwnMode({
            ...{ ...shared, events, catalog },
            machines: caches,
            direct: directReservation(this.cluster),
            graceSeconds: settings.sweepGraceSeconds,
          });
    const servedPath = servedPathIn(caches);
    const pausedClusters = new PausedClusters({ ...shared, allocations, networks, servedPath });
    const namespaces = new AskedNamespaces({
      api,
      onAsked: () => occur("namespace-asked"),
      onChanged: (name) => on.onNamespace(name),
    });
    const data = this.data?.data ?? null;
    this.sources = machineSources({ caches, data, networks, namespaces, pausedClusters });
    this.parts = [
      {
        ...{ name: "the paused clusters", everyMs, triggers: ["changed", "cluster-paused"] },
        nextMs: () => (pausedClusters.waits ? api.clock.monotonicMs() + everyMs : Number.POSITIVE_INFINITY),
        work: (signal) => pausedClusters.runPass(signal),
      },
      {
        ...{ name: "the namespaces", everyMs, triggers: ["namespace-asked"] },
        // Read, not followed: as long as any is asked for.
        nextMs: () => (namespaces.isAsked ? api.clock.monotonicMs() + everyMs : Number.POSITIVE_INFINITY),
        work: (signal) => namespaces.runPass(signal),
      },
    ];
  }

  /** Resolves when they are followed, or have been stopped meanwhile. */
  async start(stopped: () => boolean): Promise<void> {
    if (stopped()) return;
    this.cluster.start();
    await this.cluster.caches.listed();
    if (!stopped()) this.data?.start();
  }

  async stopWork(): Promise<void> {
    await Promise.all([this.cluster.stopWork(), this.data?.stopWork()]);
  }

  async stop(): Promise<void> {
    await Promise.all([this.cluster.stop(), this.data?.stop()]);
  }
}
