/** CNI calls made without the plugin binary: the body that it would send, stamped as it would stamp it. */
import { readFileSync } from "node:fs";
import type { CniWireRequest } from "../../cni-shim/wire.ts";
import { type ApiAnswer, network, type TestDaemon } from "../harness/daemon.ts";

export const BOOT_ID = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();

/**
 * CLOCK_BOOTTIME less CLOCK_MONOTONIC, the clock Node can read: zero unless the machine has been suspended.
 * /proc/uptime has hundredths.
 */
const SUSPENDED_US = (() => {
  const uptimeUs = Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1e6;
  const differenceUs = Math.round(uptimeUs - Number(process.hrtime.bigint() / 1000n));
  return Math.abs(differenceUs) < 50_000 ? 0 : differenceUs;
})();

function bootUsNow(): number {
  return Number(process.hrtime.bigint() / 1000n) + SUSPENDED_US;
}

export interface WireOptions {
  readonly config?: object;
  readonly ifname?: string;
  readonly args?: string;
  readonly netns?: string;
  readonly bootId?: string;
  readonly bootUs?: number;
}

export function wireRequest(
  verb: CniWireRequest["command"],
  containerId: string,
  options: WireOptions = {},
): CniWireRequest {
  return {
    command: verb,
    containerId,
    netns: options.netns ?? "",
    netnsId: "",
    ifname: options.ifname ?? "eth0",
    args: options.args ?? "",
    bootId: options.bootId ?? BOOT_ID,
    bootUs: options.bootUs ?? bootUsNow(),
    config: JSON.stringify(options.config ?? network("blue")),
  };
}

export function postCni(
  daemon: TestDaemon,
  verb: CniWireRequest["command"],
  containerId: string,
  options?: WireOptions,
): Promise<ApiAnswer> {
  return daemon.post("/cni", wireRequest(verb, containerId, options));
}

/** CNI_ARGS of a pod, which is known by its UID. */
export function podArgs(name: string, claim?: string): string {
  const pod = `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};K8S_POD_UID=uid-${name}`;
  return claim === undefined ? pod : `${pod};IPAM_CLAIM=${claim}`;
}

export function claimManifest(name: string, networkName: string): object {
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name, namespace: "default" },
    spec: { network: networkName, interface: "net1" },
  };
}
