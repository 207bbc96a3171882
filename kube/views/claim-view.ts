import type { ClaimCondition } from "../../ipam/claim-conditions.ts";
import { describeValue, isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { sameAddress } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ANNOTATION_FOLLOWED, type OwnerReference } from "../objects.ts";
import { conditionsIn } from "./conditions.ts";
import { readFollowed } from "./followed-network.ts";
import { MalformedObjectError, objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

export type ClaimView = Readonly<ReturnType<typeof projectClaim>>;

/** Addresses that a claim may list or request: far more than one interface has. */
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
  const { network } = spec;
  const listed = { network, ips: textsOf(status.ips) };
  const { followed, ips } = readFollowed(readTexts(object, "annotations").get(ANNOTATION_FOLLOWED), listed);
  return {
    ...metadata,
    network,
    /**
     * `status.ips` as written, malformed entries included; claimAddresses parses them. While the claim follows its VM
     * to another network (`followed.isOpen`): what they are about to be.
     */
    ips,
    /** null: it has been on no other network, as far as it says. */
    followed,
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
 * The addresses of a claim, in any unambiguous notation; duplicates count once. Throws RefusalError REQUEST_INVALID
 * with claim and value, also for an address without mask: its subnet would be a guess.
 */
export function claimAddresses(view: ClaimView): InterfaceAddress[] {
  const read: InterfaceAddress[] = [];
  for (const text of view.ips) {
    const one = parse(text, view);
    const other = read.find(({ address }) => sameAddress(address, one.address));
    if (other === undefined) read.push(one);
    else if (other.prefixLength !== one.prefixLength) {
      unreadable(view, text, "the same address is listed with another prefix length");
    }
  }
  return read;
}

function parse(text: string, view: ClaimView): InterfaceAddress {
  try {
    return parseInterfaceAddress(text);
  } catch (error) {
    return unreadable(view, text, (error as Error).message);
  }
}

function unreadable(view: ClaimView, text: string, remedy: string): never {
  throw new RefusalError(
    refuse("REQUEST_INVALID", {
      key: `status.ips of IPAMClaim ${view.key}`,
      value: JSON.stringify(text),
      remedy,
    }),
  );
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
