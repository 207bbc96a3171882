/* How long a released address is retained and cools down. The only place that decides it: everybody asks here. */

/** The cool-down of a network that does not set its own: longer than ARP and conntrack entries of a peer live. */
export const COOLDOWN_SECONDS_DEFAULT = 60;

/** What decides: a network's definition; null where it has none, or none that can be read. */
export type CooldownDefinition = {
  readonly cooldownSeconds: number;
  readonly retainSeconds?: number;
} | null;

/** A network without a definition has the default: peers may still remember its addresses. */
export function cooldownSeconds(definition: CooldownDefinition): number {
  return definition?.cooldownSeconds ?? COOLDOWN_SECONDS_DEFAULT;
}

/** How long what a claim had stays reserved for a claim of its name after its end, seconds; 0: not at all. */
export function retainSeconds(definition: CooldownDefinition): number {
  return definition?.retainSeconds ?? 0;
}

/** When the cool-down of an address that was released at `sinceMs` ends, on the same clock. */
export function cooldownEndMs(definition: CooldownDefinition, sinceMs: number): number {
  return sinceMs + cooldownSeconds(definition) * 1_000;
}

/** Whether an address cooling for `coolingMs` may go to another owner. NaN, not known for how long: no. */
export function hasCooledDown(definition: CooldownDefinition, coolingMs: number): boolean {
  return coolingMs >= cooldownSeconds(definition) * 1_000;
}
