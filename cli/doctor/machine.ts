import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";
import type { Place } from "./place.ts";
import { AS_ROOT, ON_THE_NODE, run } from "./run.ts";

/** Whether frames between two interfaces of one Linux bridge pass the node's IP filters. */
const BRIDGE_FILTER = "proc/sys/net/bridge/bridge-nf-call-iptables";

/** Nothing where br_netfilter is not loaded: bridged frames are not filtered then. */
export async function examineBridges(root: string, place: Place): Promise<Diagnosis[]> {
  const { ok, warning, unknown } = part("bridged traffic");
  if (!existsSync(join(root, BRIDGE_FILTER))) return [];
  const value = readFileSync(join(root, BRIDGE_FILTER), "utf8").trim();
  if (value === "0") return ok("is not filtered by the node's rules");
  const rules = `passes the node's FORWARD rules (bridge-nf-call-iptables is ${value})`;
  if (place !== "node") return unknown(`${rules}, which a pod cannot read`, ON_THE_NODE);
  const { code, stdout, stderr } = await run("iptables", ["-S", "FORWARD"]);
  if (code !== 0)
    return unknown(
      `${rules}, which cannot be read: ${stderr.trim()}`,
      process.getuid?.() === 0 ? "see that they accept the traffic of your bridges" : AS_ROOT,
    );
  if (/^-P FORWARD ACCEPT$/m.test(stdout)) return ok("passes the node's FORWARD rules, whose policy is ACCEPT");
  return warning(
    "passes the node's FORWARD rules, whose policy is DROP: VMs on one bridge may not reach each other",
    "accept it: iptables -I FORWARD -i BRIDGE -o BRIDGE -j ACCEPT; where nothing needs the filter (kube-proxy does): sysctl net.bridge.bridge-nf-call-iptables=0",
  );
}

/** Durations are measured without the wall clock; times in the history are from it. */
export async function examineClock(root: string, place: Place): Promise<Diagnosis[]> {
  const { ok, warning, unknown } = part("clock");
  if (place !== "node") return unknown("a pod cannot see whether it is synchronised", ON_THE_NODE);
  const { code, stdout } = await run("timedatectl", ["show", "-p", "NTPSynchronized", "--value"]);
  const isSynchronised =
    existsSync(join(root, "run/systemd/timesync/synchronized")) || (code === 0 && stdout.trim() === "yes");
  if (isSynchronised) return ok("is synchronised");
  if (code !== 0) return unknown("nothing here says whether it is synchronised (timedatectl)");
  return warning(
    "is not synchronised: times in the history may be wrong; addresses are not affected",
    "timedatectl set-ntp true, or run chrony",
  );
}
