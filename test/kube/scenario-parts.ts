import { expect } from "vitest";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName } from "../../kube/object-names.ts";
import { type CniAnswer, until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { AttachmentOptions, NodeDaemon } from "../harness/node.ts";

/** Far above what a daemon needs to tell the API server what it owes. */
const CLEAN_MS_MAX = 30_000;

/** A network as tests use it: the NAD in the cluster, and what a runtime passes on of it. */
export interface TestNetwork {
  readonly name: string;
  readonly config: string;
}

/** How a test attaches a pod, where it differs from the usual. */
export type Attaching = Partial<AttachmentOptions>;

/** The configuration of a network that most tests can use. */
export function configOf(name: string, ipam: object = {}, plugin: object = {}): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    allowPersistentIPs: true,
    ...plugin,
    ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/24", ...ipam },
  });
}

export function ipsOf(answer: CniAnswer): string[] {
  return answer.json().ips.map((ip: { address: string }) => ip.address);
}

/** The name of an address's IPAllocation. */
export function nameOf(network: string, address: string): string {
  return allocationName(network, parseInterfaceAddress(address).address);
}

/** A node's own check finds nothing, once everything owed is told. */
export async function expectCheckPasses(node: NodeDaemon): Promise<void> {
  let last = "";
  const clean = async () => {
    const { status, body, json } = await node.daemon.get("/v1/check");
    last = body;
    return status === 200 && json().findings.length === 0;
  };
  await until(clean, "a clean check", CLEAN_MS_MAX).catch(() => {
    expect.unreachable(`check on ${node.name}: ${last}`);
  });
}

/** What a pod's interface is called in messages. */
export function interfaceKey(pod: KubeObject, network: TestNetwork, ifname: string): string {
  return `network ${network.name}, pod ${pod.metadata.name} ${pod.metadata.uid}, ${ifname}`;
}

/** The sandbox and interface that an attachment is of when the test does not say. */
export function containerOf(
  pod: KubeObject,
  { containerId = `sandbox-${pod.metadata.uid}`, ifname = "net1" }: Attaching,
): { containerId: string; ifname: string } {
  return { containerId, ifname };
}
