import type { IPAllocation } from "../kube/objects.ts";
import { isoTime } from "../platform/time.ts";
import type { AllocationClient, AllocationReading } from "./allocation-client.ts";
import { cooled, pruned, retained, sameAllocationOwner, withNode } from "./allocation-object.ts";
import { ATTEMPTS_MAX } from "./hold.ts";

/** The allocation that is meant. One of another owner, or one created again since, is left alone. */
export interface Meant {
  readonly name: string;
  readonly uid?: string;
  readonly owner?: Parameters<typeof sameAllocationOwner>[0];
  /** As it was read already; absent: it is read. */
  readonly reading?: AllocationReading;
}

/** The change to an allocation that was read. */
export type Change<W> =
  /**
   * It is released and cools down: since `since`, RFC 3339, or by default since now. `holderEnded`: its containers
   * certainly run no more.
   */
  | {
      readonly kind: "cool";
      readonly since?: string | undefined;
      readonly holderEnded?: boolean | undefined;
    }
  /** Its claim has ended, and it is reserved for a claim of that name for so long. */
  | { readonly kind: "retain"; readonly seconds: number }
  /** These attachments are removed; the allocation stays. `ended`: their containers certainly run no more. */
  | { readonly kind: "prune"; readonly keys: readonly string[]; readonly ended?: boolean }
  /** The node is recorded; the allocation stays. */
  | { readonly kind: "record"; readonly node: string }
  /** The cool-down is over. */
  | { readonly kind: "delete" }
  | { readonly kind: "leave"; readonly why: W };

export type GivenBack<W> =
  /** The object as written, or as it was before its deletion. */
  | { readonly kind: "done"; readonly object: IPAllocation }
  /** There is no such object. */
  | { readonly kind: "absent" }
  /** It is another allocation than the one meant. */
  | { readonly kind: "other"; readonly object: IPAllocation }
  | { readonly kind: "left"; readonly why: W }
  /** Other writers kept changing it. */
  | { readonly kind: "changed" };

/**
 * The only place where an address is released: reads an allocation from the quorum, lets the caller decide, and changes
 * it at the version just read. When another writer was faster, it starts over. Throws ApiAway when the outcome is
 * unknown, and RefusalError API_REFUSED.
 * See docs/decisions/0014.
 */
export async function giveBack<W = never>(
  client: AllocationClient,
  meant: Meant,
  judge: (reading: AllocationReading) => Change<W> | Promise<Change<W>>,
  deadlineMs: number,
): Promise<GivenBack<W>> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    const known = attempt === 1 ? meant.reading : undefined;
    const reading = known ?? (await client.readNamed(meant.name, deadlineMs));
    if (reading === null) return { kind: "absent" };
    const { object } = reading;
    if (!isMeant(object, meant)) return { kind: "other", object };
    const change = await judge(reading);
    if (change.kind === "leave") return { kind: "left", why: change.why };
    const written = await write(client, reading, change, deadlineMs);
    if (written.kind === "done") return written;
  }
  return { kind: "changed" };
}

function isMeant({ metadata, spec }: IPAllocation, { uid, owner }: Meant): boolean {
  if (uid !== undefined && metadata.uid !== uid) return false;
  return owner === undefined || sameAllocationOwner(spec.owner, owner);
}

function write<W>(
  client: AllocationClient,
  { object, serverMs }: AllocationReading,
  change: Exclude<Change<W>, { kind: "leave" }>,
  deadlineMs: number,
) {
  switch (change.kind) {
    case "retain": {
      const endedMs = serverMs ?? client.clock.wallMs();
      const until = isoTime(endedMs + change.seconds * 1_000);
      return client.replace(retained(object, isoTime(endedMs), until), deadlineMs);
    }
    case "cool": {
      // The server's clock, against which allocators measure the cool-down.
      const since = change.since ?? isoTime(serverMs ?? client.clock.wallMs());
      return client.replace(cooled(object, since, change.holderEnded), deadlineMs);
    }
    case "prune":
      return client.replace(pruned(object, change.keys, change.ended), deadlineMs);
    case "record":
      return client.replace(withNode(object, change.node), deadlineMs);
    case "delete":
      return client.delete(object, deadlineMs);
  }
}
