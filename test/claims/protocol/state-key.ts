import type { Add, Allocation, Claim, Correction, Pod, Promised, Reading, Release, State, Vm } from "./model.ts";

/** The whole state as a short text: two states are one where their texts are equal. */
export function keyOf({ allocations, claims, vms, pods, correction, release, promised, left }: State): string {
  let key = "";
  for (const ofNetwork of allocations) for (const one of ofNetwork) key += one === null ? "." : allocationKey(one);
  for (const one of claims) key += claimKey(one);
  for (const one of vms) key += vmKey(one);
  for (const one of pods) key += podKey(one);
  key += correction === null ? "." : correctionKey(correction);
  key += release === null ? "." : releaseKey(release);
  for (const byNetwork of promised) for (const one of byNetwork) key += promisedKey(one);
  for (const count of Object.values(left)) key += count;
  return key;
}

const bit = (is: boolean): string => (is ? "1" : "0");
const orNone = (address: number | null): string => (address === null ? "-" : String(address));

function allocationKey({ owner, pods }: Allocation): string {
  return `${owner}:${pods}.`;
}

function claimKey({ uid, isOwned, network, ips, isWritten }: Claim): string {
  return `${uid}${bit(isOwned)}${network}${bit(isWritten)}[${ips}]`;
}

function vmKey({ network, asks, runs, instances }: Vm): string {
  return `${network}${orNone(asks)}${bit(runs)}${instances}`;
}

function podKey({ phase, network, asks, isTarget, add, address }: Pod): string {
  if (phase === "absent") return "a";
  if (phase === "ending") return "e";
  const which = `${phase[0]}${network}${orNone(asks)}${bit(isTarget)}`;
  return phase === "pending" ? which + addKey(add) : which + orNone(address);
}

function addKey(add: Add): string {
  switch (add.next) {
    case "read":
      return "r";
    case "follow":
    case "find":
      return `${add.next[1]}${bit(add.isStale)}${readingKey(add.claim)}`;
    case "list":
    case "hold":
      return `${add.next[0]}${bit(add.isStale)}${readingKey(add.claim)}(${add.own})`;
    case "publish":
    case "hold-published":
      return `${add.next[0] === "p" ? "p" : "-"}${bit(add.isStale)}${add.uid}${add.address}`;
    case "answer":
      return `=${add.address}`;
  }
}

function readingKey({ uid, network, ips, isWritten }: Reading): string {
  return `${uid}${network}${bit(isWritten)}[${ips}]`;
}

function correctionKey({ vm, to, isSeenTwice, isStale }: Correction): string {
  return `c${vm}${to.network}[${to.ips}]${bit(isSeenTwice)}${bit(isStale)}`;
}

function releaseKey({ network, address, owner, why, isStale }: Release): string {
  return `s${network}${address}${owner}${bit(why !== null)}${bit(isStale)}`;
}

function promisedKey({ address, former, isAny }: Promised): string {
  return `${orNone(address)}${orNone(former)}${bit(isAny)}`;
}
