import { CAPI_GROUP, CAPI_IPAM_GROUP, capiPaths } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ADDRESS_POOLS_PATH } from "../../kube/objects.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import { type AddressPoolView, projectAddressPool } from "../../kube/views/address-pool-view.ts";
import {
  type CapiClusterView,
  type MachineAddressView,
  type MachineClaimView,
  projectCapiCluster,
  projectMachineAddress,
  projectMachineClaim,
} from "../../kube/views/machine-claim-view.ts";
import { readMetadata } from "../../kube/views/object-metadata.ts";
import { type FollowedCache, type FollowedLog, FollowedResources, type FollowHooks } from "../followed-resources.ts";

/** Metal3 IPAM's pools: only whether one has the name of an AddressPool. */
const METAL3_POOLS_PATH = "/apis/ipam.metal3.io/v1alpha1/ippools";

/** Called for every change; `previous` has the same UID. */
export interface MachineEvents {
  readonly claim: (claim: MachineClaimView, previous: MachineClaimView | undefined) => void;
  readonly claimGone: (claim: MachineClaimView) => void;
  readonly address: (address: MachineAddressView) => void;
  readonly addressGone: (address: MachineAddressView) => void;
  readonly pool: (pool: AddressPoolView, previous: AddressPoolView | undefined) => void;
  readonly poolGone: (pool: AddressPoolView) => void;
  readonly cluster: (cluster: CapiClusterView, previous: CapiClusterView | undefined) => void;
  readonly clusterGone: (cluster: CapiClusterView) => void;
  readonly metal3Pool: () => void;
  /** The watch of the pools was interrupted: an edition of them may have been missed. */
  readonly poolsInterrupted: () => void;
  readonly changed: () => void;
}

type Resource = "ipaddressclaims" | "ipaddresses" | "addresspools" | "clusters" | "ippools";

/** What the API server shows of Cluster API's machines and their pools. Everything by `namespace/name`. */
export class MachineCaches extends FollowedResources<Resource> {
  readonly claims: FollowedCache<MachineClaimView>;
  readonly addresses: FollowedCache<MachineAddressView>;
  readonly pools: FollowedCache<AddressPoolView>;
  readonly clusters: FollowedCache<CapiClusterView>;
  readonly metal3Pools: FollowedCache<Reflected>;

  constructor(api: KubeApi, events: MachineEvents, log: FollowedLog) {
    super(api, log, events.changed);
    const capi = <T extends Reflected>(resource: Resource, group: string, hooks: FollowHooks<T>) => {
      const [path, ...otherPaths] = capiPaths(group, resource);
      return this.follow<T>(resource, path, { ...hooks, otherPaths });
    };
    this.claims = capi<MachineClaimView>("ipaddressclaims", CAPI_IPAM_GROUP, {
      project: projectMachineClaim,
      onUpsert: events.claim,
      onDelete: events.claimGone,
    });
    this.addresses = capi<MachineAddressView>("ipaddresses", CAPI_IPAM_GROUP, {
      project: projectMachineAddress,
      onUpsert: events.address,
      onDelete: events.addressGone,
    });
    this.clusters = capi<CapiClusterView>("clusters", CAPI_GROUP, {
      project: projectCapiCluster,
      onUpsert: events.cluster,
      onDelete: events.clusterGone,
    });
    this.pools = this.follow<AddressPoolView>("addresspools", ADDRESS_POOLS_PATH, {
      // As with NADs, nothing of a network must be missed.
      quorum: true,
      onState: (state) => {
        if (state !== "watching") events.poolsInterrupted();
      },
      project: projectAddressPool,
      onUpsert: events.pool,
      onDelete: events.poolGone,
    });
    this.metal3Pools = this.follow<Reflected>("ippools", METAL3_POOLS_PATH, {
      metadataOnly: true,
      // Another provider's kind: where it cannot be read, what was last seen of it counts.
      isDispensable: true,
      project: (object) => readMetadata(object, "IPPool"),
      onUpsert: (_, previous) => {
        if (previous === undefined) events.metal3Pool();
      },
      onDelete: events.metal3Pool,
    });
  }
}
