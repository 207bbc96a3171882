import type { Excuses } from "./excuses.ts";
import { describeInterface, type Interfaces, type Living } from "./interfaces.ts";
import type { Pods } from "./pods.ts";
import { Violation } from "./violation.ts";

/** No two living interfaces have one address of one network, unless they are two ends of one claim. */
export function checkUnique(
  place: string,
  { interfaces, pods, excuses }: { interfaces: Interfaces; pods: Pods; excuses: Excuses },
): void {
  const users = interfaces.at(place);
  for (const [index, younger] of users.entries()) {
    for (const older of users.slice(0, index)) {
      if (isOneUser(older, younger, pods) || excuses.whyOf(younger.one.network, place) !== null) continue;
      const address = addressAt(younger, place);
      throw new Violation(
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
  if (younger.owner?.kind !== "IPAMClaim" || older.owner?.uid !== younger.owner.uid) return false;
  const machines = pods.machineUidsOf(a.pod.uid);
  if (pods.machineUidsOf(b.pod.uid).some((uid) => machines.includes(uid))) return true;
  // A claim goes on to another pod when the one before it is gone or has ended, though its container may linger.
  return [a, b].some(({ pod }) => pods.hasEnded(pod.uid) || pods.find(pod) === null);
}

/** The address as it was answered. */
export function addressAt({ ips, places }: Living, place: string): string {
  return ips[places.indexOf(place)] ?? place;
}

const seconds = ({ upAtMs }: Living): string => `${(upAtMs / 1_000).toFixed(3)} s`;
