import type { AllocationView, Page } from "../allocations/records.ts";
import type { IdentityAnswer } from "../identity/wire.ts";
import type { MovedNetwork } from "../networks/record-owner.ts";
import type { ImportReport } from "../store/host-local/report.ts";
import type { ClaimManifest, ContentView } from "../store/manifests.ts";
import type {
  AddressPlace,
  AppliedResult,
  CheckReport,
  DeletedClaim,
  Diagnosis,
  FreeAddresses,
  NetworkWithClaims,
  NodeStatus,
  ObjectDiff,
  OwnerChain,
  PastPeriod,
  PlanItem,
  Released,
  ReleasedCluster,
} from "./admin-api.ts";

interface Items<Item> {
  readonly items: readonly Item[];
}

interface Results {
  readonly results: readonly AppliedResult[];
}

/** The JSON of each route's answer: the table of routes produces it and the command line reads it. */
interface Answers {
  readonly GET: {
    readonly "/v1/networks": Items<NetworkWithClaims>;
    readonly [network: `/v1/networks/${string}`]: NetworkWithClaims;
    readonly "/v1/allocations": Page<AllocationView>;
    readonly "/v1/claims": Page<ClaimManifest>;
    readonly "/v1/history": Items<PastPeriod>;
    readonly "/v1/places": Items<AddressPlace>;
    readonly "/v1/status": NodeStatus;
    readonly "/v1/identity": IdentityAnswer;
    readonly "/v1/content": Items<ContentView>;
    readonly "/v1/check": CheckReport;
    readonly "/v1/doctor": Items<Diagnosis>;
    readonly "/v1/owners": Items<OwnerChain>;
    readonly "/v1/version": { readonly version: string };
    /** Whether the state is reliable about which containers run. */
    readonly "/v1/rebuild": { readonly comparable: boolean };
  };
  readonly POST: {
    /** Changes nothing: a body has room for the objects. */
    readonly "/v1/plan": Items<PlanItem>;
    readonly "/v1/release": Released;
    readonly "/v1/release-moved": ReleasedCluster;
    readonly "/v1/import": ImportReport;
    readonly "/v1/apply": Results;
    /** Changes nothing. */
    readonly "/v1/diff": { readonly results: readonly ObjectDiff[] };
    readonly "/v1/delete": Results;
    /** `bytes`: the size of the file. */
    readonly "/v1/backup": { readonly path: string; readonly bytes: number };
    readonly "/v1/rebuild": { readonly rebuilt: true };
    readonly [network: `/v1/networks/${string}`]: MovedNetwork;
  };
  readonly DELETE: {
    readonly [claim: `/v1/claims/${string}/${string}`]: DeletedClaim;
  };
}

export type Method = keyof Answers;
/** The paths of a method, with `:name` or an actual name in place of a part. */
export type PathOf<Of extends Method> = keyof Answers[Of] & string;
/** Of a path. A network's name has no slash, which the key of its answer cannot say. */
export type Answer<Of extends Method, Path extends PathOf<Of>> = Path extends `/v1/networks/${string}/free`
  ? FreeAddresses
  : Answers[Of][Path];
