/*
 * allocations/: IPAllocation objects, one for each allocated or cooling address
 *
 *   allocation-object, owners     the object and its owner
 *   allocation-client             reads and writes of single objects
 *   hold, give-back               the only writers: one binds an address to an owner, the other releases it
 *   picture, notes, used-spaces   which addresses are believed free: on a node, and as the controller publishes them
 *   network-space                 the free space of a network in memory
 *   records, views, filter, pages what the socket API shows, which of it, and how much at once
 */

import type { Address } from "../ipam/space/address.ts";
import { permittedObject, readingOf, refusedBy, writeOutcomeOf } from "../kube/answers.ts";
import type { KubeAnswer, KubeApi, KubeRequest, Priority } from "../kube/kube-api.ts";
import { allocationName, labelSelector } from "../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, LABEL_CLAIM, NO_MANAGED_FIELDS, objectPath } from "../kube/objects.ts";
import type { Clock } from "../platform/time.ts";
import { isSound } from "./allocation-object.ts";

/** Contact with the API server, as a node judges it (store/cluster/contact). */
export interface Contact {
  /** The newest resourceVersion seen so far, to be passed to `noteCurrent` with the answer to the next request. */
  readonly newest: bigint;
  /** Gaps so far. */
  readonly gap: number;
  readonly isSettled: boolean;
  /** Why what an ADD admitted in this epoch writes must not be sent any more; null: it may. */
  whyNot(epoch: number): string | null;
  noteCurrent(version: string | undefined, newestBefore: bigint): void;
  noteVersion(version: string | undefined): void;
  /** A write is about to be sent. */
  noteWriting(path: string): void;
  noteWritten(written: Written): void;
}

/** A write of this node that the API server has answered. */
export interface Written {
  readonly path: string;
  readonly resourceVersion: string;
  /** When the attempt was sent that was answered, ms of the monotonic clock. */
  readonly sentMs: number;
  /** The server's clock at its answer, ms. */
  readonly serverMs: number;
}

interface ClaimName {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** An allocation as returned by one quorum read. */
export interface AllocationReading {
  readonly object: IPAllocation;
  /** The server's clock at the read, ms; null when the answer had none. */
  readonly serverMs: number | null;
}

/** The outcome of a conditional write: done, or the object is no longer as it was read. */
export type ConditionalWrite = { readonly kind: "done"; readonly object: IPAllocation } | { readonly kind: "changed" };

/** An attempt: when, ms of the clock, and after which gap in contact. */
interface Sent {
  readonly ms: number;
  readonly gap: number;
}

/**
 * Reads and writes single IPAllocation objects. Every method throws ApiAway when the outcome is unknown, and
 * RefusalError API_REFUSED when the server refuses for a reason that no retry changes (permissions, validation).
 * See docs/decisions/0014.
 */
export class AllocationClient {
  readonly #api: KubeApi;
  readonly #priority: Priority;
  readonly #contact: Contact | null;
  /** Epoch of the ADD that the writes are for; null: they are sent in any case. */
  readonly #epoch: number | null;

  constructor(api: KubeApi, priority: Priority, contact: Contact | null = null, epoch: number | null = null) {
    this.#api = api;
    this.#priority = priority;
    this.#contact = contact;
    this.#epoch = epoch;
  }

  /** A client for an ADD admitted in this epoch: its writes are not sent once contact was lost. */
  admitted(epoch: number): AllocationClient {
    return new AllocationClient(this.#api, this.#priority, this.#contact, epoch);
  }

  /** Deadlines are instants of this clock. */
  get clock(): Clock {
    return this.#api.clock;
  }

  /** A quorum read; null: the address is free. */
  read(network: string, address: Address, deadlineMs: number): Promise<AllocationReading | null> {
    return this.readNamed(allocationName(network, address), deadlineMs);
  }

  /** A quorum read of an object whose name is known. */
  async readNamed(name: string, deadlineMs: number): Promise<AllocationReading | null> {
    const path = objectPath(ALLOCATIONS_PATH, name);
    const answer = await this.#api.send({ method: "GET", path, priority: this.#priority, deadlineMs });
    const object: IPAllocation | null = permittedObject(readingOf(answer, path), `read IPAllocation ${name}`);
    return object && { object, serverMs: answer.serverMs };
  }

  /** The sound allocations of a claim's name, of whichever UID, on all networks, as of the claim's version or later. */
  async listOfClaim({ namespace, name, resourceVersion }: ClaimName, deadlineMs: number): Promise<IPAllocation[]> {
    const found: IPAllocation[] = [];
    await this.#api.list({
      path: ALLOCATIONS_PATH,
      query: { labelSelector: labelSelector(LABEL_CLAIM, `${namespace}/${name}`) },
      notOlderThan: resourceVersion,
      deadlineMs,
      each: (object: IPAllocation) => {
        const { owner } = object.spec ?? {};
        if (isSound(object) && owner.namespace === namespace && owner.name === name) found.push(object);
      },
      restarted: () => found.splice(0),
    });
    return found.filter(({ spec }) => spec.owner.kind === "IPAMClaim");
  }

  /** Insert-if-absent: the commit of an allocation. `changed`: the name exists. */
  async create(object: object, deadlineMs: number): Promise<ConditionalWrite> {
    const request = { method: "POST", path: ALLOCATIONS_PATH, body: object, deadlineMs } as const;
    return this.#write(request, "create an IPAllocation");
  }

  /** Replaces an object at the resourceVersion that was read. `changed`: it was written or deleted meanwhile. */
  async replace(object: object, deadlineMs: number): Promise<ConditionalWrite> {
    const { metadata } = object as IPAllocation;
    const { name } = metadata;
    const path = objectPath(ALLOCATIONS_PATH, name);
    const body = { ...object, metadata: { ...metadata, ...NO_MANAGED_FIELDS } };
    return this.#write({ method: "PUT", path, body, deadlineMs }, `write IPAllocation ${name}`);
  }

  /** Deletes an object if it is still as it was read. `done` has the deleted object. */
  async delete(object: IPAllocation, deadlineMs: number): Promise<ConditionalWrite> {
    const { name, uid, resourceVersion } = object.metadata;
    const path = objectPath(ALLOCATIONS_PATH, name);
    const body = { preconditions: { uid, resourceVersion } };
    const written = await this.#write({ method: "DELETE", path, body, deadlineMs }, `delete IPAllocation ${name}`);
    return written.kind === "done" ? { kind: "done", object } : written;
  }

  async #write(request: Omit<KubeRequest, "priority" | "unless">, what: string): Promise<ConditionalWrite> {
    const contact = this.#contact;
    const newestBefore = contact?.newest ?? 0n;
    const { answer, sent } = await this.#send({ ...request, priority: this.#priority });
    const version: string | undefined = answer.body?.metadata?.resourceVersion;
    // A PUT that changes nothing is answered with the old version.
    if (answer.status === 201) contact?.noteCurrent(version, newestBefore);
    else if (answer.status < 300) contact?.noteVersion(version);
    const written = writeOutcomeOf(answer, request.path);
    if (written.kind === "refused") throw refusedBy(written.answer, what);
    if (written.kind === "done" && sent !== null) this.#noteWritten(request, answer, sent);
    return written.kind === "done" ? written : { kind: "changed" };
  }

  /** After a gap in contact what was written last shows whether anything is lost. */
  #noteWritten({ method, body }: Pick<KubeRequest, "method" | "body">, answer: KubeAnswer, sent: Sent): void {
    const { serverMs } = answer;
    const { name, resourceVersion } = (answer.body as IPAllocation).metadata;
    const before = (body as Partial<IPAllocation> | undefined)?.metadata?.resourceVersion;
    if (method === "DELETE" || resourceVersion === before || serverMs === null) return;
    // An answer after a gap may be that of a restored server.
    if (this.#contact?.gap !== sent.gap) return;
    const path = objectPath(ALLOCATIONS_PATH, name);
    this.#contact.noteWritten({ path, resourceVersion, sentMs: sent.ms, serverMs });
  }

  /** `sent`: the attempt that was answered; null: something was in doubt then. */
  async #send(request: KubeRequest): Promise<{ answer: KubeAnswer; sent: Sent | null }> {
    const contact = this.#contact;
    const epoch = this.#epoch;
    if (contact === null) return { answer: await this.#api.send(request), sent: null };
    contact.noteWriting(request.path);
    let sent: Sent | null = null;
    const unless = () => {
      sent = contact.isSettled ? { ms: this.clock.monotonicMs(), gap: contact.gap } : null;
      return epoch === null ? null : contact.whyNot(epoch);
    };
    return { answer: await this.#api.send({ ...request, unless }), sent };
  }
}
