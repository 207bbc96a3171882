import { METADATA_IPV4 } from "./drivers/driver.ts";
import { run } from "./kernel/run.ts";

/**
 * One instance at a time moves the rule `lookup local`, whatever its run directory. A directory that is there: no file
 * is left.
 */
const LOCK = "/run";
/** Before everything else: the kernel looks for its own addresses at this priority, too. */
const FIRST = "0";
/** For the moment in which a rule is put before `lookup local`. */
const ASIDE = "1";
const BLACKHOLE = `to ${METADATA_IPV4} blackhole`;
/** systemd-networkd deletes all rules that others have made, but those of this protocol. */
const KEPT = "protocol kernel";

/**
 * Puts rules before `lookup local`: the kernel appends to those of the same priority. So that one follows them again.
 * The list is never without it, and a run that was killed in between is completed by the next one. It stays where
 * somebody (Cilium) has moved it further back.
 */
const ADD = `
has() { ip rule show pref $1 | grep -q "from all lookup local"; }
if has ${FIRST}; then
  has ${ASIDE} || ip rule add pref ${ASIDE} lookup local ${KEPT}
  ip rule del pref ${FIRST} lookup local
fi
for device; do
  while ip rule del pref ${FIRST} iif "$device" ${BLACKHOLE} 2>/dev/null; do :; done
  ip rule add pref ${FIRST} iif "$device" ${BLACKHOLE} ${KEPT}
done
if has ${ASIDE}; then
  has ${FIRST} || ip rule add pref ${FIRST} lookup local ${KEPT}
  ip rule del pref ${ASIDE} lookup local
fi`;

const DELETE = `
for device; do while ip rule del pref ${FIRST} iif "$device" ${BLACKHOLE} 2>/dev/null; do :; done; done`;

interface ShownRule {
  readonly priority: number;
  readonly iif?: string;
  readonly dst?: string;
  readonly action?: string;
  readonly table?: string;
}

/** Devices whose frames reach an address 169.254.169.254 of the node neither locally nor by its routes. */
export async function closedDevices(): Promise<ReadonlySet<string>> {
  const shown = await run("ip", ["-4", "-json", "rule", "show"]);
  if (shown.code !== 0) throw new Error(`ip rule: ${shown.stderr.trim().slice(0, 300)}`);
  const closed = new Set<string>();
  for (const { iif, dst, action, table } of JSON.parse(shown.stdout || "[]") as ShownRule[]) {
    if (table === "local") break;
    if (iif !== undefined && dst === METADATA_IPV4 && action === "blackhole") closed.add(iif);
  }
  return closed;
}

/** Throws an Error for the operator. */
export function closeDevices(devices: readonly string[]): Promise<void> {
  return inTurn(ADD, devices);
}

export function openDevices(devices: readonly string[]): Promise<void> {
  return inTurn(DELETE, devices);
}

/** Whether a line of `ip -o monitor rule` may mean that a rule of ours is gone, or no longer the first. */
export function concernsDevices(line: string): boolean {
  return line.startsWith("Deleted") ? line.includes(METADATA_IPV4) : /^0:.* lookup local/.test(line);
}

async function inTurn(script: string, devices: readonly string[]): Promise<void> {
  if (devices.length === 0) return;
  const ran = await run("flock", [LOCK, "sh", "-ec", script, "sh", ...devices]);
  if (ran.code !== 0) throw new Error(`ip rule: ${ran.stderr.trim().slice(0, 300)}`);
}
