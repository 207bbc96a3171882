import type { Address } from "../ipam/space/address.ts";
import { type Cidr, cidrContains, parseInterfaceAddress } from "../ipam/space/cidr.ts";
import type { AllocationState, AllocationView } from "./records.ts";

/** Kinds of owners that are claims, whoever asks for them. */
const CLAIMS: ReadonlySet<string> = new Set(["claim", "addressClaim"]);

export interface AllocationFilter {
  readonly network?: string | undefined;
  readonly address?: Address | undefined;
  /** It is in this subnet. */
  readonly subnet?: Cidr | undefined;
  readonly state?: AllocationState | undefined;
  /** Of the holder: the claim, pod, or machine. */
  readonly namespace?: string | undefined;
  /** `namespace/name`, or a bare name, which matches in any namespace. */
  readonly pod?: string | undefined;
  /** An IPAMClaim, or an IPAddressClaim of Cluster API. */
  readonly claim?: string | undefined;
  /** Cluster API's cluster of a machine. */
  readonly cluster?: string | undefined;
  readonly vm?: string | undefined;
  readonly node?: string | undefined;
  /** Container ID. */
  readonly container?: string | undefined;
}

export interface ClaimFilter {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

export interface PageRequest {
  readonly limit: number;
  readonly continue?: string | undefined;
}

export function matches(view: AllocationView, filter: AllocationFilter): boolean {
  const { owner, vm, attachments } = view;
  if (filter.state !== undefined && view.state !== filter.state) return false;
  if (filter.namespace !== undefined && !isOfNamespace(view, filter.namespace)) return false;
  if (filter.subnet !== undefined && !cidrContains(filter.subnet, parseInterfaceAddress(view.address).address))
    return false;
  if (filter.claim !== undefined && !(CLAIMS.has(owner.kind) && isNamed(owner, filter.claim))) return false;
  if (filter.cluster !== undefined && !isNamed({ ...owner, name: owner.cluster ?? "" }, filter.cluster)) return false;
  if (filter.vm !== undefined && !(vm !== null && isNamed({ ...owner, name: vm.name }, filter.vm))) return false;
  if (filter.container !== undefined && !usesContainer(view, filter.container)) return false;
  if (filter.node !== undefined && !attachments.some((one) => one.node === filter.node)) return false;
  if (filter.pod !== undefined) {
    const pods = attachments.flatMap((one) => (one.pod === null ? [] : [one.pod]));
    const wanted = filter.pod;
    if (!(owner.kind === "pod" && isNamed(owner, wanted)) && !pods.some((pod) => isNamed(pod, wanted))) return false;
  }
  return true;
}

/** The holder's; of a container that of the pod which it is in. */
function isOfNamespace({ owner, attachments }: AllocationView, wanted: string): boolean {
  return owner.namespace === wanted || attachments.some(({ pod }) => pod?.namespace === wanted);
}

function usesContainer({ owner, attachments }: AllocationView, wanted: string): boolean {
  if (owner.kind === "container" && owner.uid === wanted) return true;
  return attachments.some(({ containerID }) => containerID === wanted);
}

function isNamed(object: { namespace: string; name: string }, wanted: string): boolean {
  return wanted.includes("/") ? `${object.namespace}/${object.name}` === wanted : object.name === wanted;
}
