import type { Address } from "../../ipam/address.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type { KubeAnswer, KubeApi, Priority } from "./kube-api.ts";
import { allocationName } from "./object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "./objects.ts";

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
 */
export class AllocationClient {
  readonly #api: KubeApi;
  readonly #priority: Priority;

  constructor(api: KubeApi, priority: Priority) {
    this.#api = api;
    this.#priority = priority;
  }

  /** A quorum read; null: nobody has the address. */
  async read(network: string, address: Address, deadlineMs: number): Promise<AllocationReading | null> {
    const name = allocationName(network, address);
    const answer = await this.#send("GET", name, deadlineMs);
    // Without a name in it, a 404 says that the definition is not installed.
    if (answer.status === 404 && answer.body?.details?.name === name) return null;
    if (answer.status !== 200) throw refusedBy(answer, `read IPAllocation ${name}`);
    return { object: answer.body as IPAllocation, serverMs: answer.serverMs };
  }

  /** Insert-if-absent: the commit of an allocation. `changed`: the name exists. */
  async create(object: object, deadlineMs: number): Promise<Written> {
    const answer = await this.#api.send({
      method: "POST",
      path: ALLOCATIONS_PATH,
      body: object,
      priority: this.#priority,
      deadlineMs,
    });
    if (answer.status === 201) return { kind: "done", object: answer.body as IPAllocation };
    if (answer.status === 409) return { kind: "changed" };
    throw refusedBy(answer, "create an IPAllocation");
  }

  /** Puts an object back with the resourceVersion it was read with. `changed`: somebody else wrote or deleted it meanwhile. */
  async replace(object: object, deadlineMs: number): Promise<Written> {
    const { name } = (object as IPAllocation).metadata;
    const answer = await this.#send("PUT", name, deadlineMs, object);
    if (answer.status === 200 || answer.status === 201) {
      return { kind: "done", object: answer.body as IPAllocation };
    }
    if (answer.status === 409 || answer.status === 404) return { kind: "changed" };
    throw refusedBy(answer, `write IPAllocation ${name}`);
  }

  #send(method: "GET" | "PUT", name: string, deadlineMs: number, body?: object): Promise<KubeAnswer> {
    return this.#api.send({
      method,
      path: objectPath(ALLOCATIONS_PATH, name),
      ...(body === undefined ? {} : { body }),
      priority: this.#priority,
      deadlineMs,
    });
  }
}

/** What an answer that is neither success nor conflict means. */
export function refusedBy(answer: KubeAnswer, what: string): RefusalError {
  const message = (answer.body as { message?: unknown } | null)?.message;
  const problem = `${answer.status} ${typeof message === "string" ? message : "without a message"}`;
  return new RefusalError(refuse("API_REFUSED", { what, problem }));
}
