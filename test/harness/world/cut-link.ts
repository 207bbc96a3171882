import type { Fate, Link } from "../kube-fake/client/link.ts";
import type { ServerRequest } from "../kube-fake/requests.ts";

/** What a process writes by its own clock, and so at no fixed place among its other writes. */
const UNCOUNTED = /\/(leases|events)(\/|$)/;

/** Where a connection ends. */
export interface CutAt {
  /** Of the writes, leases and events left out: 1 is the first. */
  readonly write: number;
  /** Only writes whose path it matches count; default: all. */
  readonly of?: RegExp;
  /** Whether the server still carries it out. Nobody hears of it either way. */
  readonly delivered: boolean;
}

/** The way of one process to the API server in memory: it remembers the writes, and may end at one of them for good. */
export class CutLink implements Link {
  /** `PATCH /apis/…`, in their order; leases and events left out. */
  readonly writes: string[] = [];
  readonly #cut: CutAt | null;
  #counted = 0;

  constructor(cut: CutAt | null = null) {
    this.#cut = cut;
  }

  /** Whether the connection has ended. */
  get isCut(): boolean {
    return this.#cut !== null && this.#counted >= this.#cut.write;
  }

  readonly fate = ({ method, path }: ServerRequest): Fate | undefined => {
    if (this.isCut) return { lost: "before" };
    if (method === "GET" || UNCOUNTED.test(path)) return undefined;
    this.writes.push(`${method} ${path}`);
    if (this.#cut?.of?.test(path) ?? true) this.#counted += 1;
    if (!this.isCut) return undefined;
    return { lost: this.#cut?.delivered === true ? "after" : "before" };
  };
}
