import type { Address } from "../../ipam/address.ts";
import { type Holder, newAllocation } from "../../store/kubernetes/allocation-object.ts";
import { ALLOCATIONS_PATH, type AllocationAttachment } from "../../store/kubernetes/objects.ts";
import type { KubeApi } from "../../test/harness/kube-api.ts";
import { inParallel } from "./parallel.ts";

const CREATED_AT_ONCE = 32;
export const SINCE = "2026-01-01T00:00:00Z";

/** 10.0.0.0 and so many more. */
export function tenth(index: number): Address {
  return { family: 4, value: BigInt(0x0a00_0000 + index) };
}

/** Allocations made as other nodes make them, but without the nodes. */
export async function fill(
  api: KubeApi,
  network: string,
  prefixLength: number,
  entries: readonly { readonly index: number; readonly holder: Holder }[],
): Promise<void> {
  await inParallel(entries, CREATED_AT_ONCE, async ({ index, holder }) => {
    const object = newAllocation(network, { address: tenth(index), prefixLength }, holder, SINCE);
    await api.create(ALLOCATIONS_PATH, object);
  });
}

/** A pod of another node. */
export function stranger(index: number): Holder {
  const pod = { namespace: "elsewhere", name: `pod-${index}`, uid: uidOf(index) };
  const attachment: AllocationAttachment = {
    containerID: uidOf(index),
    interface: "net1",
    node: "elsewhere",
    pod,
    since: SINCE,
  };
  return { owner: { kind: "Pod", ...pod, interface: "net1" }, attachment };
}

function uidOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
}
