import { RefusalError } from "../../ipam/refusals.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { objectAt, readMetadata, readTexts } from "../../kube/views/object-metadata.ts";
import { ADDRESSES_ANNOTATION, readRequestedAddresses } from "../../kube/views/requested-addresses.ts";
import { VMIS_PATH, VMS_PATH, vmOwnerOf } from "../../kube/views/tenant-objects.ts";
import { vmInterfacesIn } from "../../kube/views/vmi-view.ts";
import { claimOfInterface } from "../vm-claims.ts";
import { type Found, present, UNKNOWN } from "./facts.ts";
import { readFact } from "./fresh-read.ts";

/** A claim of a VM: the VM or VMI that owns it. */
export interface ClaimOfVm {
  readonly namespace: string;
  readonly name: string;
  readonly vm: { readonly name: string; readonly uid: string };
}

/** Where a VM's interface is to be. */
export interface VmInterfaceWanted {
  /** `namespace/name` of the NetworkAttachmentDefinition. */
  readonly nad: string;
  /** What the VM asks for on it, canonical. */
  readonly asks: readonly string[];
  /** Of the VMI that says so; null: the VM's template does, and nothing of it runs. */
  readonly vmi: string | null;
}

/**
 * By quorum reads: its VMI, which KubeVirt makes launchers from, else the template of its VM. Unknown where neither is
 * of the claim's owner, or the VM has no such interface: it may be plugged in again.
 */
export async function readVmWants(api: KubeApi, claim: ClaimOfVm): Promise<Found<VmInterfaceWanted>> {
  const { namespace, vm } = claim;
  const at = (path: string) => [namespacedPath(path, namespace, vm.name)];
  const vmi = await readFact(api, at(VMIS_PATH), (object) => {
    const { uid } = readMetadata(object, "VirtualMachineInstance");
    const isOwned = uid === vm.uid || vmOwnerOf(object, "VirtualMachineInstance")?.uid === vm.uid;
    return isOwned ? wantedBy(object, claim, uid) : null;
  });
  if (vmi.kind === "present") return vmi.it === null ? UNKNOWN : present(vmi.it);
  if (vmi.kind === "unknown") return UNKNOWN;
  const stopped = await readFact(api, at(VMS_PATH), (object) => {
    const { uid } = readMetadata(object, "VirtualMachine");
    const template = objectAt(objectAt(object, "spec", "VirtualMachine"), "template", "VirtualMachine");
    return uid === vm.uid ? wantedBy(template, claim, null) : null;
  });
  return stopped.kind === "present" && stopped.it !== null ? present(stopped.it) : UNKNOWN;
}

/** Of a VMI, or of a VM's template. null: no interface of it is certainly the claim's. */
function wantedBy(object: unknown, { namespace, name, vm }: ClaimOfVm, vmi: string | null): VmInterfaceWanted | null {
  const interfaces = vmInterfacesIn(objectAt(object, "spec", "VirtualMachineInstance"));
  const [one, ...others] = interfaces.filter((found) => claimOfInterface(vm.name, found.name) === name);
  if (!one?.nad || others.length > 0) return null;
  const text = readTexts(object, "annotations").get(ADDRESSES_ANNOTATION);
  const nad = one.nad.includes("/") ? one.nad : `${namespace}/${one.nad}`;
  return { nad, asks: asksIn(text, one.name), vmi };
}

/** One that nobody can read asks for nothing. */
function asksIn(text: string | undefined, network: string): string[] {
  try {
    return (readRequestedAddresses(text).get(network) ?? []).map(({ address }) => formatAddress(address));
  } catch (error) {
    if (error instanceof RefusalError) return [];
    throw error;
  }
}
