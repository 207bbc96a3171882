import { namespaceId } from "./kernel/sysfs.ts";

/** The network namespace of a guest, as it was when its port was found. */
export interface GuestSpace {
  readonly netns: string;
  /** What tells it from all others that exist; null: it was not known. */
  readonly id: number | null;
}

export function guestSpace(netns: string): GuestSpace {
  return { netns, id: netns.startsWith("/") ? namespaceId(netns) : null };
}

/** Whether a guest is where it was. A namespace has several paths, and a path may be another's later. */
export function isSameSpace(one: GuestSpace, now: GuestSpace): boolean {
  return one.id === null || now.id === null ? one.netns === now.netns : one.id === now.id;
}
