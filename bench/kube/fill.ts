import { randomUUID } from "node:crypto";
import { type Holder, newAllocation } from "../../allocations/allocation-object.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type AllocationAttachment, API_VERSION } from "../../kube/objects.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import type { KubeObject } from "../../test/harness/kube-api.ts";
import { until } from "../../test/harness/wait.ts";
import { inParallel } from "./parallel.ts";

const CREATED_AT_ONCE = 32;
export const WRITTEN_AT_ONCE = 2_000;
/** Where allocations are in etcd. */
export const IN_ETCD = `${API_VERSION.split("/")[0]}/ipallocations`;
/** The API server remembers every change, with both versions of the object: gigabytes after a hundred thousand. */
const CHANGES_REMEMBERED_MAX = 15_000;
export const SINCE = "2026-01-01T00:00:00Z";

/** 10.0.0.0 and so many more. */
export function tenth(index: number): Address {
  return { family: 4, value: BigInt(0x0a00_0000 + index) };
}

/**
 * Allocations made as other nodes make them, but without the nodes. `network` of an entry: another one than of the
 * rest.
 */
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

/**
 * The same for pods of other nodes, written into etcd as copies of the first: no change is remembered, and it is quick.
 */
export async function fillQuickly(
  cluster: TestCluster,
  network: string,
  prefixLength: number,
  [first = 1, ...others]: readonly number[],
): Promise<void> {
  const one = { address: tenth(first), prefixLength };
  const object = await cluster.api.create(ALLOCATIONS_PATH, newAllocation(network, one, stranger(first), SINCE));
  const { name, uid } = object.metadata;
  const text = formatAddress(one.address);
  await besideApiServer(cluster, async () => {
    for (let from = 0; from < others.length; from += WRITTEN_AT_ONCE) {
      const copies = others.slice(from, from + WRITTEN_AT_ONCE).map((index) => {
        const address = tenth(index);
        return copied(object, [
          [name, allocationName(network, address)],
          [uid, randomUUID()],
          [`"${text}/`, `"${formatAddress(address)}/`],
          [`"pod-${first}"`, `"pod-${index}"`],
          [uidOf(first), uidOf(index)],
        ]);
      });
      await cluster.writeEtcd(new Map(copies.map((copy) => [`${IN_ETCD}/${copy.metadata.name}`, copy])));
    }
  });
}

/** It forgets the changes that it remembered, which would be its own burden and not that of the objects. */
export function restartApiServer(cluster: TestCluster): Promise<void> {
  return besideApiServer(cluster, async () => {});
}

/** Writes into etcd while no API server runs, which would keep every change in its memory. */
export async function besideApiServer(cluster: TestCluster, write: () => Promise<void>): Promise<void> {
  await cluster.stopApiServer();
  cluster.api.close();
  await write();
  await cluster.startApiServer();
  const served = async () => (await cluster.api.call("GET", `${ALLOCATIONS_PATH}?limit=1`)).status === 200;
  await until(served, "the definitions to be served again");
}

/** The object with other names, to be put into etcd past the API server. */
export function copied(object: KubeObject, others: readonly (readonly [string, string])[]): KubeObject {
  let text = JSON.stringify(object);
  for (const [from, to] of others) text = text.replaceAll(from, to);
  const copy = JSON.parse(text);
  // The server makes it of etcd's own.
  delete copy.metadata.resourceVersion;
  return copy;
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

export function uidOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
}
