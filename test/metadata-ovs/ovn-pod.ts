import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Ovs } from "../harness/ovs/ovs.ts";
import type { PortGuest } from "../metadata-net/node.ts";

export interface PodRow {
  readonly uid: string;
  readonly mac: string;
  /** With its prefix length, or several with commas. */
  readonly addresses: string;
  /** null: the cluster's default network, which is not named. */
  readonly network: string | null;
}

/** A bridge as ovn-controller makes it: without its flows nothing gets through. */
export async function makeIntegrationBridge(ovs: Ovs): Promise<void> {
  await ovs.vsctl(
    ...["add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev", "fail_mode=secure"],
    ...["--", "set", "Open_vSwitch", ".", "external_ids:ovn-remote=unix:/nowhere"],
  );
}

/** Plugs a link in as OVN-Kubernetes does for a pod. */
export async function plugPod(ovs: Ovs, link: string, row: PodRow): Promise<void> {
  const ids = {
    sandbox: `sandbox-of-${row.uid}`,
    "iface-id": `shop_${row.uid}`,
    "iface-id-ver": row.uid,
    attached_mac: row.mac,
    ip_addresses: row.addresses,
    ...(row.network === null
      ? {}
      : { "k8s.ovn.org/network": row.network, "k8s.ovn.org/nad": "shop/blue", "pod-if-name": "ovn-udn1" }),
  };
  const columns = Object.entries(ids).map(([id, value]) => `external_ids:"${id}"="${value}"`);
  await ovs.vsctl(
    ...["add-port", "br-int", link, "other_config:transient=true", "--", "set", "interface", link, ...columns],
  );
}

/** The address that stands for a guest's port, as it is written down; null: nobody's. */
export function addressOf(runDir: string, { port }: PortGuest): number | null {
  const { ports } = JSON.parse(readFileSync(join(runDir, "ports.json"), "utf8"));
  type Known = { readonly address: number; readonly port: { readonly link: string } };
  return Object.values<Known>(ports).find((known) => known.port.link === port)?.address ?? null;
}
