import { UsedSpaces } from "../allocations/used-spaces.ts";
import { AllocationRows } from "../claims/reasons/allocation-rows.ts";
import type { CachedAllocation, Caches, ClaimViewWithFact } from "../claims/reasons/caches.ts";
import { claimFact, nodeFact, projectSweptPod, type SweptPod } from "../claims/reasons/fact-views.ts";
import type { NodeFact, Wants } from "../claims/reasons/facts.ts";
import { StoppedPods } from "../claims/reasons/stopped-pods.ts";
import { sameAddress } from "../ipam/space/address.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { networkObjectOf } from "../kube/network-object.ts";
import {
  ALLOCATIONS_PATH,
  CLAIMS_PATH,
  type IPAllocation,
  type IPNetwork,
  NADS_PATH,
  NETWORKS_PATH,
  NODES_PATH,
  PODS_PATH,
} from "../kube/objects.ts";
import type { Reflected } from "../kube/reflected-items.ts";
import type { ReflectorState } from "../kube/reflector.ts";
import { listedAddresses, projectClaim } from "../kube/views/claim-view.ts";
import { DefinitionsWithPools } from "../networks/definitions-with-pools.ts";
import { type NadView, projectNad } from "../networks/nad-view.ts";
import { readOwner } from "../networks/network-owner.ts";
import { reservedText } from "../networks/network-reservations.ts";
import { type FollowedCache, type FollowedLog, FollowedResources } from "./followed-resources.ts";

export interface WatchedEvents {
  /** Anything but a node, which kubelets write all the time; or whether something is known. */
  readonly changed: () => void;
  /** An owner, a pod or a node is gone or has ended. */
  readonly somethingEnded: () => void;
  /** A pod reports more addresses than are read of one pod. */
  readonly podAddressesCut: (pod: SweptPod) => void;
  /** A claim lists addresses that it did not list before. */
  readonly claimListed: () => void;
  readonly allocation: (object: IPAllocation) => void;
  readonly allocationGone: (object: IPAllocation) => void;
  /** It was deleted while it was watched. */
  readonly allocationDeleted: (object: IPAllocation) => void;
  readonly networkChanged: () => void;
  readonly networkGone: (object: IPNetwork) => void;
  /** The state of the watch of the allocations, and each version that it brings. */
  readonly allocationsState: (state: ReflectorState) => void;
  readonly definitionsChanged: () => void;
}

interface CachedNode extends Reflected, NodeFact {}
interface CachedNetwork extends Reflected {
  readonly object: IPNetwork;
}

type Resource = "allocations" | "claims" | "pods" | "nodes" | "nads" | "networks";

/** Everything of the cluster that the controller follows, and whether it can be trusted. */
export class Watched extends FollowedResources<Resource> implements Omit<Caches, "machines"> {
  readonly allocations: FollowedCache<CachedAllocation>;
  readonly claims: FollowedCache<ClaimViewWithFact>;
  readonly pods: FollowedCache<SweptPod>;
  readonly nodes: FollowedCache<CachedNode>;
  readonly networks: FollowedCache<CachedNetwork>;
  readonly stoppedPods = new StoppedPods();
  /** Where the VMs of claims are to be, as was read last, by the claim's UID. */
  readonly wanted = new Map<string, Wants>();
  readonly usedSpaces = new UsedSpaces(({ namespace, name, uid }, address) => {
    const claim = this.claims.items.get(`${namespace}/${name}`);
    if (claim?.uid !== uid) return this.claims.known ? "gone" : "unknown";
    return listedAddresses(claim).some((one) => sameAddress(one.address, address)) ? "listed" : "unlisted";
  });
  readonly #namesByClaim = new Map<string, Set<string>>();
  readonly catalog: DefinitionsWithPools;
  readonly #nads: FollowedCache<NadView>;

  constructor(api: KubeApi, events: WatchedEvents, log: FollowedLog) {
    super(api, log, (resource) => {
      if (resource !== "nodes") events.changed();
    });
    this.catalog = new DefinitionsWithPools(api.clock);
    const rows = new AllocationRows();
    this.allocations = this.follow<CachedAllocation>("allocations", ALLOCATIONS_PATH, {
      project: (object) => rows.project(object),
      onUpsert: ({ object, address }) => {
        this.usedSpaces.upsert(object, address);
        events.allocation(object);
      },
      onDelete: ({ object, address }) => {
        this.usedSpaces.gone(object, address);
        events.allocationGone(object);
      },
      onDeletion: events.allocationDeleted,
      onState: events.allocationsState,
      onVersion: (version) => {
        this.usedSpaces.noteVersion(version);
      },
    });
    this.allocations.onChange((now, before) => this.#noteOwnerOf(now, before));
    this.claims = this.follow<ClaimViewWithFact>("claims", CLAIMS_PATH, {
      project: (object) => {
        const view = projectClaim(object);
        return { ...view, fact: claimFact(view) };
      },
      onUpsert: (claim, previous) => {
        if (claim.ips.length > 0 && claim.ips.join() !== previous?.ips.join()) events.claimListed();
      },
      onDelete: events.somethingEnded,
    });
    this.pods = this.follow<SweptPod>("pods", PODS_PATH, {
      project: projectSweptPod,
      onUpsert: (pod, previous) => {
        if (pod.terminal && previous?.terminal === false) events.somethingEnded();
        if (pod.addressesCut && !previous?.addressesCut) events.podAddressesCut(pod);
      },
      onDelete: (pod) => {
        this.stoppedPods.noteGone(pod);
        events.somethingEnded();
      },
    });
    this.nodes = this.follow<CachedNode>("nodes", NODES_PATH, {
      project: (object) => {
        const { name, uid, resourceVersion } = object.metadata;
        return { key: name, uid, resourceVersion, ...nodeFact(object) };
      },
      onUpsert: () => {},
      onDelete: events.somethingEnded,
    });
    this.networks = this.follow<CachedNetwork>("networks", NETWORKS_PATH, {
      project: (object) => {
        const { name, uid, resourceVersion } = object.metadata;
        return { key: name, uid, resourceVersion, object };
      },
      onUpsert: ({ object }, previous) => {
        this.#noteOwner(object);
        events.networkChanged();
        const told = (one: IPNetwork | undefined) =>
          JSON.stringify([one?.spec, one?.status?.importedFrom, one?.status?.importWanted, reservedText(one)]);
        if (told(object) !== told(previous?.object)) events.definitionsChanged();
      },
      onDelete: ({ object }) => {
        this.#noteOwner(object);
        events.networkGone(object);
        events.definitionsChanged();
      },
    });
    this.#nads = this.follow<NadView>("nads", NADS_PATH, {
      // Nothing of a network must be missed; there are few of them.
      quorum: true,
      onState: (state) => {
        if (state !== "watching") this.catalog.interrupted();
      },
      project: projectNad,
      onUpsert: (nad) => {
        this.catalog.upsert(nad);
        events.definitionsChanged();
      },
      onDelete: ({ key }) => {
        this.catalog.remove(key);
        events.definitionsChanged();
      },
    });
  }

  /** Another number after each change of anything but nodes, which kubelets write all the time. */
  get revision(): number {
    const resources = ["allocations", "claims", "pods", "nads", "networks"] as const;
    return resources.reduce((sum, resource) => sum + this.changesOf(resource), 0);
  }

  /** Names of the allocations of a claim (UID). */
  readonly namesOf = (claim: string): Iterable<string> => this.#namesByClaim.get(claim) ?? [];

  /** Bound allocations of a claim (UID), on all networks. */
  readonly had = (claim: string): IPAllocation[] =>
    [...this.namesOf(claim)].flatMap((name) => {
      const object = this.allocations.items.get(name)?.object;
      return object?.status?.state === "Bound" && object.spec.owner.uid === claim ? [object] : [];
    });

  #noteOwnerOf(now: CachedAllocation | null, before: CachedAllocation | null): void {
    for (const one of [before, now]) {
      if (one?.ownerKind !== "IPAMClaim") continue;
      const { uid } = one.object.spec.owner;
      const names = this.#namesByClaim.get(uid) ?? new Set();
      if (one === now) names.add(one.key);
      else names.delete(one.key);
      if (names.size > 0) this.#namesByClaim.set(uid, names);
      else this.#namesByClaim.delete(uid);
    }
  }

  #noteOwner({ spec }: IPNetwork): void {
    const network = spec?.network;
    if (typeof network !== "string") return;
    const object = networkObjectOf(network, (name) => this.networks.items.get(name)?.object);
    this.catalog.setOwner(network, readOwner(object));
    this.catalog.reservations.set(network, object);
  }

  /** Whether every NAD is known, so that no network is missed; where NADs have no definition there are none. */
  get definitionsKnown(): boolean {
    return this.#nads.known || this.#nads.missing;
  }
}
