import type { Address } from "../../ipam/space/address.ts";
import { ALLOCATIONS_PATH, type AllocationAttachment } from "../../kube/objects.ts";
import { type Holder, newAllocation } from "../../store/cluster/allocations/allocation-object.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import { until } from "../../test/harness/wait.ts";
import { inParallel } from "./parallel.ts";

const CREATED_AT_ONCE = 32;
/** The API server remembers every change, with both versions of the object: gigabytes after a hundred thousand. */
const CHANGES_REMEMBERED_MAX = 15_000;
export const SINCE = "2026-01-01T00:00:00Z";

/** 10.0.0.0 and so many more. */
export function tenth(index: number): Address {
  return { family: 4, value: BigInt(0x0a00_0000 + index) };
}

/** Allocations made as other nodes make them, but without the nodes. `network` of an entry: another one than of the rest. */
export async function fill(
  cluster: TestCluster,
  network: string,
  prefixLength: number,
  entries: readonly { readonly index: number; readonly holder: Holder; readonly network?: string }[],
): Promise<void> {
  for (let from = 0; from < entries.length; from += CHANGES_REMEMBERED_MAX) {
    const part = entries.slice(from, from + CHANGES_REMEMBERED_MAX);
    await inParallel(part, CREATED_AT_ONCE, async ({ index, holder, network: other = network }) => {
      const object = newAllocation(other, { address: tenth(index), prefixLength }, holder, SINCE);
      await cluster.api.create(ALLOCATIONS_PATH, object);
    });
    if (part.length > 1) await restartApiServer(cluster);
  }
}

/** It forgets the changes that it remembered, which would be its own burden and not that of the objects. */
export async function restartApiServer(cluster: TestCluster): Promise<void> {
  await cluster.stopApiServer();
  cluster.api.close();
  await cluster.startApiServer();
  const served = async () => (await cluster.api.call("GET", `${ALLOCATIONS_PATH}?limit=1`)).status === 200;
  await until(served, "the definitions to be served again");
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
