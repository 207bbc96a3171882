import type { Excuses } from "./excuses.ts";
import { describeInterface, type Interfaces, type Living } from "./interfaces.ts";
import { describeMachine, type MachineUses } from "./machine-uses.ts";
import type { Pods } from "./pods.ts";
import { violation } from "./violation.ts";

export interface UniquenessParts {
  readonly interfaces: Interfaces;
  readonly machines: MachineUses;
  readonly pods: Pods;
  readonly excuses: Excuses;
  /** Whether the excuse of a restored etcd does not count for these two. */
  isProtected(older: Living, younger: Living, place: string): boolean;
}

/** No two living interfaces or machines have one address of one network, unless they are two ends of one claim. */
export function checkUnique(place: string, parts: UniquenessParts): void {
  const { interfaces, machines, pods, excuses } = parts;
  const users = interfaces.at(place);
  const used = machines.at(place);
  for (const [index, machine] of used.entries()) {
    const other = users.find((one) => !mayHaveLost(one, pods)) ?? used.slice(0, index).at(-1);
    if (other === undefined || excuses.whyOf(machine.one.network, place) !== null) continue;
    throw violation(
      "given-twice",
      `${machine.address} of network ${machine.one.network} is used by ${describeMachine(machine)} since ${seconds(machine)} and by ${"ips" in other ? describeInterface(other.one) : describeMachine(other)} since ${seconds(other)}`,
    );
  }
  for (const [index, younger] of users.entries()) {
    for (const older of users.slice(0, index)) {
      if (isOneUser(older, younger, pods)) continue;
      const isExcused = excuses.whyOf(younger.one.network, place) !== null;
      if (isExcused && !parts.isProtected(older, younger, place)) continue;
      const address = addressAt(younger, place);
      throw violation(
        "given-twice",
        `${address} of network ${younger.one.network} is used by ${describeInterface(older.one)} since ${seconds(older)} and by ${describeInterface(younger.one)} since ${seconds(younger)}`,
      );
    }
  }
}

function isOneUser(older: Living, younger: Living, pods: Pods): boolean {
  const [a, b] = [older.one, younger.one];
  // A new sandbox of the same pod.
  if (a.pod.uid === b.pod.uid && a.ifname === b.ifname) return true;
  if (mayHaveLost(older, pods)) return true;
  if (younger.owner?.kind !== "IPAMClaim" || older.owner?.uid !== younger.owner.uid) return false;
  const machines = pods.machineUidsOf(a.pod.uid);
  if (pods.machineUidsOf(b.pod.uid).some((uid) => machines.includes(uid))) return true;
  // A claim goes on to another pod when the one before it is gone or has ended, though its container may linger.
  return [a, b].some(({ pod }) => pods.hasEnded(pod.uid) || pods.find(pod) === null);
}

/** What has ended may lose its address while its sandbox stays. */
function mayHaveLost({ one }: Living, pods: Pods): boolean {
  return pods.hasEnded(one.pod.uid) || pods.isGivenUp(one);
}

/** The address as it was answered. */
export function addressAt({ ips, places }: Living, place: string): string {
  return ips[places.indexOf(place)] ?? place;
}

const seconds = ({ upAtMs }: { readonly upAtMs: number }): string => `${(upAtMs / 1_000).toFixed(3)} s`;
