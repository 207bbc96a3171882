import { closeSync, existsSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import type { AllocationFilter, PageRequest } from "../../allocations/filter.ts";
import { matches } from "../../allocations/filter.ts";
import { badToken, decodeToken, encodeToken, type Listed, pageOf } from "../../allocations/pages.ts";
import type { AddressUser, AllocationView, Attachment, HistoryView, Page } from "../../allocations/records.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { FormerHolders } from "../../ipam/former-holders.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Address, addressBytes, sameAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { isoTime } from "../../platform/time.ts";
import type { HistoryWant, StoreStatus } from "../node-store.ts";
import { formerHolders } from "./former-holders.ts";
import type { Ledger } from "./ledger.ts";
import { whatWasLost } from "./rebuild.ts";
import { type AttachmentRow, attachmentOf, type HistoryRow, ownerOf, podOf } from "./rows.ts";
import { inSlices, mapAttachments } from "./slices.ts";
import type { StateDirectory } from "./state-directory.ts";
import { viewHistory } from "./views.ts";

/** Periods looked at in one turn of the event loop, for those of a namespace, which have no index. */
const HISTORY_PERIODS = 20_000;

/** What every store of a node reads from its SQLite file: attachments of this node and the history. */
export abstract class JournalReader {
  protected readonly directory: StateDirectory;

  constructor(directory: StateDirectory) {
    this.directory = directory;
  }

  abstract definition(network: string): NetworkDefinition | undefined;

  get status(): StoreStatus {
    return this.directory.status;
  }

  get isComparable(): boolean {
    return this.directory.isComparable;
  }

  formerHolders(): Promise<FormerHolders> {
    return formerHolders(this.directory, (network) => this.definition(network));
  }

  get historySince(): string | null {
    if (this.directory.status.kind !== "ready") return null;
    const first = this.directory.ledger.sql.firstPeriod.get();
    return first === undefined ? null : isoTime(first.from_ms);
  }

  /** The newest first. */
  async history(want: HistoryWant): Promise<HistoryView[]> {
    const { address, limit } = want;
    const [network, namespace] = [want.network ?? null, want.namespace ?? null];
    const { sql } = this.directory.ledger;
    const wanted = [network, network, namespace, namespace] as const;
    if (address !== undefined)
      return sql.historyOfAddress.all(addressBytes(address), ...wanted, limit).map(viewHistory);
    const { last } = sql.historyIds.get() ?? {};
    if (namespace === null) return sql.recentHistory.all(...wanted, 0, last ?? 0, limit).map(viewHistory);
    const found: HistoryView[] = [];
    for await (const rows of inSlices(this.directory, (ledger) => historySlices(ledger, want))) {
      found.push(...rows.map(viewHistory));
      if (found.length >= limit) break;
    }
    return found.slice(0, limit);
  }

  attachment(network: string, containerId: string, interfaceName: string): Attachment | undefined {
    const ledger = this.directory.ledger;
    const space = ledger.networks.get(network);
    const row = space && ledger.sql.attachment.get(containerId, interfaceName, space.id);
    return row && attachmentOf(row, network);
  }

  usersOf(address: Address, network?: string): AddressUser[] {
    const { ledger } = this.directory;
    const space = network === undefined ? undefined : ledger.networks.get(network);
    if (network !== undefined && space === undefined) return [];
    const bytes = addressBytes(address);
    const rows =
      space === undefined ? ledger.sql.usersOfAddress.all(bytes) : ledger.sql.usersOnNetwork.all(bytes, space.id);
    return rows.map((row) => ({
      network: ledger.networkById(row.network_id).name,
      containerId: row.container_id,
      owner: ownerOf(row),
      pod: podOf(row),
    }));
  }

  attachmentsOfContainer(containerId: string): Attachment[] {
    return this.#kept(this.directory.ledger.sql.attachmentsOfContainerId.all(containerId));
  }

  attachmentsOfPod(uid: string): Attachment[] {
    return this.#kept(this.directory.ledger.sql.attachmentsOfPod.all(uid));
  }

  usersOfNetwork(network: string): Attachment[] {
    const { ledger } = this.directory;
    const space = ledger.networks.get(network);
    return space ? this.#kept(ledger.sql.attachmentsOfNetwork.all(space.id)) : [];
  }

  watchAttachments(changed: (network: string | null) => void): void {
    this.directory.watchAttachments(changed);
  }

  watchStatus(changed: () => void): void {
    this.directory.statusChanged = changed;
  }

  pluginMtu(network: string): number | null {
    const { ledger } = this.directory;
    const space = ledger.networks.get(network);
    return (space && ledger.sql.networkMtu.get(space.id)?.mtu) ?? null;
  }

  async keepPluginMtu(network: string, mtu: number | null): Promise<void> {
    if (this.pluginMtu(network) === mtu) return;
    await this.directory.write((ledger, transaction) => {
      ledger.sql.setNetworkMtu.run(mtu, ledger.networkOf(network, transaction).id);
    });
  }

  #kept(rows: readonly AttachmentRow[]): Attachment[] {
    const { ledger } = this.directory;
    return rows
      .filter(({ lost }) => lost === 0)
      .map((row) => attachmentOf(row, ledger.networkById(row.network_id).name));
  }

  /** Attachments in order of id, a page at a time. */
  attachmentsAfter(id: number, limit: number): Attachment[] {
    const ledger = this.directory.ledger;
    return ledger.sql.attachmentsAfter
      .all(id, limit)
      .map((row) => attachmentOf(row, ledger.networkById(row.network_id).name));
  }

  attachmentsOfNetwork(network: string): Attachment[] {
    const ledger = this.directory.ledger;
    const space = ledger.networks.get(network);
    return space ? ledger.sql.attachmentsOfNetwork.all(space.id).map((row) => attachmentOf(row, network)) : [];
  }

  attachmentCounts(): Map<string, number> {
    const ledger = this.directory.ledger;
    const rows = ledger.sql.attachmentCounts.all();
    return new Map(rows.map((row) => [ledger.networkById(row.network_id).name, row.n]));
  }

  /** Addresses in use on this node, from the journal alone, in order of attachment. */
  listUsedHere(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    const [id, index] = decodeToken(page.continue).map(Number) as [id: number, index: number];
    // Such as one of the API's list, when the API went away between two pages.
    if (!Number.isSafeInteger(id) || !Number.isSafeInteger(index)) throw badToken(String(page.continue));
    const slices = inSlices(this.directory, (ledger) => {
      const list = (row: AttachmentRow) => {
        const uses = usesOf(attachmentOf(row, ledger.networkById(row.network_id).name));
        return (row.id === id ? uses.slice(index + 1) : uses).filter(({ item }) => isWanted(item, filter));
      };
      return mapAttachments(ledger, list, id - 1);
    });
    return pageOf(slices, page);
  }

  get notes(): readonly string[] {
    return whatWasLost(this.directory.ledger);
  }

  /** Never replaces a file. Written to a new one with a random name first: two do not mix, no link is followed. */
  async backup(path: string): Promise<number> {
    const ledger = this.directory.ledger;
    if (existsSync(path)) throw fileExists(path);
    const partial = `${path}.${ledger.context.clock.randomBytes(8).toString("hex")}.partial`;
    try {
      createNew(partial);
      await ledger.db.backup(partial);
      createNew(path);
      renameSync(partial, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") throw fileExists(path);
      const remedy = `the daemon cannot write there (${(error as Error).message}); /var/backups is what its systemd unit leaves it`;
      throw new RefusalError(refuse("REQUEST_INVALID", { key: "path", value: path, remedy }));
    } finally {
      rmSync(partial, { force: true });
    }
    return statSync(path).size;
  }
}

/** The addresses of an attachment, as if they were allocations. */
function usesOf(one: Attachment): Listed<AllocationView>[] {
  const since = isoTime(one.sinceMs);
  const { containerId: containerID, interface: name, node, pod } = one;
  const attachment = { containerID, interface: name, netns: one.netns.path, node, pod, since };
  return one.ips.map(({ address }, index) => ({
    item: {
      network: one.network,
      address,
      state: "Bound",
      owner: one.owner,
      vm: null,
      since,
      attachments: [attachment],
    },
    token: () => encodeToken(String(one.id), String(index)),
  }));
}

function isWanted(view: AllocationView, filter: AllocationFilter): boolean {
  if (filter.network !== undefined && view.network !== filter.network) return false;
  if (filter.address !== undefined && !sameAddress(parseInterfaceAddress(view.address).address, filter.address))
    return false;
  return matches(view, filter);
}

/** Throws EEXIST when the name exists, even as a link. */
function createNew(path: string): void {
  closeSync(openSync(path, "wx", 0o600));
}

function fileExists(path: string): RefusalError {
  return new RefusalError(
    refuse("REQUEST_INVALID", { key: "path", value: path, remedy: "that file exists; name a new one" }),
  );
}

function* historySlices({ sql }: Ledger, { network, namespace, limit }: HistoryWant): Generator<readonly HistoryRow[]> {
  const wanted = [network ?? null, network ?? null, namespace ?? null, namespace ?? null] as const;
  const { first, last } = sql.historyIds.get() ?? { first: null, last: null };
  if (first === null || last === null) return;
  for (let to = last; to >= first; to -= HISTORY_PERIODS)
    yield sql.recentHistory.all(...wanted, to - HISTORY_PERIODS, to, limit);
}
