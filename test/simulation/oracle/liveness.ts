import type { Interface } from "../world.ts";
import { readPlace } from "./allocations.ts";
import { describeInterface, type Interfaces } from "./interfaces.ts";
import type { CheckedMachine } from "./oracle-parts.ts";
import { claimsNamedBy } from "./pods.ts";
import type { PossessionParts } from "./possession.ts";
import type { PlainObject } from "./view.ts";
import { violation } from "./violation.ts";

/** A refusal this much before the rest is the latest word on an ADD, ms: kubelets try again much sooner. */
const LATEST_MS = 60_000;
/** Of `check`: what people have defined wrongly is theirs to mend. */
const MUST_BE_SILENT = ["I1", "I2", "I3", "I4", "I5", "outbox", "recovery", "api", "database", "boot", "node", "ready"];

export interface Refused {
  readonly one: Interface;
  readonly code: number;
  readonly message: string;
  readonly atMs: number;
}

/** What was refused last, of each interface of a pod. */
export class Refusals {
  readonly #last = new Map<string, Refused>();

  note(refused: Refused): void {
    this.#last.set(keyOf(refused.one), refused);
  }

  forget(one: Interface): void {
    this.#last.delete(keyOf(one));
  }

  /** Every pod that wants an address now, and gets none, has a reason that can be seen. */
  check(parts: PossessionParts, isFull: (network: string) => boolean, nowMs: number): void {
    for (const [key, refused] of this.#last) {
      const pod = parts.pods.find(refused.one.pod);
      const wants =
        pod !== null && pod.metadata.deletionTimestamp === undefined && !parts.pods.hasEnded(refused.one.pod.uid);
      if (!wants) this.#last.delete(key);
      if (!wants || pod.spec?.nodeName !== refused.one.node || nowMs - refused.atMs > LATEST_MS) continue;
      if (hasReason(refused, pod, parts, isFull)) continue;
      throw violation(
        "unanswered",
        `${describeInterface(refused.one)} gets no address of network ${refused.one.network}: ${refused.code} ${refused.message}`,
      );
    }
  }
}

function hasReason(
  { one, code, message }: Refused,
  pod: PlainObject,
  { allocations, claims, interfaces, pods }: PossessionParts,
  isFull: (network: string) => boolean,
): boolean {
  const named = claimsNamedBy(pod).map((name) => claims.get(`${one.pod.namespace}/${name}`));
  const [address = ""] = /[0-9a-f.:]*[.:][0-9a-f.:]+/.exec(message) ?? [];
  const place = readPlace(one.network, address);
  const held = place === null ? null : allocations.at(place);
  switch (code) {
    case 7: // A definition, a selection or a claim's network that is wrong.
    case 121: // Asked for what the network does not have.
    case 122:
    case 123:
    case 125:
      return true;
    case 120: // The address that was asked for is somebody else's.
    case 128:
      return place === null || held !== null;
    case 124:
      return named.some(
        (claim) =>
          claim !== null &&
          isUsed(
            allocations.ofClaim(claim.uid).map(({ place }) => place),
            one,
            interfaces,
          ),
      );
    case 130: // What somebody has written into a claim does not fit the network.
      return named.some((claim) => claim?.object.metadata.annotations?.["simulation/prefilled"] !== undefined);
    case 11:
      if (/ is still cooling down/.test(message)) return held?.isCooling === true;
      if (/^no free address /.test(message)) return isFull(one.network);
      return named.some((claim) => {
        if (claim === null || claim.object.metadata.deletionTimestamp !== undefined) return true;
        const owners: { kind: string; uid: string }[] = claim.object.metadata.ownerReferences ?? [];
        const machines = owners.filter(({ kind }) => kind.startsWith("VirtualMachine"));
        const own = pods.machineUidsOf(one.pod.uid);
        return machines.length > 0 && !machines.some(({ uid }) => own.includes(uid));
      });
    default:
      return false;
  }
}

function isUsed(places: readonly string[], one: Interface, interfaces: Interfaces): boolean {
  return places.some((place) => interfaces.at(place).some((user) => user.one.pod.uid !== one.pod.uid));
}

/** Whoever can be ready is, and finds nothing to complain of. */
export async function checkMachines(
  machines: readonly CheckedMachine[],
  isForfeited: (node: string, message: string) => boolean,
): Promise<void> {
  for (const { name, isUp, daemon } of machines) {
    if (!isUp) continue;
    if (daemon === null) throw violation("not-ready", `no daemon runs on ${name}`);
    const reason = daemon.core.notReady();
    if (reason !== null) throw violation("not-ready", `the daemon of ${name} is not ready: ${reason}`);
    const { findings } = await daemon.core.admin.check(null);
    for (const { invariant, message } of findings) {
      if (MUST_BE_SILENT.includes(invariant) && !isForfeited(name, message))
        throw violation("check-finds", `check on ${name}: ${invariant} ${message}`);
    }
  }
}

const keyOf = ({ pod, ifname, network }: Interface): string => `${pod.uid} ${ifname} ${network}`;
