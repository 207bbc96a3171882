import { describeOwner, type Owner } from "../../ipam/owner.ts";
import { type CooldownDefinition, cooldownEndMs } from "../../ipam/space/cooldown.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../pictures/time-line.ts";
import type { OwnerRow, UseRow } from "../wire.ts";
import type { Entry } from "./ledger.ts";

/** `claim default/vm1`, as the command line has it. */
export function holderText([kind, namespace, name, uid, ifname]: OwnerRow): string {
  // The ID of a container is known by its beginning.
  const shown = kind === "container" ? uid.slice(0, CONTAINER_CHARS) : uid;
  return describeOwner({ kind, namespace, name, uid: shown, interface: ifname } as Owner);
}

/** `pod default/web`, or `container 3fa9c21b07de (eth0)`. */
export function useText([containerID, ifname, , podNamespace, podName]: UseRow): string {
  return podName === ""
    ? `container ${containerID.slice(0, CONTAINER_CHARS)} (${ifname})`
    : `pod ${podNamespace}/${podName}`;
}

/** `namespace/name`; null: no virtual machine has it. */
export function vmOf({ row }: Entry): string | null {
  const [, , , [, namespace], vm] = row;
  return vm === "" ? null : `${namespace}/${vm}`;
}

/** In one sentence, as `holdfast who`. */
export function sentenceOf(entry: Entry, definition: CooldownDefinition): string {
  const [network, address, state, owner, , since, until, uses] = entry.row;
  const vm = vmOf(entry);
  const holder = `${holderText(owner)}${vm === null ? "" : ` of VM ${vm}`}`;
  if (state === "Cooling") {
    const end = new Date(cooldownEndMs(definition, Date.parse(since))).toISOString();
    return `${address} on network ${network} was held by ${holder}. It cools down until ${timeText(end)}; then anybody can get it.`;
  }
  if (state === "Retained")
    return `${address} on network ${network} was held by ${holder}, which is deleted. It is reserved until ${timeText(until)} for a new claim of that name.`;
  const [use] = uses;
  if (owner[0] === "container" && use !== undefined && uses.length === 1)
    return `${address} on network ${network} is held and used by ${holder}${use[2] === "" ? "" : ` on node ${use[2]}`}.`;
  const used = uses.map((use) => `${useText(use)} on ${use[2] === "" ? "this node" : `node ${use[2]}`}`);
  const who = used.length === 0 ? "Nothing uses it now" : `It is used by ${used.join(" and ")}`;
  return `${address} on network ${network} is held by ${holder}. ${who}.`;
}

/** `40 s`, `3 min`, `4 h 42 min`, `5 days 3 h`. */
export function durationText(ms: number): string {
  const two = (whole: string, part: number, unit: string) => (part === 0 ? whole : `${whole} ${part} ${unit}`);
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / 1_000))} s`;
  const minutes = Math.floor(ms / MINUTE_MS);
  if (ms < HOUR_MS) return `${minutes} min`;
  const hours = Math.floor(ms / HOUR_MS);
  if (ms < 2 * DAY_MS) return two(`${hours} h`, minutes % 60, "min");
  return two(`${Math.floor(hours / 24)} days`, hours % 24, "h");
}

/** `3 min`, `4 h`, `5 days`: of what was some time ago, the first unit is enough. */
export function agoText(ms: number): string {
  return durationText(ms).split(" ").slice(0, 2).join(" ");
}

/** In the reader's time zone, to the second. */
export function timeText(text: string): string {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) return text;
  return new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" }).format(ms);
}

const CONTAINER_CHARS = 12;

export function percentText(part: number): string {
  const percent = part * 100;
  return percent > 0 && percent < 1 ? "< 1 %" : `${Math.floor(percent)} %`;
}
