import { addressOf, isSound } from "../../allocations/allocation-object.ts";
import type { Finding } from "../../ipam/finding.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { ClusterSnapshot } from "./snapshot.ts";

/** I1: an address has one object, named after it; two objects for one address can only come from outside. */
export function checkNames({ allocations }: ClusterSnapshot): Finding[] {
  const findings: Finding[] = [];
  const byAddress = new Map<string, string[]>();
  for (const { key: name, object } of allocations.values()) {
    const what = addressText(object);
    if (what === null) {
      findings.push(strange(name, "names no network and address that can be read"));
      continue;
    }
    const names = byAddress.get(what.text);
    if (names === undefined) byAddress.set(what.text, [name]);
    else names.push(name);
    if (what.name === name && !isSound(object))
      findings.push(strange(name, `(${what.text}) has no state, or an owner without UID`));
  }
  for (const [text, names] of byAddress) {
    const [name = "", ...others] = names;
    const object = allocations.get(name)?.object;
    if (others.length > 0) {
      const message = `${text} has ${names.length} IPAllocations: ${names.sort().join(", ")}`;
      const hint =
        "the one that Holdfast made is named after the address; find out who wrote the others, and delete them";
      findings.push({ invariant: "I1", message, hint });
    } else if (object && addressText(object)?.name !== name) {
      const message = `IPAllocation ${name} claims ${text}, but has another address's name: ${text} may be given a second time`;
      const hint = `find out who wrote it (kubectl get ipallocation ${name} -o yaml), and delete it once nothing uses the address`;
      findings.push({ invariant: "I1", message, hint });
    }
  }
  return findings;
}

function strange(name: string, problem: string): Finding {
  const hint = `it is left alone; see kubectl get ipallocation ${name} -o yaml, and delete it once nothing uses its address`;
  return { invariant: "object", message: `IPAllocation ${name} ${problem}`, hint };
}

/** null: it has no network or address. */
function addressText(object: IPAllocation): { text: string; name: string } | null {
  try {
    const address = addressOf(object);
    const { network } = object.spec;
    return {
      text: `${formatAddress(address)} of network ${network}`,
      name: allocationName(network, address),
    };
  } catch {
    return null;
  }
}
