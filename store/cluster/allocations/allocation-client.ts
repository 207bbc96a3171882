/*
 * store/cluster/allocations/: IPAllocation objects, one for each address that somebody has
 *
 *   allocation-object, owners     the object, and whose it is
 *   allocation-client             reads and writes of single objects
 *   hold, give-back               where an address becomes somebody's, and where it ceases to be: nobody else writes one
 *   hint, views                   the picture of what is free; what people are shown
 *   continuity, served-since      whether the API server still has what it had
 */

import type { Address } from "../../../ipam/space/address.ts";
import { permittedObject, readingOf, refusedBy, writtenOf } from "../../../kube/answers.ts";
import {
  ApiAway,
  type KubeAnswer,
  type KubeApi,
  type KubeRequest,
  type Priority,
} from "../../../kube/kube-api.ts";
import { allocationName } from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "../../../kube/objects.ts";
import type { Clock } from "../../../platform/time.ts";
import type { Continuity } from "./continuity.ts";

/** An allocation as one quorum read showed it. */
export interface AllocationReading {
  readonly object: IPAllocation;
  /** The server's clock at the read, ms; null when it told none. */
  readonly serverMs: number | null;
}

/** What became of a write: done, or the object is not (any more) as it was read. */
export type Written = { readonly kind: "done"; readonly object: IPAllocation } | { readonly kind: "changed" };

/**
 * Reads and writes of single IPAllocation objects. Every method throws ApiAway when the outcome is unknown, and
 * RefusalError API_REFUSED when the server refuses for a reason that no retry changes (rights, validation).
 * See docs/decisions/0014.
 */
export class AllocationClient {
  readonly #api: KubeApi;
  readonly #priority: Priority;
  readonly #continuity: Continuity | null;
  /** Of the ADD that the writes are for; null: they are sent whatever happens. */
  readonly #epoch: number | null;

  constructor(
    api: KubeApi,
    priority: Priority,
    continuity: Continuity | null = null,
    epoch: number | null = null,
  ) {
    this.#api = api;
    this.#priority = priority;
    this.#continuity = continuity;
    this.#epoch = epoch;
  }

  /** The same, with writes that are not sent once contact was lost: of an ADD that was admitted in this epoch. */
  admitted(epoch: number): AllocationClient {
    return new AllocationClient(this.#api, this.#priority, this.#continuity, epoch);
  }

  /** Deadlines are its instants. */
  get clock(): Clock {
    return this.#api.clock;
  }

  /** A quorum read; null: nobody has the address. */
  read(network: string, address: Address, deadlineMs: number): Promise<AllocationReading | null> {
    return this.readNamed(allocationName(network, address), deadlineMs);
  }

  /** The same, of an object whose name is known. */
  async readNamed(name: string, deadlineMs: number): Promise<AllocationReading | null> {
    const path = objectPath(ALLOCATIONS_PATH, name);
    const answer = await this.#api.send({ method: "GET", path, priority: this.#priority, deadlineMs });
    const object: IPAllocation | null = permittedObject(readingOf(answer, path), `read IPAllocation ${name}`);
    return object && { object, serverMs: answer.serverMs };
  }

  /** Insert-if-absent: the commit of an allocation. `changed`: the name exists. */
  async create(object: object, deadlineMs: number): Promise<Written> {
    const request = { method: "POST", path: ALLOCATIONS_PATH, body: object, deadlineMs } as const;
    return this.#write(request, "create an IPAllocation");
  }

  /** Puts an object back with the resourceVersion it was read with. `changed`: somebody else wrote or deleted it meanwhile. */
  async replace(object: object, deadlineMs: number): Promise<Written> {
    const { name } = (object as IPAllocation).metadata;
    const path = objectPath(ALLOCATIONS_PATH, name);
    return this.#write({ method: "PUT", path, body: object, deadlineMs }, `write IPAllocation ${name}`);
  }

  /** Deletes an object if it still is as it was read. `done` gives the object of before. */
  async delete(object: IPAllocation, deadlineMs: number): Promise<Written> {
    const { name, uid, resourceVersion } = object.metadata;
    const path = objectPath(ALLOCATIONS_PATH, name);
    const body = { preconditions: { uid, resourceVersion } };
    const written = await this.#write(
      { method: "DELETE", path, body, deadlineMs },
      `delete IPAllocation ${name}`,
    );
    return written.kind === "done" ? { kind: "done", object } : written;
  }

  async #write(request: Omit<KubeRequest, "priority" | "unless">, what: string): Promise<Written> {
    const continuity = this.#continuity;
    const newestBefore = continuity?.newest ?? 0n;
    const answer = await this.#send({ ...request, priority: this.#priority });
    const version: string | undefined = answer.body?.metadata?.resourceVersion;
    // A PUT that changes nothing is answered with the version of before.
    if (answer.status === 201) {
      continuity?.noteCurrent(version, newestBefore);
      continuity?.noteCreated(answer.body.metadata);
    } else if (answer.status < 300) continuity?.noteVersion(version);
    const written = writtenOf(answer, request.path);
    if (written.kind === "refused") throw refusedBy(written.answer, what);
    return written.kind === "done" ? written : { kind: "changed" };
  }

  /** What was stopped because contact seemed lost goes on where it turns out that it was not. */
  async #send(request: KubeRequest): Promise<KubeAnswer> {
    const continuity = this.#continuity;
    const epoch = this.#epoch;
    if (continuity === null || epoch === null) return this.#api.send(request);
    for (;;) {
      await continuity.untilKnown(epoch, request.deadlineMs);
      try {
        return await this.#api.send({ ...request, unless: () => continuity.whyNot(epoch) });
      } catch (error) {
        const mayGoOn = error instanceof ApiAway && (await continuity.untilKnown(epoch, request.deadlineMs));
        if (!mayGoOn || this.#api.clock.monotonicMs() >= request.deadlineMs) throw error;
      }
    }
  }
}
