import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import type { Place } from "./place.ts";
import { AS_ROOT, ON_THE_NODE, run } from "./run.ts";

/** Whether frames between two interfaces of one Linux bridge pass the node's IP filters. */
const BRIDGE_FILTER = "proc/sys/net/bridge/bridge-nf-call-iptables";

/** Nothing where br_netfilter is not loaded: bridged frames are not filtered then. */
export async function examineBridges(root: string, place: Place): Promise<Diagnosis[]> {
  const part = "bridged traffic";
  if (!existsSync(join(root, BRIDGE_FILTER))) return [];
  const value = readFileSync(join(root, BRIDGE_FILTER), "utf8").trim();
  if (value === "0") return [{ part, state: "ok", found: "is not filtered by the node's rules", fix: "" }];
  const rules = `passes the node's FORWARD rules (bridge-nf-call-iptables is ${value})`;
  if (place !== "node")
    return [{ part, state: "unknown", found: `${rules}, which a pod cannot read`, fix: ON_THE_NODE }];
  const { code, stdout, stderr } = await run("iptables", ["-S", "FORWARD"]);
  if (code !== 0)
    return [
      {
        part,
        state: "unknown",
        found: `${rules}, which cannot be read: ${stderr.trim()}`,
        fix: process.getuid?.() === 0 ? "see that they accept the traffic of your bridges" : AS_ROOT,
      },
    ];
  if (/^-P FORWARD ACCEPT$/m.test(stdout))
    return [{ part, state: "ok", found: "passes the node's FORWARD rules, whose policy is ACCEPT", fix: "" }];
  return [
    {
      part,
      state: "warning",
      found: "passes the node's FORWARD rules, whose policy is DROP: VMs on one bridge may not reach each other",
      fix: "accept it: iptables -I FORWARD -i BRIDGE -o BRIDGE -j ACCEPT; where nothing needs the filter (kube-proxy does): sysctl net.bridge.bridge-nf-call-iptables=0",
    },
  ];
}

/** Durations are measured without the wall clock; times in the history are from it. */
export async function examineClock(root: string, place: Place): Promise<Diagnosis> {
  const part = "clock";
  if (place !== "node")
    return { part, state: "unknown", found: "a pod cannot see whether it is synchronised", fix: ON_THE_NODE };
  const { code, stdout } = await run("timedatectl", ["show", "-p", "NTPSynchronized", "--value"]);
  const isSynchronised =
    existsSync(join(root, "run/systemd/timesync/synchronized")) || (code === 0 && stdout.trim() === "yes");
  if (isSynchronised) return { part, state: "ok", found: "is synchronised", fix: "" };
  if (code !== 0)
    return {
      part,
      state: "unknown",
      found: "nothing here says whether it is synchronised (timedatectl)",
      fix: "",
    };
  return {
    part,
    state: "warning",
    found: "is not synchronised: times in the history may be wrong; addresses are not affected",
    fix: "timedatectl set-ntp true, or run chrony",
  };
}
