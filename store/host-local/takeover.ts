import { HOST_LOCAL_DATA_DIR } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { type Refusal, RefusalError } from "../../ipam/refusals.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { RecentKeys } from "../../platform/warn-once.ts";
import { dataDirectory, type HostLocalDirs, MachineSight, refuseHidden, unreadable } from "./data-dir.ts";
import {
  directoryVersion,
  type Lease,
  LeaseProblem,
  readLeases,
  removeLease,
  steadyLeases,
  TICK_MS_MAX,
} from "./lease-files.ts";
import type { LeaseStore, LeaseVerdict } from "./lease-store.ts";
import { describeLease, type JudgedLease, type Progress, recordLeases, stillRecording } from "./record-leases.ts";

const HOST_LOCAL_DIRS: HostLocalDirs = { standard: HOST_LOCAL_DATA_DIR, allowed: null };

interface DirectoryReading {
  readonly version: string;
  /** When this version was first seen, ms of the monotonic clock. */
  readonly firstSeenMs: number;
  /** It was read again later than a clock tick after the change, when every change of that tick was visible. */
  readonly settled: boolean;
  readonly fingerprint: string;
  /** Containers that ended since the version before were ended here too. */
  readonly followed: boolean;
  readonly leases: readonly JudgedLease[];
  /** Leases of addresses that another owner has. */
  readonly conflicts: readonly Lease[];
}

/**
 * Containers keep the addresses that host-local gave them before a network became ours. Before an address of a network
 * is allocated, every file of host-local's directory is recorded as an allocation of its container. Then the directory
 * is followed: runtimes end old containers with the configuration they were started with, and host-local removes the
 * file.
 *
 *   file     container here        verdict
 *   exists   has the address       good
 *   exists   never heard of        recorded if the address is free; else reported
 *   exists   has ended             host-local was not told: the file is removed, as its own DEL would have done
 *   gone     as it was taken over  host-local's DEL ran: ended here too
 *   gone     attached by us since  good: the file is no longer needed
 *   directory gone or unreadable   no evidence: nothing ends; if unreadable, nothing is allocated either
 *   directory hidden, or may be    as unreadable; one that is not there is empty, and remembered (data-dir.ts)
 * See docs/decisions/0029 and 0090.
 */
export class HostLocalTakeover {
  readonly #leaseStore: LeaseStore;
  readonly #clock: Clock;
  readonly #dirs: HostLocalDirs;
  readonly #log: Pick<Log, "info" | "error">;
  readonly #sight: MachineSight;
  readonly #readings = new Map<string, DirectoryReading>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #next = new Map<string, Promise<void>>();
  readonly #logged = new RecentKeys();
  readonly #progress = new Map<string, Progress>();
  /** Number of times the store was opened: what was recorded in an earlier one may be missing in this one. */
  #openCount = 0;
  /** Definitions from ADDs of networks that have no other definition. */
  readonly #definitions = new Map<string, NetworkDefinition>();

  constructor(parts: {
    readonly leaseStore: LeaseStore;
    readonly clock: Clock;
    readonly dirs: HostLocalDirs | undefined;
    readonly pathExists: (path: string) => boolean | null;
    readonly log: Pick<Log, "info" | "error">;
  }) {
    this.#leaseStore = parts.leaseStore;
    this.#clock = parts.clock;
    this.#dirs = parts.dirs ?? HOST_LOCAL_DIRS;
    this.#sight = new MachineSight(parts.pathExists);
    this.#log = parts.log;
  }

  /** The store may be another one now, such as a backup: every directory is read before an address is allocated. */
  storeOpened(): void {
    this.#openCount += 1;
    this.#readings.clear();
  }

  /**
   * Resolves when everything that host-local has allocated on a network is recorded; null, as nearly always: it already
   * is. `definition` is the one in force, `others` may name further directories. Throws, or rejects with, RefusalError.
   */
  ensure(definition: NetworkDefinition, ...others: readonly NetworkDefinition[]): Promise<void> | null {
    if (definition.rangeSets.length === 0) return null;
    this.#definitions.set(definition.name, definition);
    const directories = new Set([this.#directoryOf(definition)]);
    for (const other of others) if (other !== definition) directories.add(this.#directoryOf(other));
    const stale: string[] = [];
    for (const directory of directories) if (!this.#isCurrent(definition, directory, false)) stale.push(directory);
    if (stale.length === 0) return null;
    return Promise.all(stale.map((directory) => this.#refresh(definition, directory, false))).then(() => {});
  }

  whyWaiting(network: string): Refusal {
    return stillRecording(network, this.#progress.get(network));
  }

  /** Checks every directory that was read before. A problem of one network does not hold up the others. */
  async follow(): Promise<void> {
    for (const definition of this.definitions) {
      const { name } = definition;
      try {
        for (const directory of this.#leaseStore.directories(name))
          if (!this.#isCurrent(definition, directory, true)) await this.#refresh(definition, directory, true);
      } catch (error) {
        if (!(error instanceof RefusalError)) throw error;
        this.#logOnce(error.refusal.message);
      }
    }
  }

  /** Removes the files of a container deleted through us, which host-local would keep for ever. Never throws. */
  forget(container: { containerId: string; interface: string; network: string | null }): void {
    for (const [key, { leases }] of this.#readings) {
      if (container.network !== null && !key.startsWith(`${container.network}\n`)) continue;
      for (const { lease } of leases) {
        const { holder } = lease;
        if (holder?.containerId !== container.containerId) continue;
        if (holder.interface === "" || holder.interface === container.interface) this.#remove(lease);
      }
    }
  }

  /** The present leases of a network, and what taking them over would do. Changes nothing. Throws RefusalError. */
  async inspect(definition: NetworkDefinition, dataDir?: string): Promise<JudgedLease[]> {
    const inspected: JudgedLease[] = [];
    for (const directory of this.directoriesOf(definition, dataDir)) {
      const leases = await this.#attempt(definition.name, async () =>
        directoryVersion(directory) === null ? [] : readLeases(this.#clock, directory),
      );
      for (const lease of leases) inspected.push({ lease, verdict: await this.#leaseStore.judge(definition, lease) });
    }
    return inspected;
  }

  inspectUndefined(network: string, directory: string): Promise<JudgedLease[]> {
    return this.#attempt(network, async () => {
      const leases = directoryVersion(directory) === null ? [] : await readLeases(this.#clock, directory);
      return leases.map((lease) => ({ lease, verdict: { kind: "undefined" } }));
    });
  }

  /** Reads a network's directories now, whether they have changed or not. Throws RefusalError. */
  async takeOver(definition: NetworkDefinition, dataDir?: string): Promise<JudgedLease[]> {
    const directories = this.directoriesOf(definition, dataDir);
    for (const directory of directories) await this.#refresh(definition, directory, true);
    return directories.flatMap((directory) => this.#readings.get(keyOf(definition.name, directory))?.leases ?? []);
  }

  /** The directories in which host-local's addresses of a network are or may be. Throws RefusalError. */
  directoriesOf(definition: NetworkDefinition, dataDir?: string): string[] {
    const named = this.#directoryOf(dataDir === undefined ? definition : { name: definition.name, dataDir });
    return [...new Set([named, ...this.#leaseStore.directories(definition.name)])];
  }

  /** Networks that have a definition, be it only from an ADD. */
  get definitions(): readonly NetworkDefinition[] {
    const known = new Map(this.#definitions);
    for (const one of this.#leaseStore.definitions()) known.set(one.name, one);
    return [...known.values()].filter(({ rangeSets }) => rangeSets.length > 0);
  }

  /** Directories of a network that are gone although containers taken over from them are still attached. */
  lostDirectories(network: string): string[] {
    return this.#leaseStore
      .directories(network)
      .filter((directory) => directoryVersion(directory) === null)
      .filter((directory) => this.#leaseStore.isInUse(network, directory));
  }

  get standardDir(): string {
    return this.#dirs.standard;
  }

  /** Throws RefusalError when this process cannot see a `dataDir` of an undefined network. */
  refuseHidden(network: string, dataDir: string): void {
    refuseHidden({ network, dataDir }, this.#sight, () => false);
  }

  #directoryOf({ name: network, dataDir }: Pick<NetworkDefinition, "name" | "dataDir">): string {
    return dataDirectory({ network, dataDir }, this.#dirs, this.#sight, (directory) =>
      this.#leaseStore.directories(network).includes(directory),
    );
  }

  /** `following`: containers that have ended must have been ended here too. */
  #isCurrent(definition: NetworkDefinition, directory: string, following: boolean): boolean {
    const reading = this.#readings.get(keyOf(definition.name, directory));
    let version: string | null;
    try {
      version = directoryVersion(directory);
    } catch (error) {
      throw this.#unreadable(definition.name, error);
    }
    if (version === null) {
      if (definition.dataDir === undefined) return true;
      this.#logOnce(
        `network ${definition.name}: there is no ${directory}, so no address of host-local's is taken over`,
        "info",
      );
      return this.#leaseStore.directories(definition.name).includes(directory);
    }
    if (reading === undefined || !reading.settled || (following && !reading.followed)) return false;
    if (reading.version !== version || reading.fingerprint !== definition.fingerprint) return false;
    // An owner may have released its address since it was read, while the file still says that it is in use.
    return !reading.conflicts.some((lease) => this.#leaseStore.mayBeFree(definition, lease));
  }

  /** Starts a new reading; callers that arrive while one is under way share the next one. */
  async #refresh(definition: NetworkDefinition, directory: string, following: boolean): Promise<void> {
    const key = keyOf(definition.name, directory);
    const running = this.#running.get(key);
    if (running === undefined) return this.#start(definition, directory, following);
    let next = this.#next.get(key);
    if (next === undefined) {
      next = running
        .catch(() => {})
        .then(() => {
          this.#next.delete(key);
          return this.#start(definition, directory, following);
        });
      this.#next.set(key, next);
    }
    await next;
    const reading = this.#readings.get(key);
    if (reading !== undefined && reading.fingerprint !== definition.fingerprint)
      await this.#refresh(definition, directory, following);
  }

  #start(definition: NetworkDefinition, directory: string, following: boolean): Promise<void> {
    const key = keyOf(definition.name, directory);
    const work = this.#attempt(definition.name, () => this.#read(definition, directory, following)).finally(() =>
      this.#running.delete(key),
    );
    this.#running.set(key, work);
    return work;
  }

  async #read(definition: NetworkDefinition, directory: string, following: boolean): Promise<void> {
    const network = definition.name;
    const key = keyOf(network, directory);
    const storeOpened = this.#openCount;
    const startedMs = this.#clock.monotonicMs();
    const version = directoryVersion(directory);
    if (version === null) {
      if (definition.dataDir !== undefined) await this.#leaseStore.remember(network, directory);
      return;
    }
    const before = this.#readings.get(key);
    const former = before?.leases.map(({ lease }) => lease) ?? [];
    // Within a tick of the clock, a file may have changed without looking different.
    const known = before === undefined || before.settled ? former : steadyLeases(former, before.version);
    const found = await readLeases(this.#clock, directory, known);
    if (following) {
      const present = new Map(found.map((lease) => [lease.path, lease]));
      for (const ended of await this.#leaseStore.settle(network, directory, present)) this.#remove(ended);
    }
    const parts = { leaseStore: this.#leaseStore, clock: this.#clock };
    const leases = await recordLeases(parts, definition, found, (done) =>
      this.#progress.set(network, { directory, done, total: found.length }),
    );
    await this.#leaseStore.remember(network, directory);
    if (storeOpened !== this.#openCount) return this.#read(definition, directory, following);
    this.#report(network, directory, leases);
    const firstSeenMs = before?.version === version ? before.firstSeenMs : startedMs;
    const settled = startedMs - firstSeenMs >= TICK_MS_MAX && directoryVersion(directory) === version;
    const followed = following || (before?.version === version && before.followed);
    const { fingerprint } = definition;
    const conflicts = leases.flatMap(({ lease, verdict }) => (verdict.kind === "other" ? [lease] : []));
    this.#readings.set(key, { version, firstSeenMs, settled, fingerprint, followed, leases, conflicts });
  }

  #report(network: string, directory: string, leases: readonly JudgedLease[]): void {
    const count = (kind: LeaseVerdict["kind"]) => leases.filter(({ verdict }) => verdict.kind === kind).length;
    const taken = count("taken");
    if (taken > 0)
      this.#log.info(
        `network ${network}: ${taken} addresses that host-local has given are taken over from ${directory}`,
      );
    for (const { lease, verdict } of leases) {
      if (verdict.kind === "other") {
        this.#logOnce(
          `network ${network}: ${lease.path} says that ${describeLease(lease)} has the address, which is held by ${describeOwner(verdict.holder)}`,
        );
      } else if (verdict.kind === "outside") {
        this.#logOnce(`network ${network}: ${lease.path} is in no subnet of the network and not taken over`);
      }
    }
  }

  #remove({ path, fileId }: { readonly path: string; readonly fileId: string }): void {
    try {
      removeLease(path, fileId);
    } catch (error) {
      const { message } = error as Error;
      const why = `cannot be removed: ${message}; Holdfast ignores it, host-local would not`;
      this.#logOnce(`${path} of a container that has ended ${why}`);
    }
  }

  async #attempt<T>(network: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#unreadable(network, error);
    }
  }

  #unreadable(network: string, error: unknown): unknown {
    if (!(error instanceof LeaseProblem)) return error;
    return new RefusalError(unreadable(network, error));
  }

  #logOnce(message: string, level: "info" | "error" = "error"): void {
    if (this.#logged.addIfNew(message)) this.#log[level](message);
  }
}

function keyOf(network: string, directory: string): string {
  return `${network}\n${directory}`;
}
