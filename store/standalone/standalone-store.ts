/*
 * store/standalone/: the Allocations port where this node's SQLite is the truth
 *
 *   standalone-store          the port; rehearsals: the same, rolled back
 *   attach, attach-view       one ADD in one transaction; reserve: the rows that it inserts
 *   reservations              addresses of owners without containers
 *   detach, release           one DEL; release by an operator
 *   apply-claim, apply-definition, apply-content   as kubectl would apply them
 *   claim-status              what claims are told, also about a network that was changed
 *   lease-store               host-local's leases, as records
 */

import type { AllocationFilter, ClaimFilter, PageRequest } from "../../allocations/filter.ts";
import type { AllocationView, Attachment, NetworkView, Page } from "../../allocations/records.ts";
import { isRepeat } from "../../ipam/decide-repeat.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { Owner } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Address, addressBytes } from "../../ipam/space/address.ts";
import { isBefore, type Stamp } from "../../ipam/stamp.ts";
import type { ObjectKind } from "../../kube/views/content-annotations.ts";
import { within } from "../../platform/time.ts";
import type { AttachOutcome, AttachWant, DetachOutcome, DetachWant, EndReason, Reservations } from "../allocations.ts";
import { leaseFindings } from "../host-local/report.ts";
import { HostLocalTakeover } from "../host-local/takeover.ts";
import { checkLedger } from "../journal/check.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { dropCooled, endRetentions, PRUNE_STEPS_MAX, prune } from "../journal/housekeeping.ts";
import { JournalAttachment } from "../journal/journal-attachment.ts";
import { JournalReader } from "../journal/journal-reader.ts";
import type { Ledger } from "../journal/ledger.ts";
import { definitionSources } from "../journal/load.ts";
import { ownerOf } from "../journal/rows.ts";
import { StateDirectory } from "../journal/state-directory.ts";
import { listAllocations, viewNetworks } from "../journal/views.ts";
import type {
  AppliedClaim,
  AppliedContent,
  AppliedDefinition,
  ApplyAction,
  ClaimManifest,
  ClaimOfVm,
  ContentObject,
  ContentView,
} from "../manifests.ts";
import type { NodeContext, StoreLog } from "../node-context.ts";
import type {
  ContentOfClaims,
  Manifests,
  ManifestWrites,
  NetworkNow,
  NodeStore,
  ReleaseOutcome,
  ReleaseWant,
} from "../node-store.ts";
import { applyClaim, deleteClaim, listClaims } from "./apply-claim.ts";
import { annotationsOf, applyContent, contentOf, contentViews, deleteContent } from "./apply-content.ts";
import { applyDefinition, deleteDefinition } from "./apply-definition.ts";
import { attach } from "./attach.ts";
import { ClaimStanding } from "./claim-status.ts";
import { detach, endById } from "./detach.ts";
import { SqliteLeaseStore } from "./lease-store.ts";
import { releaseAddress } from "./release.ts";
import { SqliteReservations } from "./reservations.ts";

/** `Allocations` over SQLite, with applied claims and definitions, attachments and history in the same transactions. */
export class SqliteStore extends JournalReader implements NodeStore, Manifests, ContentOfClaims {
  readonly hostLocal: HostLocalTakeover;
  readonly reservations: Reservations;
  readonly rehearsal: ManifestWrites;
  readonly #context: NodeContext;
  readonly #standing: ClaimStanding;

  constructor(directory: string, context: NodeContext, log: StoreLog) {
    super(new StateDirectory(directory, context, log));
    this.#context = context;
    const { clock, hostLocalDirs: dirs } = context;
    this.hostLocal = new HostLocalTakeover({
      leaseStore: new SqliteLeaseStore(this.directory),
      clock,
      dirs,
      pathExists: (path) => context.pathExists?.(path) ?? null,
      log,
    });
    this.#standing = new ClaimStanding(this.directory, (claims) =>
      log.info({ claims }, "claims stay behind their network, which was changed, or do no more: holdfast check"),
    );
    this.rehearsal = new Rehearsal(this.directory);
    this.reservations = new SqliteReservations(this.directory, this.hostLocal);
    this.directory.watchAttachments((network) => {
      if (network === null) this.hostLocal.storeOpened();
    });
  }

  open(): Promise<void> {
    return this.directory.open();
  }

  /** Puts a backup, or with null an empty database, in the place of one that was put aside, and serves again. */
  rebuild(backup: string | null, replace: boolean): Promise<void> {
    return this.directory.rebuild(backup, { replace });
  }

  close(): void {
    this.directory.close();
  }

  async attach(want: AttachWant): Promise<AttachOutcome> {
    const problem = this.directory.whyFull;
    if (problem !== null) return { kind: "refused", refusal: refuse("STORAGE_FAILED", { problem }) };
    try {
      const applied = this.appliedDefinition(want.network)?.definition;
      const takingOver = this.#takeOver(applied ?? want.definition, want);
      if (takingOver !== null) await this.#waitFor(takingOver, want);
      const work = (ledger: Ledger, transaction: Transaction) => attach(ledger, transaction, want);
      return await this.directory.write(work, { canRepeat: true });
    } catch (error) {
      // Thrown from inside the transaction, so that what was reserved for half of the attachment is rolled back.
      if (error instanceof RefusalError) return { kind: "refused", refusal: error.refusal };
      throw error;
    }
  }

  /** Within the ADD's deadline; the work goes on after it. */
  #waitFor(takingOver: Promise<void>, { network, deadlineMs }: AttachWant): Promise<void> {
    if (deadlineMs === undefined) return takingOver;
    const late = () => new RefusalError(this.hostLocal.whyWaiting(network));
    return within(this.directory.ledger.context.clock, takingOver, deadlineMs, late);
  }

  /** Records what host-local allocated first, except for a repeat, which allocates nothing. */
  #takeOver(definition: NetworkDefinition, want: AttachWant): Promise<void> | null {
    const unlessRepeated = (error: unknown) => {
      const { ledger } = this.directory;
      const space = ledger.networks.get(want.network);
      const former = space && ledger.sql.attachment.get(want.containerId, want.interface, space.id);
      if (former === undefined || !isRepeat(new JournalAttachment(former), want, { claimKnown: true })) throw error;
    };
    try {
      return this.hostLocal.ensure(definition, want.definition)?.catch(unlessRepeated) ?? null;
    } catch (error) {
      unlessRepeated(error);
      return null;
    }
  }

  async detach(want: DetachWant): Promise<DetachOutcome> {
    const outcome = await this.directory.write((ledger, transaction) => detach(ledger, transaction, want));
    // A spooled DEL is old, and host-local may have given the container another file since.
    if (want.reason === "DEL") this.hostLocal.forget(want);
    return outcome;
  }

  async list(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    return listAllocations(this.directory, filter, page);
  }

  async networks(): Promise<NetworkView[]> {
    return viewNetworks(this.directory.ledger);
  }

  async look(): Promise<void> {}

  space(network: string): NetworkNow | null {
    const { ledger } = this.directory;
    const { definition } = ledger.networks.get(network) ?? {};
    if (!definition) return null;
    const nowMs = ledger.context.clock.monotonicMs();
    const pools = ledger.networks.get(network)?.poolsOf(definition, nowMs) ?? [];
    for (const pool of pools) pool.expire(nowMs);
    return { definition, pools, nowMs };
  }

  async claims(filter: ClaimFilter, page: PageRequest): Promise<Page<ClaimManifest>> {
    return listClaims(this.directory, filter, page);
  }

  claimCount(): number {
    return this.directory.ledger.sql.claimCount.get()?.n ?? 0;
  }

  claimByUid(uid: string): ClaimOfVm | null {
    const row = this.directory.ledger.sql.vmOfClaim.get(uid);
    if (row === undefined) return null;
    const { namespace, name, vm_name: vmName, vm_uid: vmUid } = row;
    return { namespace, name, vm: { name: vmName, uid: vmUid }, annotations: annotationsOf(row) };
  }

  contentObject(kind: ObjectKind, namespace: string, name: string): ContentObject | null {
    const row = this.directory.ledger.sql.content.get(namespace, kind, name);
    return row === undefined ? null : contentOf(row);
  }

  contentViews(): Promise<ContentView[]> {
    return contentViews(this.directory);
  }

  manifest(kind: "IPAMClaim" | "NetworkAttachmentDefinition", namespace: string, name: string): object | null {
    const { sql } = this.directory.ledger;
    const row = kind === "IPAMClaim" ? sql.claim.get(namespace, name) : sql.definition.get(namespace, name);
    return row === undefined ? null : JSON.parse(row.manifest);
  }

  applyContent(content: AppliedContent): Promise<ApplyAction> {
    return this.directory.write((ledger) => applyContent(ledger, content));
  }

  deleteContent(kind: ObjectKind, namespace: string, name: string): Promise<boolean> {
    return this.directory.write((ledger) => deleteContent(ledger, { kind, namespace, name }));
  }

  applyClaim(claim: AppliedClaim): Promise<ApplyAction> {
    return this.directory.write((ledger, transaction) => applyClaim(ledger, transaction, claim));
  }

  deleteClaim(namespace: string, name: string): Promise<ReturnType<typeof deleteClaim>> {
    return this.directory.write((ledger, transaction) => deleteClaim(ledger, transaction, namespace, name));
  }

  async applyDefinition(definition: AppliedDefinition): Promise<ApplyAction> {
    const action = await this.directory.write((ledger, transaction) =>
      applyDefinition(ledger, transaction, definition),
    );
    // Housekeeping does what cannot be done now.
    void this.#standing.follow().catch(() => {});
    return action;
  }

  deleteDefinition(namespace: string, name: string): Promise<boolean> {
    return this.directory.write((ledger, transaction) => deleteDefinition(ledger, transaction, namespace, name));
  }

  release(which: ReleaseWant): Promise<ReleaseOutcome> {
    if (which.dryRun) return new Rehearsal(this.directory).release(which);
    return this.directory.write((ledger, transaction) => releaseAddress(ledger, transaction, which));
  }

  async check(): Promise<Finding[]> {
    return [...(await checkLedger(this.directory)), ...(await leaseFindings(this.hostLocal))];
  }

  async holderOf(network: string, address: Address): Promise<Owner | null> {
    const ledger = this.directory.ledger;
    const space = ledger.networks.get(network);
    const row = space && ledger.sql.allocation.get(space.id, addressBytes(address));
    return row?.state === "Bound" ? ownerOf(row) : null;
  }

  endAttachment(attachment: Attachment, reason: EndReason, olderThan?: Stamp): Promise<boolean> {
    if (olderThan && !isBefore(attachment.stamp, olderThan, this.#context.bootId)) return Promise.resolve(false);
    const which = { id: attachment.id, boot_us: attachment.stamp.us };
    return this.directory.write((ledger, transaction) => endById(ledger, transaction, which, reason));
  }

  appliedDefinition(network: string): { definition: NetworkDefinition; by: string } | undefined {
    const space = this.directory.ledger.networks.get(network);
    if (!space || space.appliedBy === null || space.definition === null) return undefined;
    return { definition: space.definition, by: space.appliedBy };
  }

  definitionSources(): ReturnType<typeof definitionSources> {
    return definitionSources(this.directory.ledger);
  }

  definition(network: string): NetworkDefinition | undefined {
    return this.directory.ledger.networks.get(network)?.definition ?? undefined;
  }

  /** Prunes cooled-down rows, DELs and history in small steps. Checks whether a full disk has space again. */
  async housekeeping(nowUs: number): Promise<void> {
    this.directory.tryRoom();
    if (this.directory.status.kind !== "ready") return;
    while (await this.directory.write(endRetentions));
    for (let after: number | null = 0; after !== null; ) {
      const from: number = after;
      after = await this.directory.write((ledger, transaction) => dropCooled(ledger, transaction, from));
    }
    for (let step = 0; step < PRUNE_STEPS_MAX; step += 1) {
      if (!(await this.directory.write((ledger) => prune(ledger, nowUs)))) break;
    }
    await this.hostLocal.follow();
    await this.#standing.follow();
  }
}

class RollBack extends Error {}

/** What would become of objects: everything is carried out, and rolled back. */
class Rehearsal implements ManifestWrites {
  readonly #directory: StateDirectory;

  constructor(directory: StateDirectory) {
    this.#directory = directory;
  }

  async #run<T>(work: (ledger: Ledger, transaction: Transaction) => T): Promise<T> {
    const done: { value: T }[] = [];
    try {
      return await this.#directory.write((ledger, transaction) => {
        done.push({ value: work(ledger, transaction) });
        throw new RollBack();
      });
    } catch (error) {
      const [one] = done;
      if (error instanceof RollBack && one !== undefined) return one.value;
      throw error;
    }
  }

  applyClaim(claim: AppliedClaim): Promise<ApplyAction> {
    return this.#run((ledger, transaction) => applyClaim(ledger, transaction, claim));
  }

  deleteClaim(namespace: string, name: string): Promise<ReturnType<typeof deleteClaim>> {
    return this.#run((ledger, transaction) => deleteClaim(ledger, transaction, namespace, name));
  }

  applyDefinition(definition: AppliedDefinition): Promise<ApplyAction> {
    return this.#run((ledger, transaction) => applyDefinition(ledger, transaction, definition));
  }

  deleteDefinition(namespace: string, name: string): Promise<boolean> {
    return this.#run((ledger, transaction) => deleteDefinition(ledger, transaction, namespace, name));
  }

  release(which: ReleaseWant): Promise<ReleaseOutcome> {
    return this.#run((ledger, transaction) => releaseAddress(ledger, transaction, which));
  }

  applyContent(content: AppliedContent): Promise<ApplyAction> {
    return this.#run((ledger) => applyContent(ledger, content));
  }

  deleteContent(kind: ObjectKind, namespace: string, name: string): Promise<boolean> {
    return this.#run((ledger) => deleteContent(ledger, { kind, namespace, name }));
  }
}
