import { isDeepStrictEqual } from "node:util";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type WireObject = any;

interface Change {
  readonly version: bigint;
  readonly isDeletion: boolean;
  /** Without `apiVersion` and `kind`, which the items of some lists lack. */
  readonly object: WireObject;
}

/**
 * The newest change of a resource that a copy contains. A server that tells it again has the history from which the
 * copy was made, at least up to there: what a restored etcd has instead of lost changes are others.
 */
export class LastChange {
  #last: Change | null = null;

  /** The version to watch from in order to be told it again; null: nothing is known that could be told. */
  get versionBefore(): string | null {
    return this.#last === null ? null : `${this.#last.version - 1n}`;
  }

  /** The item of a list, or the object of an event. Older ones than the newest are ignored. */
  note(type: string, object: WireObject): void {
    const version = versionOf(object);
    if (version === null || (this.#last !== null && version <= this.#last.version)) return;
    this.#last = { version, isDeletion: type === "DELETED", object: plain(object) };
  }

  isToldBy(type: string, object: WireObject): boolean {
    if (this.#last === null || versionOf(object) !== this.#last.version) return false;
    return this.#last.isDeletion === (type === "DELETED") && isDeepStrictEqual(plain(object), this.#last.object);
  }

  /** Whether a server at this version must have told it already. */
  isPassedAt(resourceVersion: string | undefined): boolean {
    const version = parsed(resourceVersion);
    return this.#last !== null && version !== null && version >= this.#last.version;
  }
}

function plain({ apiVersion: _version, kind: _kind, ...rest }: WireObject): WireObject {
  return rest;
}

function versionOf(object: WireObject): bigint | null {
  return parsed(object?.metadata?.resourceVersion);
}

function parsed(resourceVersion: string | undefined): bigint | null {
  return resourceVersion !== undefined && /^[1-9]\d*$/.test(resourceVersion) ? BigInt(resourceVersion) : null;
}
