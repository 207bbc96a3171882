import { statSync } from "node:fs";
import { dirname } from "node:path";
import type { AllocationFilter, ClaimFilter, PageRequest } from "../allocations/filter.ts";
import type { AllocationView, HistoryView, NetworkView, Page } from "../allocations/records.ts";
import type { IdentityQuery } from "../identity/query.ts";
import type { IdentityService } from "../identity/service.ts";
import type { IdentityAnswer } from "../identity/wire.ts";
import type { Finding } from "../ipam/finding.ts";
import { describeOwner, describeRetained } from "../ipam/owner.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { Address } from "../ipam/space/address.ts";
import { parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { Pool } from "../ipam/space/pool.ts";
import type { ObjectName } from "../kube/views/claim-reference.ts";
import { invalid } from "../platform/api-query.ts";
import { checkResolverFiles, type ResolverFiles } from "../platform/resolv-conf.ts";
import { type ImportReport, type ImportRequest, importLeases } from "../store/host-local/report.ts";
import type { ClaimManifest, ContentView } from "../store/manifests.ts";
import type { AdminStore, HistoryWant, ReleaseOutcome, ReleaseWant } from "../store/node-store.ts";
import { placesOn } from "./address-places.ts";
import type {
  AddressPlace,
  AppliedResult,
  CheckedCounts,
  CheckReport,
  DeletedClaim,
  DiffWant,
  FreeAddresses,
  FreeWant,
  NetworksWant,
  NodeAdminApi,
  NodeStatus,
  ObjectDiff,
  PlanItem,
  PlanWant,
} from "./admin-api.ts";
import { CLUSTER_ONLY } from "./elsewhere.ts";
import { freeAddresses } from "./free-addresses.ts";
import {
  applyObject,
  deleteObject,
  type ManifestParts,
  manifestsBeside,
  manifestsOf,
  withContentNote,
} from "./manifests.ts";
import { planObject, type SpaceOfNad } from "./plan.ts";

const PLAN_HINT = "name a file of them (-f), or a cluster (--kubeconfig)";
const PLAN_OF_CLUSTER_HINT = "its definitions say which networks VMs ask on: holdfast plan --kubeconfig FILE";
/** Of one claim on one network: more than it has range sets. */
const OWN_MAX = 100;
/** Objects submitted in one turn: other requests wait for reading them. */
const OBJECTS_AT_ONCE = 50;

export interface NodeAdminParts extends ManifestParts {
  readonly store: AdminStore;
  readonly version: string;
  readonly node: string;
  /** RFC 3339. */
  readonly since: string;
  readonly identity: IdentityService;
  outstanding(): number;
  readonly resolverFiles: ResolverFiles;
  notReady(): string | null;
  spool(): { readonly waiting: number; readonly bad: number };
  /** Besides what the store knows. */
  notes(): string[];
  /** About the daemon itself. */
  findings(): Promise<Finding[]> | Finding[];
  rebuild(backup: string | null, replace: boolean): Promise<void>;
}

export class NodeAdmin implements NodeAdminApi {
  readonly kind = "node";
  readonly version: string;
  readonly #parts: NodeAdminParts;
  readonly #store: AdminStore;

  constructor(parts: NodeAdminParts) {
    this.version = parts.version;
    this.#parts = parts;
    this.#store = parts.store;
  }

  async networks({ former = false }: NetworksWant = {}): Promise<NetworkView[]> {
    await this.#store.look();
    const views = await this.#store.networks();
    if (!former) return views;
    const behind = await this.#store.formerHolders();
    return views.map((view) => ({ ...view, former: behind.count(view.name) }));
  }

  async free(network: string, want: FreeWant): Promise<FreeAddresses> {
    await this.#store.look();
    const pools = this.#store.space(network)?.pools;
    const counted = want.counted ? pools : pools?.map(({ rangeSet }) => new Pool(rangeSet));
    return freeAddresses(network, want, counted, want.counted);
  }

  /** In a cluster a node does not say through which NetworkAttachmentDefinitions VMs come to a network. */
  async plan(want: PlanWant): Promise<PlanItem[]> {
    if (this.#parts.manifests === null)
      throw new RefusalError({
        ...refuse("NOT_FOUND", { what: "plan on a node of a cluster" }),
        hint: PLAN_OF_CLUSTER_HINT,
      });
    if (want.objects === null)
      throw new RefusalError({
        ...refuse("NOT_FOUND", { what: "VirtualMachines on a node" }),
        hint: PLAN_HINT,
      });
    const networks = await this.#store.networks();
    const spaceOf = async (nad: string): Promise<SpaceOfNad> => {
      const name = networks.find(({ source }) => source === nad)?.name;
      const space = name === undefined ? null : this.#store.space(name);
      if (name === undefined || space === null)
        return { state: "not-ours", message: `NetworkAttachmentDefinition ${nad} defines no network here` };
      return {
        ...space,
        holderOf: (address) => this.#planHolder(name, address),
        ownOf: (claim) => this.#addressesOf(name, claim),
      };
    };
    const items: PlanItem[] = [];
    for (const object of want.objects) items.push(...(await planObject(object, want.namespace, spaceOf)));
    return items;
  }

  async #planHolder(network: string, address: Address): Promise<string | null> {
    const { items } = await this.#store.list({ network, address }, { limit: 1 });
    const [held] = items;
    if (held === undefined || held.state === "Cooling") return null;
    const text = describeOwner(held.owner);
    return held.retainedUntil === undefined ? text : describeRetained(text, held.retainedUntil);
  }

  async #addressesOf(network: string, { namespace, name }: ObjectName): Promise<readonly Address[]> {
    const { items } = await this.#store.list({ network, claim: `${namespace}/${name}` }, { limit: OWN_MAX });
    return items
      .filter(({ state }) => state !== "Cooling")
      .map(({ address }) => parseInterfaceAddress(address).address);
  }

  allocations(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    return this.#store.list(filter, page);
  }

  claims(filter: ClaimFilter, page: PageRequest): Promise<Page<ClaimManifest>> {
    return this.#store.claims(filter, page);
  }

  history(want: HistoryWant): Promise<HistoryView[]> {
    return this.#store.history(want);
  }

  async places(address: Address): Promise<AddressPlace[]> {
    const views = await this.#store.networks();
    return placesOn(
      views.map(({ name }) => this.#store.definition(name)),
      address,
    );
  }

  status(): NodeStatus {
    const { node, since, manifests, notReady, outstanding } = this.#parts;
    const mode = manifests === null ? "kubernetes" : "standalone";
    const journal = this.#store.historySince;
    return {
      version: this.version,
      node,
      mode,
      since,
      notReady: notReady(),
      outstanding: outstanding(),
      journal,
    };
  }

  identity(query: IdentityQuery): Promise<IdentityAnswer> {
    return this.#parts.identity.answer(query);
  }

  async check(graceSeconds: number | null): Promise<CheckReport> {
    if (graceSeconds !== null)
      invalid("grace", String(graceSeconds), "it is for a cluster: a daemon waits for nothing; leave it out");
    const findings = await checkNode(this.#parts);
    // What a damaged file says of addresses is no evidence.
    const notes = findings.some(isDamage)
      ? []
      : [...this.#parts.notes(), ...this.#store.notes, ...(await this.#store.formerHolders()).notes()];
    const noted = notes.length > 0 && { notes };
    return findings.length > 0 ? { findings, ...noted } : { findings, ...noted, counted: await this.#counts() };
  }

  /** Of everything that was checked, when all is well. */
  async #counts(): Promise<CheckedCounts> {
    const { manifests } = this.#parts;
    await this.#store.look();
    const networks = await this.#store.networks();
    const sum = (of: (network: NetworkView) => readonly (number | string)[]) =>
      networks.flatMap(of).reduce<number>((total, n) => total + Number(n), 0);
    return {
      allocations: sum(({ ranges, outside }) => [outside, ...ranges.map(({ allocated }) => allocated)]),
      attachments: sum(({ attachments }) => [attachments]),
      networks: networks.length,
      // In a cluster this node checks those of its attachments only.
      ...(manifests === null ? {} : { claims: manifests.claimCount() }),
    };
  }

  release(want: ReleaseWant): Promise<ReleaseOutcome> {
    return this.#store.release(want);
  }

  /** What host-local gave on this node before its networks were ours. Throws RefusalError NOT_FOUND in a cluster. */
  async importByHand(request: ImportRequest): Promise<ImportReport> {
    const { hostLocal } = this.#store;
    if (hostLocal === null) {
      const what = "import on a node of a cluster: the cluster imports what its pods and claims report";
      throw new RefusalError({ ...refuse("NOT_FOUND", { what }), hint: CLUSTER_ONLY });
    }
    const reason = this.#parts.notReady();
    if (reason !== null) throw new RefusalError(refuse("NOT_READY", { reason }));
    return importLeases(hostLocal, request);
  }

  async apply(objects: readonly unknown[]): Promise<AppliedResult[]> {
    const results = await inOrder(objects, (object) => applyObject(this.#parts, object));
    return results.map((result, index) => withContentNote(this.#parts, objects[index], result));
  }

  delete(objects: readonly unknown[]): Promise<AppliedResult[]> {
    return inOrder(objects, (object) => deleteObject(this.#parts, object));
  }

  async diff({ objects, delete: isDelete }: DiffWant): Promise<ObjectDiff[]> {
    const parts = this.#parts;
    const work = isDelete ? deleteObject : applyObject;
    const results = await inOrder(objects, (object) => work(parts, object, { isRehearsal: true }));
    return results.map((result, index) => {
      if (isDelete || "error" in result) return { ...result, before: null, after: null };
      return { ...result, ...manifestsBeside(parts, objects[index]) };
    });
  }

  async content(): Promise<readonly ContentView[]> {
    return manifestsOf(this.#parts, "Secret").contentViews();
  }

  async deleteClaim(namespace: string, name: string): Promise<DeletedClaim | null> {
    return manifestsOf(this.#parts, "IPAMClaim").deleteClaim(namespace, name);
  }

  async backup(path: string, directory: string | null): Promise<number> {
    refuseOtherDirectory(path, directory);
    return this.#store.backup(path);
  }

  get isComparable(): boolean {
    return this.#store.isComparable;
  }

  rebuild(backup: string | null, replace: boolean): Promise<void> {
    return this.#parts.rebuild(backup, replace);
  }
}

const isDamage = ({ invariant }: Finding) => invariant === "database";

/**
 * Writes take effect in the order in which they are submitted, and those that wait together share a transaction and its
 * sync (GroupCommit): each object is submitted before the first await of its own work.
 */
async function inOrder(
  objects: readonly unknown[],
  work: (object: unknown) => Promise<AppliedResult>,
): Promise<AppliedResult[]> {
  const results: AppliedResult[] = [];
  for (let from = 0; from < objects.length; from += OBJECTS_AT_ONCE)
    results.push(...(await Promise.all(objects.slice(from, from + OBJECTS_AT_ONCE).map(work))));
  return results;
}

/**
 * Refuses one that is another here than where the operator is: under PrivateTmp= /tmp belongs to the unit, and a
 * container has a file system of its own. `directory`: device and inode as the operator sees them; null: not given.
 */
function refuseOtherDirectory(path: string, directory: string | null): void {
  if (directory === null) return;
  const here = directoryIdentity(path);
  if (here === null || here === directory) return;
  invalid(
    "path",
    path,
    `the daemon sees another ${dirname(path)} than you do (PrivateTmp= or ProtectHome= of its unit, or a container), and the file would be hidden there; /var/backups is what its systemd unit leaves it`,
  );
}

function directoryIdentity(path: string): string | null {
  try {
    const { dev, ino } = statSync(dirname(path), { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    // Writing the file will report the reason.
    return null;
  }
}

async function checkNode(parts: NodeAdminParts): Promise<Finding[]> {
  const { store, resolverFiles } = parts;
  const resolvers = await checkResolverFiles(store, resolverFiles);
  const found = [...(await store.check()), ...checkSpool(parts.spool()), ...resolvers, ...(await parts.findings())];
  return [...found, ...checkReady(parts.notReady(), found)];
}

/** Why no ADD is served now, unless a finding already says so. */
function checkReady(reason: string | null, found: readonly Finding[]): Finding[] {
  if (reason === null || found.some(({ whyNotReady }) => whyNotReady === reason)) return [];
  const hint = "fix the cause above; the daemon then serves again by itself, details are in its log";
  return [{ invariant: "ready", message: `the daemon gives no address now: ${reason}`, hint }];
}

function checkSpool({ bad }: { bad: number }): Finding[] {
  if (bad === 0) return [];
  const message = `${bad} spooled requests are not understood; the addresses of their containers may still be held`;
  const hint =
    "read the *.bad files in the spool directory, see holdfast list for their containers, then delete the files";
  return [{ invariant: "spool", message, hint }];
}
