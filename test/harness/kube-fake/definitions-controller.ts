import type { Change, Etcd } from "./etcd.ts";
import { copyOf, isEqual, type KubeObject } from "./objects.ts";
import { type Clock, isoTime } from "./port.ts";
import { DEFINITIONS_STORAGE, type Served } from "./served.ts";

export const CLEANUP = "customresourcecleanup.apiextensions.k8s.io";

/**
 * What the server does about CustomResourceDefinitions after they were written: serves what they define, and before one
 * goes, deletes its objects. Objects with finalizers keep their definition, which takes no new ones meanwhile.
 */
export class DefinitionsController {
  readonly #etcd: Etcd;
  readonly #served: Served;
  readonly #clock: Clock;
  readonly #dropCache: (storage: string) => void;
  #isDirty = true;
  /** Storages of definitions that are being deleted. */
  readonly #ending = new Set<string>();

  constructor(etcd: Etcd, served: Served, clock: Clock, dropCache: (storage: string) => void) {
    this.#etcd = etcd;
    this.#served = served;
    this.#clock = clock;
    this.#dropCache = dropCache;
  }

  /** Something was written. */
  note({ storage, object, previous, deleted }: Change): void {
    if (storage === DEFINITIONS_STORAGE) {
      this.#isDirty = true;
      const isOther = previous !== null && !isEqual(previous.spec, object.spec);
      if (deleted || isOther) this.#dropCache(storageOf(object));
    } else if (deleted && this.#ending.has(storage)) this.#isDirty = true;
  }

  /** Does what has become necessary; outside of any write. */
  settle(): void {
    while (this.#isDirty) {
      this.#isDirty = false;
      for (const { key, object } of this.#etcd.range(DEFINITIONS_STORAGE, "")) {
        if (object.metadata.deletionTimestamp !== undefined) this.#end(key, object);
        else if (object.status?.conditions === undefined) this.#establish(key, object);
      }
      this.#served.read(this.#etcd);
    }
  }

  #establish(key: string, definition: KubeObject): void {
    const next = copyOf(definition);
    const lastTransitionTime = isoTime(this.#clock.wallMs());
    const condition = (type: string, reason: string, message: string) => ({
      type,
      status: "True",
      lastTransitionTime,
      reason,
      message,
    });
    next.status = {
      conditions: [
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
      ],
      acceptedNames: next.spec.names,
      storedVersions: next.spec.versions.filter((one: KubeObject) => one.storage).map((one: KubeObject) => one.name),
    };
    this.#etcd.put(DEFINITIONS_STORAGE, key, next);
  }

  /** Says that its objects are going. */
  #begin(key: string, definition: KubeObject): void {
    const next = copyOf(definition);
    const lastTransitionTime = isoTime(this.#clock.wallMs());
    const message = "CustomResource deletion is in progress";
    const reason = "InstanceDeletionInProgress";
    const condition = { type: "Terminating", status: "True", lastTransitionTime, reason, message };
    next.status.conditions = [...(next.status.conditions ?? []), condition];
    this.#etcd.put(DEFINITIONS_STORAGE, key, next);
  }

  #end(key: string, definition: KubeObject): void {
    const storage = storageOf(definition);
    if (!this.#ending.has(storage)) this.#begin(key, definition);
    this.#ending.add(storage);
    const deletionTimestamp = isoTime(this.#clock.wallMs());
    for (const { key: name, object } of this.#etcd.range(storage, "")) {
      if ((object.metadata.finalizers ?? []).length === 0) this.#etcd.delete(storage, name);
      else if (object.metadata.deletionTimestamp === undefined) {
        const metadata = { ...object.metadata, deletionTimestamp, deletionGracePeriodSeconds: 0 };
        metadata.generation += 1;
        this.#etcd.put(storage, name, { ...object, metadata });
      }
    }
    if (this.#etcd.range(storage, "").length > 0) return;
    this.#ending.delete(storage);
    const others = (definition.metadata.finalizers ?? []).filter((one: string) => one !== CLEANUP);
    if (others.length === 0) this.#etcd.delete(DEFINITIONS_STORAGE, key);
    else if (others.length < definition.metadata.finalizers.length) {
      const metadata = { ...definition.metadata, finalizers: others };
      this.#etcd.put(DEFINITIONS_STORAGE, key, { ...definition, metadata });
    }
  }
}

const storageOf = ({ spec }: KubeObject): string => `${spec.group}/${spec.names.plural}`;
