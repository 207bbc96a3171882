import { createHash } from "node:crypto";
import { type Allocations, type Held, readPlace } from "../allocations.ts";
import { describeInterface, type Living } from "../interfaces.ts";
import type { Pods } from "../pods.ts";
import type { PlainObject } from "../view.ts";
import { violation } from "../violation.ts";

const ANNOTATION = "network.kubevirt.io/addresses";
/** Of KubeVirt's names for the interfaces of a launcher pod. */
const HASH_DIGITS = 11;
/**
 * A claim that a container left so short a time ago, ms, may have been in use when an ADD looked that is answered now.
 */
const LEFT_MS_MAX = 20_000;

interface AskedParts {
  readonly allocations: Allocations;
  readonly pods: Pods;
}

/** Addresses that VMs ask for: who is answered has them, unless others used its claim meanwhile. */
export class Asked {
  readonly #parts: AskedParts;
  /** When a container left a place last, ms. */
  readonly #leftMs = new Map<string, number>();

  constructor(parts: AskedParts) {
    this.#parts = parts;
  }

  /** One address was written. */
  note(before: Held | null, after: Held | null, nowMs: number): void {
    if (before === null) return;
    const still = attachmentsOf(after);
    if (attachmentsOf(before).some((key) => !still.includes(key))) this.#leftMs.set(before.place, nowMs);
  }

  /** An interface that has just been answered. */
  check({ one, ips, places }: Living, nowMs: number): void {
    const { pods, allocations } = this.#parts;
    const missing = askedOn(pods.find(one.pod), one.ifname).filter((address) => {
      const place = readPlace(one.network, address);
      return place !== null && !places.includes(place);
    });
    if (missing.length === 0) return;
    const own = `${one.containerId}/${one.ifname}`;
    const isShared = places.some((place) => {
      const held = allocations.at(place);
      if (held?.owner.kind !== "IPAMClaim") return false;
      const left = nowMs - (this.#leftMs.get(place) ?? Number.NEGATIVE_INFINITY) < LEFT_MS_MAX;
      return left || attachmentsOf(held).some((key) => key !== own);
    });
    if (isShared) return;
    throw violation(
      "not-as-asked",
      `${describeInterface(one)} was answered ${ips.join(", ")}, and its VM asks for ${missing.join(", ")} of network ${one.network}`,
    );
  }
}

/** On an interface of a launcher pod, without prefix lengths. */
function askedOn(pod: PlainObject | null, ifname: string): readonly string[] {
  for (const [network, asked] of Object.entries(askedBy(pod))) {
    const hash = createHash("sha256").update(network).digest("hex").slice(0, HASH_DIGITS);
    if (ifname === `pod${hash}`) return asked;
  }
  return [];
}

export function askedBy(pod: PlainObject | null): Readonly<Record<string, readonly string[]>> {
  return JSON.parse(pod?.metadata.annotations?.[ANNOTATION] ?? "{}");
}

function attachmentsOf(held: Held | null): string[] {
  return Object.keys(held?.object.status?.attachments ?? {});
}
