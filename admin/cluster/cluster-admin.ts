/*
 * admin/cluster/: what a daemon answers from its store, answered from the objects of a cluster
 *
 *   main             the entry of the bundle that the command line loads
 *   cluster-admin    the AdminApi, with who is behind an address and who had it
 *   asking/          the API server, lists of its objects, and why it does not answer
 *   snapshot         lists and reads; network-views, udn-networks: what they show
 *   former-holders   whoever has addresses as a former definition gave them
 *   check            all checks; check-*: one kind of finding each; grace: what is too young to be reported
 *   release-moved, owner-chain   machines of Cluster API
 *   doctor/          whether everything is there that Holdfast needs
 *   import-report    what an import would take over, or took
 */

import { AllocationClient } from "../../allocations/allocation-client.ts";
import { addressOf, isSound } from "../../allocations/allocation-object.ts";
import type { AllocationFilter, ClaimFilter, PageRequest } from "../../allocations/filter.ts";
import { matches } from "../../allocations/filter.ts";
import type { AllocationView, Page } from "../../allocations/records.ts";
import { listFromApi, viewOf } from "../../allocations/views.ts";
import { askedByClaim } from "../../claims/asked-by-claim.ts";
import { PodDirectory } from "../../claims/pod-directory.ts";
import { answerFrom } from "../../identity/allocation-source.ts";
import type { NetworkFacts } from "../../identity/compose.ts";
import type { Holding } from "../../identity/holding.ts";
import type { IdentityQuery, IdentityQuestion } from "../../identity/query.ts";
import { ClusterIdentities } from "../../identity/sources/cluster.ts";
import { ClusterVms } from "../../identity/sources/cluster-vms.ts";
import type { IdentityAnswer, IdentityVm } from "../../identity/wire.ts";
import { type Address, compareAddresses, sameAddress } from "../../ipam/space/address.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { DEFAULT_NAMESPACE } from "../../kube/views/claim-reference.ts";
import { VMS_PATH } from "../../kube/views/tenant-objects.ts";
import { type MovedNetwork, moveNetwork } from "../../networks/record-owner.ts";
import { invalid } from "../../platform/api-query.ts";
import { parseTime } from "../../platform/time.ts";
import { releaseInKubernetes } from "../../store/cluster/release.ts";
import type { ImportReport, ImportRequest } from "../../store/host-local/report.ts";
import type { ClaimManifest } from "../../store/manifests.ts";
import type { HistoryWant, ReleaseOutcome, ReleaseWant } from "../../store/node-store.ts";
import { placesOn } from "../address-places.ts";
import type {
  AddressPlace,
  ClusterAdminApi,
  Diagnosis,
  FreeAddresses,
  FreeWant,
  NetworksWant,
  NetworkWithClaims,
  OwnerChain,
  OwnersQuestion,
  PastPeriod,
  PlanItem,
  PlanWant,
  ReleasedCluster,
  ReleaseMovedWant,
} from "../admin-api.ts";
import { freeAddresses } from "../free-addresses.ts";
import { planObject } from "../plan.ts";
import { ClusterProblem } from "./asking/cluster-problem.ts";
import { ifPermitted, listObjects } from "./asking/lists.ts";
import { type ClusterCheck, checkCluster } from "./check.ts";
import { examineCluster } from "./doctor/doctor.ts";
import { formerHoldersIn } from "./former-holders.ts";
import { importCluster } from "./import-report.ts";
import { clusterNetworks, planSpaces, poolsOfNetwork } from "./network-views.ts";
import { ownerChains } from "./owner-chain.ts";
import { releaseMoved } from "./release-moved.ts";
import { allocationsAt, networksKnown, readAllocations, readDefinitions, readSnapshot } from "./snapshot.ts";
import { udnNetworks } from "./udn-networks.ts";

/** Younger findings are not reported by default, seconds: longer than a controller needs. */
const GRACE_SECONDS_DEFAULT = 120;
/** For a release when there is no limit, ms. */
const RELEASE_MS_MAX = 600_000;
const OWNERS_MS_MAX = 30_000;
const MOVE_MS_MAX = 30_000;

/** Addresses that VMs ask for, by claim. */
type AskedByClaim = ReadonlyMap<string, readonly string[]>;
const NOTHING_ASKED: ReadonlyMap<string, readonly string[]> = new Map();

export interface ClusterAdminOptions {
  readonly api: KubeApi;
  /** Longest silence of the API server, ms; 0: no limit. */
  readonly silenceMs: number;
}

/** Answers from the objects of a cluster, read again for each question. */
export class ClusterAdmin implements ClusterAdminApi {
  readonly kind = "cluster";
  readonly #api: KubeApi;
  readonly #silenceMs: number;
  /** As the last list with a network has read it. */
  #lastAsked: AskedByClaim | null = null;

  constructor({ api, silenceMs }: ClusterAdminOptions) {
    this.#api = api;
    this.#silenceMs = silenceMs;
  }

  async networks({ former = false, counted = true }: NetworksWant = {}): Promise<NetworkWithClaims[]> {
    const views = await this.#networks(counted);
    if (!former) return views;
    const behind = formerHoldersIn(await readSnapshot(this.#api));
    return views.map((view) => ({ ...view, former: behind.count(view.name) }));
  }

  async #networks(counted: boolean): Promise<NetworkWithClaims[]> {
    const [{ catalog, networks: objects }, inUse] = await Promise.all([
      readDefinitions(this.#api),
      counted ? readAllocations(this.#api) : [],
    ]);
    const ours = clusterNetworks(catalog, inUse, objects, this.#api.clock.wallMs());
    const others = await udnNetworks(this.#api, new Set(ours.map(({ name }) => name)));
    return [...ours, ...others].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  doctor(): Promise<Diagnosis[]> {
    return examineCluster(this.#api);
  }

  async free(network: string, want: FreeWant): Promise<FreeAddresses> {
    const [{ catalog }, inUse] = await Promise.all([
      readDefinitions(this.#api),
      want.counted ? readAllocations(this.#api) : [],
    ]);
    const definition = catalog.definitionOf(network)?.definition;
    const nowMs = this.#api.clock.wallMs();
    const pools = definition && poolsOfNetwork(network, definition, inUse, nowMs);
    return freeAddresses(network, want, pools, false);
  }

  async plan({ objects, namespace }: PlanWant): Promise<PlanItem[]> {
    const [{ catalog }, inUse, vms] = await Promise.all([
      readDefinitions(this.#api),
      readAllocations(this.#api),
      objects ?? listObjects(this.#api, namespace === null ? VMS_PATH : namespacedPath(VMS_PATH, namespace)),
    ]);
    const spaceOf = planSpaces(catalog, inUse, this.#api.clock.wallMs());
    const items: PlanItem[] = [];
    for (const object of vms) items.push(...(await planObject(object, namespace ?? DEFAULT_NAMESPACE, spaceOf)));
    return items;
  }

  async places(address: Address): Promise<AddressPlace[]> {
    const { catalog } = await readDefinitions(this.#api);
    const definitions = catalog.networks().map((network) => catalog.definitionOf(network)?.definition);
    return placesOn(definitions, address);
  }

  moveNetwork(network: string, owner: string): Promise<MovedNetwork> {
    return moveNetwork(this.#api, network, owner, this.#api.clock.monotonicMs() + MOVE_MS_MAX);
  }

  async allocations(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    const { address, network } = filter;
    if (address !== undefined) {
      const views = (await allocationsAt(this.#api, address, network)).map(viewOf);
      return { items: views.filter((view) => matches(view, filter)) };
    }
    const [found, asked] = await Promise.all([
      listFromApi(this.#api, filter, page),
      network === undefined ? NOTHING_ASKED : this.#askedOn(page),
    ]);
    const items = found.items.map((one) => {
      const { kind, namespace, name } = one.owner;
      const its = kind === "claim" ? asked.get(`${namespace}/${name}`) : undefined;
      const ofFamily = its?.filter((address) => address.includes(":") === one.address.includes(":")) ?? [];
      return ofFamily.length === 0 ? one : { ...one, asked: ofFamily };
    });
    return { ...found, items };
  }

  /** All in one page whatever the limit: the cluster was read as a whole. */
  async claims({ namespace, name }: ClaimFilter): Promise<Page<ClaimManifest>> {
    const [{ catalog }, all, askedBy] = await Promise.all([
      readDefinitions(this.#api),
      listObjects<ClaimManifest>(this.#api, CLAIMS_PATH),
      this.#asked(),
    ]);
    const ours = new Set(catalog.networks());
    const items = all
      .filter(({ spec }) => ours.has(spec?.network))
      .filter(({ metadata }) => namespace === undefined || metadata.namespace === namespace)
      .filter(({ metadata }) => name === undefined || metadata.name === name)
      .map((claim) => {
        const { managedFields: _, ...metadata } = claim.metadata;
        const asked = askedBy.get(`${metadata.namespace}/${metadata.name}`);
        return {
          ...claim,
          metadata: metadata as ClaimManifest["metadata"],
          ...(asked === undefined ? {} : { asked }),
        };
      });
    return { items };
  }

  /** What the first page of a list has read holds for the pages after it: it is a list of all VMs that run. */
  async #askedOn({ continue: token }: PageRequest): Promise<AskedByClaim> {
    if (token === undefined || this.#lastAsked === null) this.#lastAsked = await this.#asked();
    return this.#lastAsked;
  }

  /** By claim; none where the user may not list pods. */
  async #asked(): Promise<AskedByClaim> {
    return new Map(await ifPermitted(async () => [...(await askedByClaim(this.#api))]));
  }

  async history(filter: HistoryWant): Promise<PastPeriod[]> {
    const { address, network } = filter;
    const objects =
      address === undefined ? readAllocations(this.#api, network) : allocationsAt(this.#api, address, network);
    return clusterHistory(await objects, filter);
  }

  async identity({ question, here }: IdentityQuery): Promise<IdentityAnswer> {
    if (here) invalid("here", "true", "it asks a daemon about its node; leave it out, or ask with --socket");
    return identityInCluster(this.#api, question);
  }

  check(graceSeconds: number | null): Promise<ClusterCheck> {
    return checkCluster(this.#api, graceSeconds ?? GRACE_SECONDS_DEFAULT);
  }

  release(want: ReleaseWant): Promise<ReleaseOutcome> {
    const api = this.#api;
    const deadlineMs = api.clock.monotonicMs() + (this.#silenceMs || RELEASE_MS_MAX);
    const pods = new PodDirectory(api, () => undefined);
    return releaseInKubernetes(new AllocationClient(api, "housekeeping"), want, {
      deadlineMs,
      api,
      podState: (pod) => pods.stateOf(pod, deadlineMs),
    });
  }

  releaseMoved(want: ReleaseMovedWant): Promise<ReleasedCluster> {
    return releaseMoved(this.#api, want, this.#api.clock.monotonicMs() + RELEASE_MS_MAX);
  }

  ownersOf(question: OwnersQuestion): Promise<OwnerChain[]> {
    return ownerChains(this.#api, question, this.#api.clock.monotonicMs() + (this.#silenceMs || OWNERS_MS_MAX));
  }

  /** host-local's directories are read on nodes without a cluster: a request with `dataDir` is for such a daemon. */
  async importByHand({ network, dataDir, dryRun }: ImportRequest): Promise<ImportReport> {
    if (dataDir !== undefined)
      invalid("dataDir", dataDir, "host-local's directories are read on nodes without a cluster only; leave it out");
    return importCluster(this.#api, { ...(network === undefined ? {} : { network }), dryRun });
  }
}

async function identityInCluster(api: KubeApi, question: IdentityQuestion): Promise<IdentityAnswer> {
  const definitions = await readDefinitions(api);
  const { catalog } = definitions;
  const pods = new PodDirectory(api, () => undefined);
  const facts: NetworkFacts = {
    definition: (network) => catalog.definitionOf(network)?.definition,
    dns: ({ dns }) => dns,
    mtu: () => null,
    mac: () => null,
    asked: (pod, interfaceName) => pods.askedOn(pod, interfaceName),
    routes: ({ routes }) => routes,
  };
  const vms = new ClusterVms(api, pods, { readsVms: true });
  const source = new ClusterIdentities({ api, facts, vms, networks: () => networksKnown(definitions) });
  return answerFrom({ find: (one) => source.find(one), vm: (found) => vmOrRecorded(source, found) }, question, facts);
}

/** Without permission to read pods and VMs, or where KubeVirt is gone, the answer comes from the allocations alone. */
async function vmOrRecorded(source: ClusterIdentities, holdings: readonly Holding[]): Promise<IdentityVm | null> {
  try {
    return await source.vm(holdings);
  } catch (error) {
    if (!(error instanceof ClusterProblem && error.kind === "refused")) throw error;
    const recorded = holdings.find(({ vm }) => vm !== null);
    if (!recorded?.vm) return null;
    return { namespace: recorded.owner.namespace, ...recorded.vm, vmiUid: null, firmwareUuid: null };
  }
}

/** Who has an address and uses it, and the former holders of cooling ones. The newest first. */
function clusterHistory(
  allocations: readonly IPAllocation[],
  { network, address, namespace, limit }: HistoryWant,
): PastPeriod[] {
  return allocations
    .filter(isSound)
    .filter(({ spec }) => network === undefined || spec.network === network)
    .filter((object) => address === undefined || sameAddress(addressOf(object), address))
    .sort((a, b) => compareAddresses(addressOf(a), addressOf(b)))
    .flatMap(periodsOf)
    .filter(({ owner, pod }) => namespace === undefined || [owner.namespace, pod?.namespace].includes(namespace))
    .sort((a, b) => timeOf(b) - timeOf(a))
    .slice(0, limit);
}

function periodsOf(object: IPAllocation): PastPeriod[] {
  const { network, address, owner, state, since, attachments } = viewOf(object);
  const held = { network, address, owner, containerID: null, interface: null, pod: null };
  if (state === "Cooling") return [{ ...held, node: "", from: null, until: since, endedBy: "released" }];
  if (state === "Retained") return [{ ...held, node: "", from: null, until: since, endedBy: "claim deleted" }];
  const uses = attachments.map(({ containerID, interface: name, pod, node, since: from }) => ({
    ...{ network, address, owner, containerID, interface: name, pod, node },
    ...{ from, until: null, endedBy: null },
  }));
  // A pod or container holds by using; a claim also without. Imported addresses have no use yet.
  if (owner.kind !== "claim" && uses.length > 0) return uses;
  const node = object.status?.node ?? "";
  return [...uses, { ...held, node, from: since, until: null, endedBy: null }];
}

/** ms; an unreadable time is old. */
function timeOf({ from, until }: PastPeriod): number {
  return parseTime(from ?? until ?? "") || 0;
}
