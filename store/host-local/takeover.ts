import { HOST_LOCAL_DATA_DIR } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { SaidOnce } from "../../platform/warn-once.ts";
import { dataFolder, OwnMounts, refuseHidden, unreadable } from "./data-dir.ts";
import { byHolder, describeLease, type JudgedLease } from "./judged-lease.ts";
import type { LeaseBook, LeaseVerdict } from "./lease-book.ts";
import { folderVersion, type Lease, LeaseProblem, readLeases, removeLease } from "./lease-files.ts";

/** The kernel stamps folders with a clock that ticks every 1 to 10 ms: within one tick two changes look like one. */
const TICK_MS_MAX = 50;

/** Where host-local may have kept addresses on this node. */
export interface HostLocalDirs {
  /** Where no `dataDir` is given. */
  readonly standard: string;
  /** The only ones that are read; null: any that a configuration names. */
  readonly allowed: readonly string[] | null;
}

const HOST_LOCAL_DIRS: HostLocalDirs = { standard: HOST_LOCAL_DATA_DIR, allowed: null };

/** One folder of one network, as it was last read. */
interface Reading {
  readonly version: string;
  /** When this version was first seen, ms of the monotonic clock. */
  readonly firstSeenMs: number;
  /** It was read once more when every change of the same tick had to be visible. */
  readonly settled: boolean;
  readonly fingerprint: string;
  /** What has ended since the version before was ended here too. */
  readonly followed: boolean;
  readonly leases: readonly JudgedLease[];
  /** Those of addresses that somebody else has. */
  readonly conflicts: readonly Lease[];
}

/**
 * What host-local gave before a network became ours stays with its containers. Before an address of a network is given,
 * every file of host-local's folder is recorded as allocated to its container; afterwards the folder is followed, because
 * runtimes end old containers with the configuration they were started with, and host-local then removes the file.
 *
 *   file     container here        verdict
 *   there    has the address       good
 *   there    never heard of        recorded, when nobody else has the address; else reported
 *   there    has ended             host-local was not told: the file is removed, as its own DEL would have done
 *   gone     as it was taken over  host-local's DEL ran: ended here too
 *   gone     attached by us since  good: the file is not needed any more
 *   folder gone or unreadable      no evidence of anything: nothing ends; unreadable, nothing is given either
 *   dataDir not to be seen         the same as unreadable, unless it was read before (data-dir.ts)
 * See docs/decisions/0029.
 */
export class HostLocalTakeover {
  readonly #book: LeaseBook;
  readonly #clock: Clock;
  readonly #dirs: HostLocalDirs;
  readonly #log: Pick<Log, "info" | "error">;
  readonly #mounts = new OwnMounts();
  readonly #readings = new Map<string, Reading>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #next = new Map<string, Promise<void>>();
  readonly #said = new SaidOnce();
  /** Counts how often the book was opened: what was recorded in the one before may not be in this one. */
  #bookOpened = 0;
  /** What ADDs were told of networks that nothing else defines. */
  readonly #definitions = new Map<string, NetworkDefinition>();

  constructor(parts: {
    readonly book: LeaseBook;
    readonly clock: Clock;
    readonly dirs: HostLocalDirs | undefined;
    readonly log: Pick<Log, "info" | "error">;
  }) {
    this.#book = parts.book;
    this.#clock = parts.clock;
    this.#dirs = parts.dirs ?? HOST_LOCAL_DIRS;
    this.#log = parts.log;
  }

  /** The book may be another one now, for example from a backup: every folder is read again before an address of its network is given. */
  bookOpened(): void {
    this.#bookOpened += 1;
    this.#readings.clear();
  }

  /**
   * Everything that host-local has given on a network is recorded when this resolves; null, as nearly always: it is now.
   * `definition` is the one that counts, `others` may name further folders. Throws, or rejects with, RefusalError.
   */
  ensure(definition: NetworkDefinition, ...others: readonly NetworkDefinition[]): Promise<void> | null {
    if (definition.rangeSets.length === 0) return null;
    this.#definitions.set(definition.name, definition);
    const folders = new Set([this.#folderOf(definition)]);
    for (const other of others) if (other !== definition) folders.add(this.#folderOf(other));
    const stale: string[] = [];
    for (const folder of folders) if (!this.#isCurrent(definition, folder, false)) stale.push(folder);
    if (stale.length === 0) return null;
    return Promise.all(stale.map((folder) => this.#bring(definition, folder, false))).then(() => {});
  }

  /** Looks at every folder that was read before. One network's trouble is its own. */
  async follow(): Promise<void> {
    for (const definition of this.definitions) {
      const { name } = definition;
      try {
        const read = this.#book
          .folders()
          .flatMap(({ network, folder }) => (network === name ? [folder] : []));
        const folders = this.#book.hasForgotten(name) ? [this.#folderOf(definition)] : read;
        for (const folder of folders)
          if (!this.#isCurrent(definition, folder, true)) await this.#bring(definition, folder, true);
      } catch (error) {
        if (!(error instanceof RefusalError)) throw error;
        this.#sayOnce(error.refusal.message);
      }
    }
  }

  /** A container was deleted through us: host-local, which was not asked, would keep its files for ever. Never throws. */
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

  /** The leases of a network as they are now, and what taking them over would do. Changes nothing. Throws RefusalError. */
  async look(definition: NetworkDefinition, dataDir?: string): Promise<JudgedLease[]> {
    const judged: JudgedLease[] = [];
    for (const folder of this.foldersOf(definition, dataDir)) {
      const leases = await this.#attempt(definition.name, async () =>
        folderVersion(folder) === null ? [] : readLeases(this.#clock, folder),
      );
      for (const lease of leases) judged.push({ lease, verdict: await this.#book.judge(definition, lease) });
    }
    return judged;
  }

  /** The same of a network that nothing defines. */
  lookAt(network: string, folder: string): Promise<JudgedLease[]> {
    return this.#attempt(network, async () => {
      const leases = folderVersion(folder) === null ? [] : await readLeases(this.#clock, folder);
      return leases.map((lease) => ({ lease, verdict: { kind: "undefined" } }));
    });
  }

  /** Reads a network's folders now, whether they have changed or not. Throws RefusalError. */
  async takeOver(definition: NetworkDefinition, dataDir?: string): Promise<JudgedLease[]> {
    const folders = this.foldersOf(definition, dataDir);
    for (const folder of folders) await this.#bring(definition, folder, true);
    return folders.flatMap((folder) => this.#readings.get(keyOf(definition.name, folder))?.leases ?? []);
  }

  /** Where host-local's addresses of a network are, or may be. Throws RefusalError. */
  foldersOf(definition: NetworkDefinition, dataDir?: string): string[] {
    const before = this.#book.folders().filter(({ network }) => network === definition.name);
    const named = this.#folderOf(dataDir === undefined ? definition : { name: definition.name, dataDir });
    return [...new Set([named, ...before.map(({ folder }) => folder)])];
  }

  /** Networks that something defines, or that an ADD did. */
  get definitions(): readonly NetworkDefinition[] {
    const known = new Map(this.#definitions);
    for (const one of this.#book.definitions()) known.set(one.name, one);
    return [...known.values()].filter(({ rangeSets }) => rangeSets.length > 0);
  }

  /** Folders of a network that are gone although containers were taken over from them and have not ended. */
  lostFolders(network: string): string[] {
    return this.#book
      .folders()
      .filter((one) => one.network === network && folderVersion(one.folder) === null)
      .filter(({ folder }) => this.#book.isInUse(network, folder))
      .map(({ folder }) => folder);
  }

  /** Where every network without a `dataDir` has its folder. */
  get standardDir(): string {
    return this.#dirs.standard;
  }

  /** Throws RefusalError when this process cannot see a `dataDir` in which a network that nothing defines may have addresses. */
  refuseHidden(network: string, dataDir: string): void {
    refuseHidden({ network, dataDir }, this.#mounts, () => false);
  }

  #folderOf({ name: network, dataDir }: Pick<NetworkDefinition, "name" | "dataDir">): string {
    return dataFolder({ network, dataDir }, this.#dirs, this.#mounts, (folder) =>
      this.#book.folders().some((one) => one.network === network && one.folder === folder),
    );
  }

  /** `following`: also what has ended was ended here. */
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
        this.#sayOnce(
          `network ${definition.name}: there is no ${folder}, so no address of host-local's is taken over`,
          "info",
        );
      return true;
    }
    if (reading === undefined || !reading.settled || (following && !reading.followed)) return false;
    if (reading.version !== version || reading.fingerprint !== definition.fingerprint) return false;
    // Whoever had an address when it was read may have released it, and the file still says that it is in use.
    return !reading.conflicts.some((lease) => this.#book.mayBeFree(definition, lease));
  }

  /** A reading that begins from now on: those who ask while one is under way share the next. */
  async #bring(definition: NetworkDefinition, folder: string, following: boolean): Promise<void> {
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
      await this.#bring(definition, folder, following);
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
    const bookOpened = this.#bookOpened;
    const startedMs = this.#clock.monotonicMs();
    const version = folderVersion(folder);
    if (version === null) return;
    const before = this.#readings.get(key);
    // Within a tick of the clock a file may have become another one that looks the same.
    const found = await readLeases(
      this.#clock,
      folder,
      before?.settled ? before.leases.map(({ lease }) => lease) : [],
    );
    if (following) {
      const present = new Map(found.map((lease) => [lease.path, lease]));
      for (const ended of await this.#book.settle(network, folder, present)) this.#remove(ended);
    }
    const leases: JudgedLease[] = [];
    for (const [holder, ofHolder] of byHolder(found)) {
      const verdicts = await this.#book.take(definition, holder, ofHolder);
      for (const [at, lease] of ofHolder.entries())
        leases.push({ lease, verdict: verdicts[at] as LeaseVerdict });
    }
    await this.#book.remember(network, folder);
    if (bookOpened !== this.#bookOpened) return this.#read(definition, folder, following);
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
        if (verdict.byItsPod) continue;
        this.#sayOnce(
          `network ${network}: ${lease.path} says that ${describeLease(lease)} has the address, which is held by ${describeOwner(verdict.holder)}`,
        );
      } else if (verdict.kind === "outside") {
        this.#sayOnce(`network ${network}: ${lease.path} is in no subnet of the network and not taken over`);
      }
    }
  }

  #remove({ path, fileId }: { readonly path: string; readonly fileId: string }): void {
    try {
      removeLease(path, fileId);
    } catch (error) {
      const { message } = error as Error;
      this.#sayOnce(
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

  #sayOnce(message: string, level: "info" | "error" = "error"): void {
    if (this.#said.isNews(message)) this.#log[level](message);
  }
}

function keyOf(network: string, folder: string): string {
  return `${network}\n${folder}`;
}
