import { HOST_LOCAL_DATA_DIR } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { type Refusal, RefusalError } from "../../ipam/refusals.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { RecentKeys } from "../../platform/warn-once.ts";
import { dataFolder, type HostLocalDirs, OwnMounts, refuseHidden, unreadable } from "./data-dir.ts";
import { describeLease, type JudgedLease } from "./judged-lease.ts";
import {
  folderVersion,
  type Lease,
  LeaseProblem,
  readLeases,
  removeLease,
  steadyLeases,
  TICK_MS_MAX,
} from "./lease-files.ts";
import type { LeaseStore, LeaseVerdict } from "./lease-store.ts";
import { type Progress, recordLeases, stillRecording } from "./record-leases.ts";

const HOST_LOCAL_DIRS: HostLocalDirs = { standard: HOST_LOCAL_DATA_DIR, allowed: null };

/** One folder of one network, as last read. */
interface FolderReading {
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
 * is allocated, every file of host-local's folder is recorded as an allocation of its container. Afterwards the folder
 * is followed, because runtimes end old containers with the configuration they were started with, and host-local then
 * removes the file.
 *
 *   file     container here        verdict
 *   exists   has the address       good
 *   exists   never heard of        recorded if the address is free; else reported
 *   exists   has ended             host-local was not told: the file is removed, as its own DEL would have done
 *   gone     as it was taken over  host-local's DEL ran: ended here too
 *   gone     attached by us since  good: the file is no longer needed
 *   folder gone or unreadable      no evidence: nothing ends; if unreadable, nothing is allocated either
 *   dataDir not visible            as unreadable, unless it was read before (data-dir.ts)
 * See docs/decisions/0029.
 */
export class HostLocalTakeover {
  readonly #leaseStore: LeaseStore;
  readonly #clock: Clock;
  readonly #dirs: HostLocalDirs;
  readonly #log: Pick<Log, "info" | "error">;
  readonly #mounts = new OwnMounts();
  readonly #readings = new Map<string, FolderReading>();
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
    readonly log: Pick<Log, "info" | "error">;
  }) {
    this.#leaseStore = parts.leaseStore;
    this.#clock = parts.clock;
    this.#dirs = parts.dirs ?? HOST_LOCAL_DIRS;
    this.#log = parts.log;
  }

  /** The store may be another one now, such as a backup: every folder is read again before an address is allocated. */
  storeOpened(): void {
    this.#openCount += 1;
    this.#readings.clear();
  }

  /**
   * Resolves when everything that host-local has allocated on a network is recorded; null, as nearly always: it already
   * is. `definition` is the one in force, `others` may name further folders. Throws, or rejects with, RefusalError.
   */
  ensure(definition: NetworkDefinition, ...others: readonly NetworkDefinition[]): Promise<void> | null {
    if (definition.rangeSets.length === 0) return null;
    this.#definitions.set(definition.name, definition);
    const folders = new Set([this.#folderOf(definition)]);
    for (const other of others) if (other !== definition) folders.add(this.#folderOf(other));
    const stale: string[] = [];
    for (const folder of folders) if (!this.#isCurrent(definition, folder, false)) stale.push(folder);
    if (stale.length === 0) return null;
    return Promise.all(stale.map((folder) => this.#refresh(definition, folder, false))).then(() => {});
  }

  /** Why what `ensure` waits for takes long. */
  whyWaiting(network: string): Refusal {
    return stillRecording(network, this.#progress.get(network));
  }

  /** Checks every folder that was read before. A problem of one network does not hold up the others. */
  async follow(): Promise<void> {
    for (const definition of this.definitions) {
      const { name } = definition;
      try {
        const folders = this.#leaseStore
          .folders()
          .flatMap(({ network, folder }) => (network === name ? [folder] : []));
        for (const folder of folders)
          if (!this.#isCurrent(definition, folder, true)) await this.#refresh(definition, folder, true);
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
    for (const folder of this.foldersOf(definition, dataDir)) {
      const leases = await this.#attempt(definition.name, async () =>
        folderVersion(folder) === null ? [] : readLeases(this.#clock, folder),
      );
      for (const lease of leases)
        inspected.push({ lease, verdict: await this.#leaseStore.judge(definition, lease) });
    }
    return inspected;
  }

  inspectUndefined(network: string, folder: string): Promise<JudgedLease[]> {
    return this.#attempt(network, async () => {
      const leases = folderVersion(folder) === null ? [] : await readLeases(this.#clock, folder);
      return leases.map((lease) => ({ lease, verdict: { kind: "undefined" } }));
    });
  }

  /** Reads a network's folders now, whether they have changed or not. Throws RefusalError. */
  async takeOver(definition: NetworkDefinition, dataDir?: string): Promise<JudgedLease[]> {
    const folders = this.foldersOf(definition, dataDir);
    for (const folder of folders) await this.#refresh(definition, folder, true);
    return folders.flatMap((folder) => this.#readings.get(keyOf(definition.name, folder))?.leases ?? []);
  }

  /** The folders in which host-local's addresses of a network are or may be. Throws RefusalError. */
  foldersOf(definition: NetworkDefinition, dataDir?: string): string[] {
    const before = this.#leaseStore.folders().filter(({ network }) => network === definition.name);
    const named = this.#folderOf(dataDir === undefined ? definition : { name: definition.name, dataDir });
    return [...new Set([named, ...before.map(({ folder }) => folder)])];
  }

  /** Networks that have a definition, be it only from an ADD. */
  get definitions(): readonly NetworkDefinition[] {
    const known = new Map(this.#definitions);
    for (const one of this.#leaseStore.definitions()) known.set(one.name, one);
    return [...known.values()].filter(({ rangeSets }) => rangeSets.length > 0);
  }

  /** Folders of a network that are gone although containers taken over from them are still attached. */
  lostFolders(network: string): string[] {
    return this.#leaseStore
      .folders()
      .filter((one) => one.network === network && folderVersion(one.folder) === null)
      .filter(({ folder }) => this.#leaseStore.isInUse(network, folder))
      .map(({ folder }) => folder);
  }

  /** The folder for networks without a `dataDir`. */
  get standardDir(): string {
    return this.#dirs.standard;
  }

  /** Throws RefusalError when this process cannot see a `dataDir` of an undefined network. */
  refuseHidden(network: string, dataDir: string): void {
    refuseHidden({ network, dataDir }, this.#mounts, () => false);
  }

  #folderOf({ name: network, dataDir }: Pick<NetworkDefinition, "name" | "dataDir">): string {
    return dataFolder({ network, dataDir }, this.#dirs, this.#mounts, (folder) =>
      this.#leaseStore.folders().some((one) => one.network === network && one.folder === folder),
    );
  }

  /** `following`: containers that have ended must have been ended here too. */
  #isCurrent(definition: NetworkDefinition, folder: string, following: boolean): boolean {
    const reading = this.#readings.get(keyOf(definition.name, folder));
    let version: string | null;
    try {
      version = folderVersion(folder);
    } catch (error) {
      throw this.#unreadable(definition.name, error);
    }
    if (version === null) {
      if (definition.dataDir !== undefined)
        this.#logOnce(
          `network ${definition.name}: there is no ${folder}, so no address of host-local's is taken over`,
          "info",
        );
      return true;
    }
    if (reading === undefined || !reading.settled || (following && !reading.followed)) return false;
    if (reading.version !== version || reading.fingerprint !== definition.fingerprint) return false;
    // An owner may have released its address since it was read, while the file still says that it is in use.
    return !reading.conflicts.some((lease) => this.#leaseStore.mayBeFree(definition, lease));
  }

  /** Starts a new reading; callers that arrive while one is under way share the next one. */
  async #refresh(definition: NetworkDefinition, folder: string, following: boolean): Promise<void> {
    const key = keyOf(definition.name, folder);
    const running = this.#running.get(key);
    if (running === undefined) return this.#start(definition, folder, following);
    let next = this.#next.get(key);
    if (next === undefined) {
      next = running
        .catch(() => {})
        .then(() => {
          this.#next.delete(key);
          return this.#start(definition, folder, following);
        });
      this.#next.set(key, next);
    }
    await next;
    const reading = this.#readings.get(key);
    if (reading !== undefined && reading.fingerprint !== definition.fingerprint)
      await this.#refresh(definition, folder, following);
  }

  #start(definition: NetworkDefinition, folder: string, following: boolean): Promise<void> {
    const key = keyOf(definition.name, folder);
    const work = this.#attempt(definition.name, () => this.#read(definition, folder, following)).finally(() =>
      this.#running.delete(key),
    );
    this.#running.set(key, work);
    return work;
  }

  async #read(definition: NetworkDefinition, folder: string, following: boolean): Promise<void> {
    const network = definition.name;
    const key = keyOf(network, folder);
    const storeOpened = this.#openCount;
    const startedMs = this.#clock.monotonicMs();
    const version = folderVersion(folder);
    if (version === null) return;
    const before = this.#readings.get(key);
    const former = before?.leases.map(({ lease }) => lease) ?? [];
    // Within a tick of the clock, a file may have changed without looking different.
    const known = before === undefined || before.settled ? former : steadyLeases(former, before.version);
    const found = await readLeases(this.#clock, folder, known);
    if (following) {
      const present = new Map(found.map((lease) => [lease.path, lease]));
      for (const ended of await this.#leaseStore.settle(network, folder, present)) this.#remove(ended);
    }
    const parts = { leaseStore: this.#leaseStore, clock: this.#clock };
    const leases = await recordLeases(parts, definition, found, (done) =>
      this.#progress.set(network, { folder, done, total: found.length }),
    );
    await this.#leaseStore.remember(network, folder);
    if (storeOpened !== this.#openCount) return this.#read(definition, folder, following);
    this.#report(network, folder, leases);
    const firstSeenMs = before?.version === version ? before.firstSeenMs : startedMs;
    const settled = startedMs - firstSeenMs >= TICK_MS_MAX && folderVersion(folder) === version;
    const followed = following || (before?.version === version && before.followed);
    const { fingerprint } = definition;
    const conflicts = leases.flatMap(({ lease, verdict }) => (verdict.kind === "other" ? [lease] : []));
    this.#readings.set(key, { version, firstSeenMs, settled, fingerprint, followed, leases, conflicts });
  }

  #report(network: string, folder: string, leases: readonly JudgedLease[]): void {
    const count = (kind: LeaseVerdict["kind"]) =>
      leases.filter(({ verdict }) => verdict.kind === kind).length;
    const taken = count("taken");
    if (taken > 0)
      this.#log.info(
        `network ${network}: ${taken} addresses that host-local has given are taken over from ${folder}`,
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
      this.#logOnce(
        `${path} of a container that has ended cannot be removed: ${message}; Holdfast ignores it, host-local would not`,
      );
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

function keyOf(network: string, folder: string): string {
  return `${network}\n${folder}`;
}
