import { chmodSync, existsSync, renameSync, rmSync, statSync } from "node:fs";
import type Database from "better-sqlite3";
import type { Address } from "../../ipam/address.ts";
import { addressBytes } from "../../ipam/address.ts";
import type { NetworkDefinition } from "../../ipam/network-definition.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type {
  AllocationFilter,
  Allocations,
  AttachOutcome,
  AttachWant,
  DetachOutcome,
  DetachWant,
  EndReason,
  PageRequest,
} from "../allocations.ts";
import { StorageAway, type StorageFault } from "../allocations.ts";
import type { AppliedClaim, AppliedDefinition, ApplyAction, ClaimView } from "../manifests.ts";
import type { NodeContext } from "../node-context.ts";
import type { Owner } from "../owner.ts";
import type { AllocationView, Attachment, Finding, HistoryView, NetworkView, Page } from "../records.ts";
import { isBefore, type Stamp } from "../stamp.ts";
import { applyClaim, deleteClaim, viewClaim } from "./apply-claim.ts";
import { applyDefinition, deleteDefinition } from "./apply-definition.ts";
import { attach } from "./attach.ts";
import { checkLedger } from "./check.ts";
import { closeDatabase, openDatabase, RebuildRequiredError } from "./database-file.ts";
import { detach, endById } from "./detach.ts";
import { DiskReserve, isDiskFull } from "./disk-reserve.ts";
import { GroupCommit, type Transaction } from "./group-commit.ts";
import { dropRested, endFormerBoots, prune } from "./housekeeping.ts";
import { Ledger } from "./ledger.ts";
import { loadNetworks } from "./load.ts";
import { rebuildFrom } from "./rebuild.ts";
import { type ReleaseOutcome, releaseAddress } from "./release.ts";
import { attachmentOf, ownerOf } from "./rows.ts";
import { listAllocations, viewHistory, viewNetworks } from "./views.ts";

/** Pause before a database that could not be reopened is tried again, ms. */
const REOPEN_PAUSE_MS = 1_000;

export type StoreStatus =
  | { readonly kind: "opening" | "ready" | "closed" }
  /** Writes fail or the disk is full. Mends itself when the disk does. */
  | { readonly kind: "faulted"; readonly reason: string }
  /** The database was put aside. Waits for an operator. */
  | { readonly kind: "rebuild-required"; readonly reason: string };

export interface StoreLog {
  info(message: string): void;
  error(message: string): void;
}

/**
 * The durable truth of one node without Kubernetes: `Allocations` over SQLite, with the claims and definitions applied
 * to it and the journal of attachments and history in the same file and the same transactions.
 */
export class SqliteStore implements Allocations {
  readonly #folder: string;
  readonly #context: NodeContext;
  readonly #log: StoreLog;
  readonly #reserve: DiskReserve;
  #status: StoreStatus = { kind: "opening" };
  #ledger: Ledger | null = null;
  #commits: GroupCommit | null = null;
  #reopenTimer: NodeJS.Timeout | null = null;

  constructor(folder: string, context: NodeContext, log: StoreLog) {
    this.#folder = folder;
    this.#context = context;
    this.#log = log;
    this.#reserve = new DiskReserve(folder);
  }

  get status(): StoreStatus {
    if (this.#status.kind === "ready" && !this.#reserve.kept) {
      return { kind: "faulted", reason: `the disk under ${this.#folder} is full` };
    }
    return this.#status;
  }

  /**
   * Opens the database, loads what memory needs and ends the attachments of earlier boots; nobody reads or writes before all
   * of that is done. Throws when another daemon has the folder or it cannot be used at all; nothing is left open then.
   */
  async open(): Promise<void> {
    let db: Database.Database;
    try {
      db = this.#openDatabase();
    } catch (error) {
      if (!(error instanceof RebuildRequiredError)) throw error;
      const reason = `${error.message}; ADD is refused until it is rebuilt: holdfast rebuild --from BACKUP, or --empty`;
      this.#status = { kind: "rebuild-required", reason };
      this.#log.error(reason);
      return;
    }
    try {
      const ledger = new Ledger(db, this.#context);
      const commits = new GroupCommit(db, (fault) => this.#onFault(fault));
      await loadNetworks(ledger, (message) => this.#log.error(message));
      await this.#endFormerBoots(ledger, commits);
      if (this.#status.kind === "closed") throw new StorageAway(this.#unavailable());
      this.#ledger = ledger;
      this.#commits = commits;
      this.#status = { kind: "ready" };
    } catch (error) {
      this.#close(db);
      throw error;
    }
  }

  /** A disk found full gets the room of the reserve, so that DELs are served there too. */
  #openDatabase(): Database.Database {
    try {
      return openDatabase(this.#folder);
    } catch (error) {
      if (!isDiskFull(error) || !this.#reserve.kept) throw error;
      this.#reserve.spend();
      return openDatabase(this.#folder);
    }
  }

  async #endFormerBoots(ledger: Ledger, commits: GroupCommit): Promise<void> {
    let ended = 0;
    for (let after: number | null = 0; after !== null; ) {
      const from: number = after;
      const step = await commits.submit((transaction) => endFormerBoots(ledger, transaction, from));
      ended += step.ended;
      after = step.next;
    }
    if (ended > 0)
      this.#log.info(`the machine was started anew: ${ended} attachments of earlier boots ended`);
  }

  attach(want: AttachWant): Promise<AttachOutcome> {
    if (!this.#reserve.kept) {
      const problem = `the disk under ${this.#folder} is full`;
      return Promise.resolve({ kind: "refused", refusal: refuse("STORAGE_FAILED", { problem }) });
    }
    return this.#write((ledger, transaction) => attach(ledger, transaction, want)).catch((error: unknown) => {
      // Thrown from inside the transaction, so that what was reserved for half of the attachment is rolled back.
      if (error instanceof RefusalError) return { kind: "refused", refusal: error.refusal };
      throw error;
    });
  }

  detach(want: DetachWant): Promise<DetachOutcome> {
    return this.#write((ledger, transaction) => detach(ledger, transaction, want));
  }

  async list(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    return listAllocations(this.#open(), filter, page);
  }

  networks(): NetworkView[] {
    return viewNetworks(this.#open());
  }

  history(which: { network?: string; address?: Address; limit: number; before?: number }): HistoryView[] {
    const { sql } = this.#open();
    const network = which.network ?? null;
    const before = which.before ?? Number.MAX_SAFE_INTEGER;
    const rows =
      which.address === undefined
        ? sql.recentHistory.all(network, network, before, which.limit)
        : sql.historyOfAddress.all(addressBytes(which.address), network, network, before, which.limit);
    return rows.map(viewHistory);
  }

  claims(): ClaimView[] {
    return this.#open().sql.claims.all().map(viewClaim);
  }

  applyClaim(claim: AppliedClaim): Promise<ApplyAction> {
    return this.#write((ledger, transaction) => applyClaim(ledger, transaction, claim));
  }

  deleteClaim(namespace: string, name: string): Promise<ReturnType<typeof deleteClaim>> {
    return this.#write((ledger, transaction) => deleteClaim(ledger, transaction, namespace, name));
  }

  applyDefinition(definition: AppliedDefinition): Promise<ApplyAction> {
    return this.#write((ledger, transaction) => applyDefinition(ledger, transaction, definition));
  }

  deleteDefinition(namespace: string, name: string): Promise<boolean> {
    return this.#write((ledger, transaction) => deleteDefinition(ledger, transaction, namespace, name));
  }

  release(which: { network: string; address: Address; force: boolean }): Promise<ReleaseOutcome> {
    return this.#write((ledger, transaction) => releaseAddress(ledger, transaction, which));
  }

  check(): Finding[] {
    return checkLedger(this.#open());
  }

  /** Who an address is allocated to; null when to nobody. */
  async holderOf(network: string, address: Address): Promise<Owner | null> {
    const ledger = this.#open();
    const space = ledger.networks.get(network);
    const row = space && ledger.sql.allocation.get(space.id, addressBytes(address));
    return row?.state === "Bound" ? ownerOf(row) : null;
  }

  /** The attachment of a container's interface on a network; undefined when there is none. */
  attachment(network: string, containerId: string, interfaceName: string): Attachment | undefined {
    const ledger = this.#open();
    const space = ledger.networks.get(network);
    const row = space && ledger.sql.attachment.get(containerId, interfaceName, space.id);
    return row && attachmentOf(row, network);
  }

  /** Attachments in order of id, a page at a time. */
  attachmentsAfter(id: number, limit: number): Attachment[] {
    const ledger = this.#open();
    return ledger.sql.attachmentsAfter
      .all(id, limit)
      .map((row) => attachmentOf(row, ledger.networkById(row.network_id).name));
  }

  attachmentsOfNetwork(network: string): Attachment[] {
    const ledger = this.#open();
    const space = ledger.networks.get(network);
    return space
      ? ledger.sql.attachmentsOfNetwork.all(space.id).map((row) => attachmentOf(row, network))
      : [];
  }

  /** Ends an attachment that was looked at before, unless it has been asked for again since. */
  endAttachment(attachment: Attachment, reason: EndReason, olderThan?: Stamp): Promise<boolean> {
    if (olderThan && !isBefore(attachment.stamp, olderThan, this.#context.bootId))
      return Promise.resolve(false);
    const which = { id: attachment.id, boot_us: attachment.stamp.us };
    return this.#write((ledger, transaction) => endById(ledger, transaction, which, reason));
  }

  /** The applied definition of a network and the manifest it is in; undefined when the runtime's configuration counts. */
  appliedDefinition(network: string): { definition: NetworkDefinition; by: string } | undefined {
    const space = this.#open().networks.get(network);
    if (!space || space.appliedBy === null || space.definition === null) return undefined;
    return { definition: space.definition, by: space.appliedBy };
  }

  /** What defines a network now; undefined when nobody does. */
  definition(network: string): NetworkDefinition | undefined {
    return this.#open().networks.get(network)?.definition ?? undefined;
  }

  /** Rows whose rest is over, old tombstones and old history go, in small steps. Also tries whether a full disk has room again. */
  async housekeeping(nowUs: number): Promise<void> {
    if (this.#status.kind !== "ready") return;
    if (!this.#reserve.kept && this.#reserve.restore())
      this.#log.info("the disk has room again; ADD is served");
    for (let after: number | null = 0; after !== null; ) {
      const from: number = after;
      after = await this.#write((ledger) => dropRested(ledger, from));
    }
    await this.#write((ledger) => prune(ledger, nowUs));
  }

  /** Writes a consistent copy while requests go on. Refuses to replace a file. Resolves with its size in bytes. */
  async backup(path: string): Promise<number> {
    const ledger = this.#open();
    if (existsSync(path))
      throw new RefusalError(
        refuse("REQUEST_INVALID", { key: "path", value: path, remedy: "that file exists; name a new one" }),
      );
    const partial = `${path}.partial`;
    rmSync(partial, { force: true });
    try {
      await ledger.db.backup(partial);
      chmodSync(partial, 0o600);
      renameSync(partial, path);
    } catch (error) {
      const remedy = `the daemon cannot write there: ${(error as Error).message}`;
      throw new RefusalError(refuse("REQUEST_INVALID", { key: "path", value: path, remedy }));
    } finally {
      rmSync(partial, { force: true });
    }
    return statSync(path).size;
  }

  /** Puts a backup, or with null an empty database, in the place of one that was put aside, and serves again. */
  async rebuild(backup: string | null): Promise<void> {
    if (this.#status.kind !== "rebuild-required") {
      throw new RefusalError(
        refuse("REQUEST_INVALID", {
          key: "rebuild",
          value: this.#status.kind,
          remedy: "the state database is in use and sound; only one that was put aside is rebuilt",
        }),
      );
    }
    try {
      rebuildFrom(this.#folder, backup);
    } catch (error) {
      throw new RefusalError(
        refuse("REQUEST_INVALID", { key: "from", value: String(backup), remedy: (error as Error).message }),
      );
    }
    this.#status = { kind: "opening" };
    if (!(await this.#reopen())) throw new StorageAway(this.#unavailable());
  }

  close(): void {
    if (this.#reopenTimer) clearTimeout(this.#reopenTimer);
    this.#status = { kind: "closed" };
    this.#forgetDatabase();
  }

  #open(): Ledger {
    if (!this.#ledger) throw new StorageAway(this.#unavailable());
    return this.#ledger;
  }

  #unavailable(): string {
    return "reason" in this.#status ? this.#status.reason : `the state database is ${this.#status.kind}`;
  }

  #write<T>(work: (ledger: Ledger, transaction: Transaction) => T): Promise<T> {
    const ledger = this.#ledger;
    if (!ledger || !this.#commits) return Promise.reject(new StorageAway(this.#unavailable()));
    return this.#commits.submit((transaction) => work(ledger, transaction));
  }

  /** After a failed write nothing in memory and nothing cached by SQLite is believed: close, reopen, check, load. */
  #onFault(fault: StorageFault): void {
    this.#log.error(fault.message);
    if (isDiskFull(fault.cause)) this.#reserve.spend();
    if (!this.#ledger) return; // While it is being opened: whoever opens it learns it from the write.
    this.#status = { kind: "faulted", reason: fault.message };
    this.#forgetDatabase();
    void this.#reopen();
  }

  /** Opens again, and as often as it takes. Returns whether the first attempt went well. */
  async #reopen(): Promise<boolean> {
    try {
      await this.open();
      if (this.#status.kind === "ready") this.#log.info("the state database was reopened and checked");
      return this.#status.kind === "ready";
    } catch (error) {
      if (this.#status.kind === "closed") return false;
      this.#status = { kind: "faulted", reason: (error as Error).message };
      this.#log.error(`the state database cannot be reopened: ${(error as Error).message}; trying again`);
      this.#reopenTimer = setTimeout(() => void this.#reopen(), REOPEN_PAUSE_MS);
      return false;
    }
  }

  #forgetDatabase(): void {
    const db = this.#ledger?.db;
    this.#ledger = null;
    this.#commits = null;
    if (db) this.#close(db);
  }

  #close(db: Database.Database): void {
    try {
      closeDatabase(this.#folder, db);
    } catch (error) {
      this.#log.error(`closing the state database: ${(error as Error).message}`);
    }
  }
}
