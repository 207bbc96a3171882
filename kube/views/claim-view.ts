import type { ClaimCondition } from "../../ipam/claim-conditions.ts";
import { describeValue, isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { OwnerReference } from "../objects.ts";
import { conditionsIn } from "./conditions.ts";
import { MalformedObjectError, objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

export type ClaimView = Readonly<ReturnType<typeof projectClaim>>;

/** Entries of lists that others write which are kept: far more than one interface has addresses. */
const LISTED_MAX = 256;
const VM_KINDS = ["VirtualMachine", "VirtualMachineInstance"];
const VM_LABEL = "kubevirt.io/vm";

/** Its definition may lack `ownerPod` and `conditions`, or have the former as a text. Throws MalformedObjectError. */
export function projectClaim(object: unknown) {
  const metadata = readMetadata(object, "IPAMClaim");
  const spec = objectAt(object, "spec", "IPAMClaim");
  if (typeof spec.network !== "string") {
    throw new MalformedObjectError(`IPAMClaim ${metadata.key}: spec.network is no text`);
  }
  const status = objectAt(object, "status", "IPAMClaim");
  const owners = readOwners(object, "IPAMClaim");
  return {
    ...metadata,
    /** Where the claim is, for people: what it has is its allocations (docs/decisions/0093). */
    network: spec.network,
    /** `status.ips` as written, malformed entries included. */
    ips: textsOf(status.ips),
    /** Somebody has written its status, if only an empty list. */
    hasStatus: Object.keys(status).length > 0,
    ipRequests: textsOf(spec.ipRequests),
    ownerPod: nameOf(status.ownerPod),
    conditions: conditionsOf(status.conditions),
    owners,
    /** For people: the VM that owns the claim, else the one in its label, then without UID. */
    vm: vmOf(vmOwners(owners), readTexts(object, "labels").get(VM_LABEL)),
  };
}

export function vmOwners(owners: readonly OwnerReference[]): OwnerReference[] {
  return owners.filter(({ kind }) => VM_KINDS.includes(kind));
}

/**
 * Entries of `status.ips` that are read and written: a claim has two networks' addresses while its VM moves, of some
 * subnets each. What it has besides is found by its label.
 */
export const CLAIM_LIST_MAX = 16;

/** What a claim lists, in any unambiguous notation; what is malformed, or too much, is left out. */
export function listedAddresses({ ips }: { readonly ips: readonly string[] }): InterfaceAddress[] {
  return ips.slice(0, CLAIM_LIST_MAX).flatMap((text) => {
    try {
      return [parseInterfaceAddress(text)];
    } catch {
      return [];
    }
  });
}

/**
 * Values that are not strings are kept as JSON, so that a malformed claim never looks like one without addresses. Nor
 * does one that lists too many: the last of its texts says so, and is no address.
 */
function textsOf(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const texts = list.slice(0, LISTED_MAX).map((one) => (typeof one === "string" ? one : describeValue(one)));
  return list.length > LISTED_MAX ? [...texts, `${list.length} entries, of which ${LISTED_MAX} are read`] : texts;
}

function nameOf(ownerPod: unknown): string | null {
  const name = isObject(ownerPod) ? ownerPod.name : ownerPod;
  return typeof name === "string" && name !== "" ? name : null;
}

function conditionsOf(value: unknown): ClaimCondition[] {
  return conditionsIn(value).filter((one): one is ClaimCondition & JsonObject => typeof one.type === "string");
}

function vmOf([owner]: readonly OwnerReference[], label: string | undefined): { name: string; uid: string } | null {
  if (owner) return { name: owner.name, uid: owner.uid };
  return label ? { name: label, uid: "" } : null;
}
