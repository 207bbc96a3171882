import type { PodIdentity } from "../allocations/records.ts";
import { KubeClaimAccess } from "../claims/kube-claim-access.ts";
import { PodDirectory } from "../claims/pod-directory.ts";
import type { Finding } from "../ipam/finding.ts";
import { type Refusal, type RefusalCode, RefusalError } from "../ipam/refusals.ts";
import { EventWriter, reasonOf, vmiObject } from "../kube/events.ts";
import { ApiAway, type Connect, type OpenKubeApi, type RequestObservers } from "../kube/kube-api.ts";
import { type IPNetwork, NADS_PATH, PODS_PATH } from "../kube/objects.ts";
import { Reflector } from "../kube/reflector.ts";
import { ServerClock } from "../kube/server-clock.ts";
import { type PodView, projectPod } from "../kube/views/pod-view.ts";
import { readPublishedSpace } from "../kube/views/published-space.ts";
import { DefinitionCatalog } from "../networks/definition-catalog.ts";
import { definitionFindings } from "../networks/definition-findings.ts";
import { forgetUnlisted } from "../networks/listed-definitions.ts";
import { type NadView, projectNad } from "../networks/nad-view.ts";
import { NetworkOwners } from "../networks/network-owners.ts";
import { NodeConfigurations } from "../networks/node-configurations.ts";
import type { Log } from "../platform/log.ts";
import { sleep } from "../platform/time.ts";
import { AGREEMENT } from "../store/cluster/agreement/agreement.ts";
import type { Facts } from "../store/cluster/agreement/relations.ts";
import { KubernetesStore } from "../store/cluster/cluster-store.ts";
import { ClusterContinuity } from "../store/cluster/contact/cluster-continuity.ts";
import { whyRecovering } from "../store/cluster/contact/recovery.ts";
import type { NodeContext } from "../store/node-context.ts";
import { CONTACT, type Need } from "../store/readiness.ts";
import { ImportWaits } from "./import-waits.ts";
import { OvnNetworks } from "./ovn-networks.ts";

/** Pause before the first list is tried again, ms. */
const RETRY_MS = 1_000;

/** Refusals that pass by themselves, or that no user can do anything about: no event. */
const NO_EVENT: readonly RefusalCode[] = [
  "API_AWAY",
  "DAEMON_ENDING",
  "NOT_READY",
  "SUPERSEDED",
  "TOO_MANY_WAITING",
  "STORAGE_FAILED",
  "POD_ABSENT",
];

export interface ClusterNodeOptions {
  /** null: as a pod of the cluster. */
  readonly kubeconfig: string | null;
  readonly state: string;
  readonly addDeadlineMs: number;
  readonly recoverySeconds: number;
  readonly context: NodeContext;
  readonly log: Log;
  readonly observers?: RequestObservers;
  readonly connect: Connect;
}

export class ClusterNode {
  readonly api: OpenKubeApi;
  readonly pods: PodDirectory;
  readonly catalog: DefinitionCatalog;
  readonly owners: NetworkOwners;
  readonly configurations: NodeConfigurations;
  readonly contact: ClusterContinuity;
  readonly store: KubernetesStore;
  readonly imports: ImportWaits;
  readonly ovn: OvnNetworks;
  readonly node: string;
  /** What it gives addresses with: see Readiness. From CONTACT on it is for the cluster's sake, and ends by itself. */
  readonly needs: readonly Need[] = [
    { name: "pods", whyNot: () => (this.#podWatch.synced ? null : "the pods of this node are not listed yet") },
    {
      name: "definitions",
      whyNot: () =>
        this.#nadWatch.synced || this.#nadWatch.missing ? null : "network attachment definitions are not listed yet",
    },
    { name: AGREEMENT, whyNot: () => this.store.agreement.pending },
    { name: CONTACT, whyNot: () => this.contact.continuity.closed },
    { name: "recovery", whyNot: () => this.contact.continuity.recovering.map(whyRecovering)[0] ?? null },
  ];
  readonly #options: ClusterNodeOptions;
  readonly #log: Log;
  readonly #events: EventWriter;
  readonly #podWatch: Reflector<PodView>;
  readonly #nadWatch: Reflector<NadView>;
  readonly #life = new AbortController();
  #needsChanged: () => void = () => {};

  /** Throws when the kubeconfig cannot be used. */
  constructor(options: ClusterNodeOptions) {
    const { context, log } = options;
    this.#options = options;
    this.#log = log;
    this.node = context.node;
    const { clock } = context;
    this.catalog = new DefinitionCatalog(clock);
    this.configurations = new NodeConfigurations(clock);
    const serverClock = new ServerClock(clock);
    this.api = serverClock.over(options.connect(options.kubeconfig, clock, options.observers));
    this.contact = new ClusterContinuity({
      api: this.api,
      node: context.node,
      recoveryMs: options.recoverySeconds * 1_000,
      log,
      readMark: (network, deadlineMs) => this.owners.learn(network, { fresh: true, deadlineMs }),
      compare: ({ isRestored }) => {
        if (isRestored) this.store.agreement.wentBack();
        else this.store.agreement.lostTouch();
      },
      relist: () => {
        this.#podWatch.relist();
        this.#nadWatch.relist();
      },
    });
    const { catalog, contact } = this;
    const seen = (network: string, object: IPNetwork | null) => {
      contact.seen(network, object);
      this.imports.take(network, object);
      this.store.picture.take(network, readPublishedSpace(object));
    };
    this.owners = new NetworkOwners({ api: this.api, catalog: catalog, log, seen });
    this.#events = new EventWriter({
      api: this.api,
      component: "holdfast-daemon",
      host: context.node,
    });
    this.#podWatch = new Reflector<PodView>({
      api: this.api,
      path: PODS_PATH,
      // From the server's cache: a pod that is not among them is read anew.
      query: { fieldSelector: `spec.nodeName=${context.node}`, resourceVersion: "0" },
      // With what Multus reports of them: a guest's network configuration needs its MAC.
      project: (pod) => projectPod(pod, { addresses: true }),
      onUpsert: () => this.ovn.changed(),
      onDelete: () => this.ovn.changed(),
      onSynced: () => this.#needsChanged(),
      onState: (state) => {
        if (state === "away") void this.store.agreement.gap.begin();
        this.contact.noteState(state);
      },
      log,
    });
    this.#nadWatch = new Reflector<NadView>({
      api: this.api,
      path: NADS_PATH,
      project: projectNad,
      onUpsert: (nad) => {
        this.catalog.upsert(nad);
        this.ovn.changed();
      },
      onDelete: (nad) => {
        this.catalog.remove(nad.key);
        this.ovn.changed();
      },
      onSynced: () => this.#needsChanged(),
      onState: (state) => {
        if (state !== "watching") this.catalog.interrupted();
        else void this.#forgetDefinitions();
        if (state === "missing") this.#needsChanged();
      },
      log,
    });
    this.ovn = new OvnNetworks({
      api: this.api,
      log,
      node: context.node,
      pods: () => this.#podWatch.items,
      nadConfig: (key) => catalog.configOf(key),
      isListed: () => this.#podWatch.synced && (this.#nadWatch.synced || this.#nadWatch.missing),
    });
    this.pods = new PodDirectory(this.api, (key) => this.#podWatch.items.get(key));
    const warn = (message: string) => log.warn(message);
    this.store = new KubernetesStore({
      directory: options.state,
      context,
      log,
      api: this.api,
      claimAccess: new KubeClaimAccess({
        api: this.api,
        pods: this.pods,
        warn,
        events: this.#events,
      }),
      definitions: this.catalog,
      continuity: contact.continuity,
      probe: () => contact.probe(),
      warnPod: (pod, reason, message) => this.warnPod(pod, reason, message),
      addDeadlineMs: options.addDeadlineMs,
      serverMs: () => serverClock.nowMs,
      readNetwork: (network, deadlineMs) => this.owners.learn(network, { fresh: true, deadlineMs }),
    });
    this.imports = new ImportWaits({
      api: this.api,
      catalog: this.catalog,
      read: (network, deadlineMs) => this.owners.learn(network, { fresh: true, deadlineMs }),
      pods: () => this.#podWatch.items.values(),
      reported: (network, addresses) => this.store.picture.noteReported(network, addresses),
    });
  }

  /** Begins to list and watch. `needsChanged`: what is listed is there, or is known to be missing. */
  start(needsChanged: () => void): void {
    this.#needsChanged = needsChanged;
    this.#podWatch.start();
    this.#nadWatch.start();
    this.ovn.start();
  }

  async stop(): Promise<void> {
    this.#life.abort();
    this.contact.stop();
    await Promise.all([this.#podWatch.stop(), this.#nadWatch.stop(), this.ovn.stop()]);
    this.api.close();
  }

  /** What of this node's own configuration somebody has to look at. Throws ApiAway. */
  findings(): Promise<Finding[]> {
    const { catalog, node, store } = this;
    return this.configurations.findings({
      catalog: catalog,
      node,
      isUsed: (network) => store.attachmentsOfNetwork(network).length > 0,
      holderOf: (network, address) => store.holderOf(network, address),
    });
  }

  /** Definitions that serve nobody: whoever may create one must not make the check of every node fail. */
  notes(): string[] {
    return definitionFindings(this.catalog).map(({ message, hint }) => `${message}; ${hint}`);
  }

  /** Tells the pod's owner what a refusal means, where somebody has to act. */
  tellPod(pod: PodIdentity | null, refusal: Refusal): void {
    if (NO_EVENT.includes(refusal.code)) return;
    // The hint has counts, which are others at each attempt.
    this.warnPod(pod, reasonOf(refusal.code), `${refusal.message}; ${refusal.hint}`, refusal.message);
  }

  /** Tells the pod, and the VMI that it runs: people look at their VM. */
  warnPod(pod: PodIdentity | null, reason: string, message: string, same = message): void {
    if (pod === null) return;
    const { namespace, name } = pod;
    // The API object's UID: of a static pod the runtime names another one.
    const uid = this.#podWatch.items.get(`${namespace}/${name}`)?.uid ?? pod.uid;
    this.#events.warn({ apiVersion: "v1", kind: "Pod", namespace, name, uid }, reason, message, same);
    const vmi = this.pods.cachedVmi(pod);
    if (vmi !== null) this.#events.warn(vmiObject({ namespace, ...vmi }), reason, message, same);
  }

  /** Whether no pod speaks for an attachment that there is other evidence against. False where the API cannot tell. */
  async podHasEnded(pod: PodIdentity | null): Promise<boolean> {
    const state = await this.podState(pod);
    return state !== "living" && state !== "unknown";
  }

  async podState(pod: PodIdentity | null): Promise<Facts["pod"]> {
    if (pod === null) return "none";
    const deadlineMs = this.api.clock.monotonicMs() + this.#options.addDeadlineMs;
    try {
      return await this.pods.stateOf(pod, deadlineMs);
    } catch (error) {
      if (error instanceof ApiAway || error instanceof RefusalError) return "unknown";
      throw error;
    }
  }

  #forgetDefinitions(): Promise<void> {
    const { items } = this.#nadWatch;
    return this.#untilDone("reading definitions again", () => forgetUnlisted(this.api, this.catalog, items));
  }

  async #untilDone(what: string, work: () => Promise<void>): Promise<void> {
    while (!this.#life.signal.aborted) {
      try {
        return await work();
      } catch (error) {
        this.#log.warn({ err: error as Error }, `${what} did not succeed; trying again`);
        await sleep(this.api.clock, RETRY_MS);
      }
    }
  }
}
