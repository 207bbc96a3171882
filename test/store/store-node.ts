/** A node of which only the store is there, over an API server in memory: faults at every instant, without a clock. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { PodIdentity } from "../../allocations/records.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { ALLOCATIONS_PATH, type IPAllocation, NODES_PATH } from "../../kube/objects.ts";
import type { AttachWant } from "../../store/allocations.ts";
import type { KubernetesStore } from "../../store/cluster/cluster-store.ts";
import type { Continuity } from "../../store/cluster/contact/continuity.ts";
import type { StateDirectory } from "../../store/journal/state-directory.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { steadyContinuity } from "../harness/steady-continuity.ts";
import { clusterStore, opened } from "./cluster-store.ts";
import { BOOT, want } from "./subjects.ts";

export const NODE = "node-a";

export class StoreNode {
  readonly clock: ManualClock;
  readonly api: KubeInMemory;
  readonly directory = mkdtempSync(join(tmpdir(), "holdfast-store-"));
  readonly said: string[] = [];
  /** Networks that the cluster defines. */
  readonly definitions = new Map<string, NetworkDefinition>();
  /** UIDs of pods that are gone; all others live. */
  readonly endedPods = new Set<string>();
  /** Paths of network namespaces that were seen, and are gone. */
  readonly goneNamespaces = new Set<string>();
  /** Paths of those that certainly exist. */
  readonly livingNamespaces = new Set<string>();
  store!: KubernetesStore;

  constructor(clock = new ManualClock()) {
    this.clock = clock;
    this.api = new KubeInMemory(clock);
    onTestFinished(async () => {
      await this.store?.close();
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  /** Opens the node's store, as a process that has just started. */
  async open({
    bootId = BOOT,
    name = NODE,
    continuity = steadyContinuity(this.clock),
  }: {
    readonly bootId?: string;
    readonly name?: string;
    readonly continuity?: Continuity;
  } = {}): Promise<KubernetesStore> {
    await this.store?.close();
    const say = (message: unknown) => {
      this.said.push(String(message));
    };
    const { api, definitions } = this;
    const definitionOf = (network: string) => {
      const definition = definitions.get(network);
      return definition === undefined ? null : { definition, by: "a test", source: "" };
    };
    const store = clusterStore({
      directory: this.directory,
      context: {
        node: name,
        bootId,
        namespaceGone: ({ path }) => this.goneNamespaces.has(path),
        namespaceAlive: ({ path }) => this.livingNamespaces.has(path),
      },
      log: { info: say, warn: say, error: say },
      api,
      // No test here has a claim.
      claimAccess: {
        podState: async ({ uid }: PodIdentity) => (this.endedPods.has(uid) ? "gone" : "living"),
        hasEnded: async ({ uid }: PodIdentity) => this.endedPods.has(uid),
      } as never,
      definitions: { definitionOf, networks: () => [...definitions.keys()] },
      addDeadlineMs: 2_000,
      continuity,
    });
    this.store = await opened(store);
    return this.store;
  }

  /** The journal itself. */
  get journalDirectory(): StateDirectory {
    return (this.store as unknown as { readonly directory: StateDirectory }).directory;
  }

  /** What a daemon does before it serves. */
  async settle(): Promise<{ recovered: number; pending: number }> {
    const { agreement } = this.store;
    await agreement.identify();
    const { recorded = 0, pending = 0 } = (await agreement.judgeOwnObjects()) ?? {};
    agreement.over.begin();
    await agreement.over.drain();
    return { recovered: recorded, pending };
  }

  /** The Node object as its kubelet keeps it. */
  reportBoot(bootID: string): void {
    this.api.put(NODES_PATH, { metadata: { name: NODE }, status: { nodeInfo: { bootID } } });
  }

  /** An ADD that must succeed: its addresses. */
  async added(asked: AttachWant): Promise<string[]> {
    const outcome = await this.store.attach(asked);
    expect(outcome).toMatchObject({ kind: "attached" });
    return outcome.kind === "attached" ? outcome.attachment.ips.map(({ address }) => address) : [];
  }

  /** Adds pods with containers of these names. */
  async addPods(...names: string[]): Promise<string[]> {
    const ips: string[] = [];
    for (const name of names) ips.push(...(await this.added(want(name, { pod: name }))));
    return ips;
  }

  get allocations(): IPAllocation[] {
    return [...this.api.objects].filter(([path]) => path.startsWith(ALLOCATIONS_PATH)).map(([, it]) => it);
  }

  /** `address: keys of attachments`, of what is Bound, in order. */
  get bound(): string[] {
    return this.allocations
      .filter(({ status }) => status?.state === "Bound")
      .map(({ spec, status }) => `${spec.address}: ${Object.keys(status?.attachments ?? {}).join()}`)
      .sort();
  }

  /** Container IDs of the journal, in order. */
  get journal(): string[] {
    return this.store
      .attachmentsAfter(0, 1_000)
      .map(({ containerId }) => containerId)
      .sort();
  }
}
