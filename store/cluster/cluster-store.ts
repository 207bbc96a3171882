import { AllocationClient } from "../../allocations/allocation-client.ts";
import type { AllocationFilter, ClaimFilter, PageRequest } from "../../allocations/filter.ts";
import { fromAllocationOwner } from "../../allocations/owners.ts";
import { Picture } from "../../allocations/picture.ts";
import type { AllocationView, Attachment, Page, PodIdentity } from "../../allocations/records.ts";
import { type ClusterDefinitions, listFromApi } from "../../allocations/views.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { Owner } from "../../ipam/owner.ts";
import { refuse } from "../../ipam/refusals.ts";
import { type Address, sameAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { isBefore, type Stamp } from "../../ipam/stamp.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import type { AttachOutcome, AttachWant, DetachOutcome, DetachWant, EndReason } from "../allocations.ts";
import { BOOT } from "../journal/former-boots.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { PRUNE_STEPS_MAX, prune } from "../journal/housekeeping.ts";
import { JournalReader } from "../journal/journal-reader.ts";
import type { Ledger } from "../journal/ledger.ts";
import { attachmentOf } from "../journal/rows.ts";
import { StateDirectory } from "../journal/state-directory.ts";
import { abandon, addKey, endRow, journalEnd, rememberDel } from "../journal/uses.ts";
import type { ClaimManifest } from "../manifests.ts";
import type { ClusterStoreLog, NodeContext } from "../node-context.ts";
import type { LocalAnswers, NetworkNow, NodeStore, ReleaseOutcome, ReleaseWant } from "../node-store.ts";
import { Agreement } from "./agreement/agreement.ts";
import { whyList } from "./agreement/own-objects.ts";
import { READ_MS_MAX } from "./agreement/written-last.ts";
import { answerFromJournal, attachInKubernetes } from "./attach.ts";
import { checkNode } from "./checks/check-node.ts";
import type { Continuity } from "./contact/continuity.ts";
import { listClaims, NetworkLooks } from "./network-looks.ts";
import type { AttachParts } from "./parts/attach-parts.ts";
import type { ClaimAccess } from "./parts/claim-access.ts";
import { ReadHoldings } from "./parts/holdings.ts";
import { attachKey, KeyedMutex, STILL_UNDER_WAY } from "./parts/keyed-mutex.ts";
import { releaseInKubernetes } from "./release.ts";
import { KubernetesReservations } from "./reservations.ts";

/** Limit of a CHECK's reads, ms: afterwards the journal answers it, because a runtime has many containers to check. */
const CHECK_MS_MAX = 2_000;

export interface KubernetesStoreOptions {
  readonly directory: string;
  /** Its clock is also that of `api` and `continuity`: deadlines are instants of it. */
  readonly context: NodeContext;
  readonly log: ClusterStoreLog;
  readonly api: KubeApi;
  readonly claimAccess: ClaimAccess;
  readonly continuity: Continuity;
  readonly definitions: ClusterDefinitions;
  readonly addDeadlineMs: number;
  /** The API server's clock, ms since 1970. */
  serverMs(): number;
  /** Reads the IPNetwork of a network, and passes what it publishes to the picture. Throws ApiAway. */
  readNetwork(network: string, deadlineMs: number): Promise<void>;
  /** Reads the API server's present version. Throws ApiAway. */
  probe(): Promise<unknown>;
  warnPod(pod: PodIdentity | null, reason: string, message: string): void;
}

/** An IPAllocation for each address, whose creation is the commit. The journal is no authority over an address. */
export class KubernetesStore extends JournalReader implements NodeStore, LocalAnswers {
  readonly picture: Picture;
  /** Its directories are not read in a cluster: docs/decisions/0029. */
  readonly hostLocal = null;
  readonly reservations: KubernetesReservations;
  readonly #options: KubernetesStoreOptions;
  readonly #clock: NodeContext["clock"];
  readonly #parts: AttachParts;
  readonly #mutex: KeyedMutex;
  /** ADDs of this process that have not ended. */
  readonly #underWay = new Set<string>();
  readonly #reads: AllocationClient;
  readonly agreement: Agreement;
  readonly #networks: NetworkLooks;

  constructor(options: KubernetesStoreOptions) {
    const { api, context, log } = options;
    const directory = new StateDirectory(options.directory, context, log, { journalOnly: true });
    super(directory);
    this.#options = options;
    this.#clock = context.clock;
    this.#mutex = new KeyedMutex(context.clock);
    const { serverMs, readNetwork: read } = options;
    this.picture = new Picture({ api, startSeed: context.node, serverMs, read });
    this.#networks = new NetworkLooks(api, this.picture, options.definitions);
    this.#reads = new AllocationClient(api, "housekeeping");
    this.#parts = {
      directory,
      context,
      client: new AllocationClient(api, "add", options.continuity),
      continuity: options.continuity,
      picture: this.picture,
      claimAccess: options.claimAccess,
      pending: () => this.agreement.over.wake(),
      letGo: (of) => this.agreement.over.drain(of),
    };
    this.agreement = new Agreement({
      ...{ api, log, attach: this.#parts, reads: this.#reads, underWay: this.#underWay },
      releases: new AllocationClient(api, "del", options.continuity),
      definitionOf: (network) => options.definitions.definitionOf(network),
      probe: () => options.probe(),
      warnPod: (...what) => options.warnPod(...what),
    });
    const shared = { api, mutex: this.#mutex, msMax: options.addDeadlineMs };
    const holdings = new ReadHoldings(api);
    this.reservations = new KubernetesReservations({ ...this.#parts, ...shared, holdings, waits: true });
  }

  /** Abandons what ADDs of the process before had reserved: if the journal is lost later, the API knows the rest. */
  async open(): Promise<void> {
    await this.directory.open();
    if (this.directory.status.kind !== "ready") return;
    await this.directory.write((ledger) => {
      for (const row of ledger.sql.taking.all()) abandon(ledger, row);
    });
  }

  async close(): Promise<void> {
    await this.agreement.stop();
    this.directory.close();
  }

  async rebuild(backup: string | null, replace: boolean): Promise<void> {
    await this.directory.rebuild(backup, { replace });
  }

  get pendingCount(): number {
    return this.directory.status.kind === "ready" ? this.agreement.over.pending().count : 0;
  }

  get lostCount(): number {
    return this.directory.status.kind === "ready" ? (this.directory.ledger.sql.lostCount.get()?.n ?? 0) : 0;
  }

  async attach(want: AttachWant): Promise<AttachOutcome> {
    const problem = this.directory.whyFull;
    if (problem !== null) return { kind: "refused", refusal: refuse("STORAGE_FAILED", { problem }) };
    const deadlineMs = Math.min(
      want.deadlineMs ?? Number.POSITIVE_INFINITY,
      this.#clock.monotonicMs() + this.#options.addDeadlineMs,
    );
    const adding = addKey(want);
    const leave = await this.#mutex.enterBoth(`container ${adding}`, attachKey(want), deadlineMs);
    if (leave === null) return { kind: "refused", refusal: refuse("API_AWAY", { problem: STILL_UNDER_WAY }) };
    try {
      this.#underWay.add(adding);
      return await attachInKubernetes(this.#parts, want, deadlineMs);
    } finally {
      this.#underWay.delete(adding);
      leave();
    }
  }

  async detach(want: DetachWant): Promise<DetachOutcome> {
    const outcome = await this.directory.write((ledger, transaction) => detach(ledger, transaction, want));
    this.agreement.over.wake();
    return outcome;
  }

  answerLocally(want: AttachWant): Promise<AttachOutcome | null> {
    return answerFromJournal(this.#parts, want);
  }

  async endAttachment(attachment: Attachment, reason: EndReason, olderThan?: Stamp): Promise<boolean> {
    if (olderThan && !isBefore(attachment.stamp, olderThan, this.#options.context.bootId)) return false;
    const ended = await this.directory.write((ledger) => journalEnd(ledger, attachment, reason));
    this.agreement.over.wake();
    return ended;
  }

  /** The cluster's allocations; while the API server is away, those that this node uses. */
  async list(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    try {
      if (filter.address !== undefined) return await this.#networks.at(filter.address, filter);
      return await listFromApi(this.#options.api, filter, page);
    } catch (error) {
      if (error instanceof ApiAway) return await this.listUsedHere(filter, page);
      throw error;
    }
  }

  async holderOf(network: string, address: Address): Promise<Owner | null> {
    try {
      const reading = await this.#reads.read(network, address, this.#clock.monotonicMs() + CHECK_MS_MAX);
      return reading?.object.status?.state === "Bound" ? fromAllocationOwner(reading.object.spec.owner) : null;
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      const used = this.attachmentsOfNetwork(network).find((one) =>
        one.ips.some((ip) => sameAddress(parseInterfaceAddress(ip.address).address, address)),
      );
      return used?.owner ?? null;
    }
  }

  look = () => this.#networks.look();
  networks = async () => this.#networks.views(this.attachmentCounts());
  space(network: string): NetworkNow | null {
    return this.#networks.space(network);
  }

  claims(filter: ClaimFilter, page: PageRequest): Promise<Page<ClaimManifest>> {
    return listClaims(this.#options.api, new Set(this.#options.definitions.networks()), filter, page);
  }

  async check(): Promise<Finding[]> {
    const { api, claimAccess, continuity } = this.#options;
    const podState = (pod: PodIdentity) => claimAccess.podState(pod, this.#clock.monotonicMs() + READ_MS_MAX);
    const listOf = async (owner: Owner) => {
      const claim = await claimAccess.read(owner, this.#clock.monotonicMs() + READ_MS_MAX).catch(() => null);
      return claim?.uid === owner.uid ? claim.ips : null;
    };
    const pending = (lastId: number) => this.agreement.over.pending(lastId);
    const recovering = () => continuity.recovering;
    const findings = await checkNode(this.directory, api, { pending, podState, recovering, listOf });
    if (findings.some(({ invariant }) => invariant === "I2")) this.agreement.doubt();
    return findings;
  }

  async release(which: ReleaseWant): Promise<ReleaseOutcome> {
    const deadlineMs = this.#clock.monotonicMs() + READ_MS_MAX;
    return releaseInKubernetes(this.#reads, which, {
      deadlineMs,
      api: this.#options.api,
      podState: (pod) => this.#options.claimAccess.podState(pod, deadlineMs),
    });
  }

  definition(network: string): NetworkDefinition | undefined {
    return this.#options.definitions.definitionOf(network)?.definition;
  }

  appliedDefinition(network: string): { definition: NetworkDefinition; by: string } | undefined {
    return this.#options.definitions.definitionOf(network) ?? undefined;
  }

  /** Prunes what is remembered, and gives back what ADDs that nobody repeats have reserved. */
  async housekeeping(nowUs: number): Promise<void> {
    this.directory.tryRoom();
    if (this.directory.status.kind !== "ready") return;
    // What is still to be recovered needs the DELs.
    const isComplete = whyList(this.directory.ledger) === null;
    for (let step = 0; isComplete && step < PRUNE_STEPS_MAX; step += 1) {
      if (!(await this.directory.write((ledger) => prune(ledger, nowUs)))) break;
    }
    this.agreement.over.wake();
    await this.agreement.over.abandonUnanswered(nowUs);
  }
}

/** Ends what is older than the DEL, unfinished ADDs too; the releases are sent later (agreement/over.ts). */
function detach(ledger: Ledger, transaction: Transaction, want: DetachWant): DetachOutcome {
  const { sql, context } = ledger;
  const concerns = (row: { network_id: number; boot_id: string; boot_us: number }) =>
    (want.network === null || ledger.networkById(row.network_id).name === want.network) &&
    isBefore({ bootId: row.boot_id, us: row.boot_us }, want.stamp, context.bootId);
  const ended = sql.attachmentsOfContainer.all(want.containerId, want.interface).filter(concerns);
  for (const row of ended) endRow(ledger, row, want.reason);
  for (const row of sql.takingOfContainer.all(want.containerId, want.interface).filter(concerns)) abandon(ledger, row);
  // What is still to be recovered from the API may be of an earlier boot, and must not be recovered then.
  if (want.stamp.bootId === context.bootId || sql.meta.get(BOOT)?.value !== context.bootId)
    rememberDel(ledger, transaction, want);
  return { ended: ended.map((row) => attachmentOf(row, ledger.networkById(row.network_id).name)) };
}
