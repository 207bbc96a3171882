import type Database from "better-sqlite3";
import { NetworkSpace, type StoredAddress } from "../../allocations/network-space.ts";
import { BridgeGateways } from "../../ipam/definition/bridge-gateway.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { addressFromBytes } from "../../ipam/space/address.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import type { NodeContext } from "../node-context.ts";
import { AttachmentRows } from "./attachment-rows.ts";
import type { Transaction } from "./group-commit.ts";
import { LeaseRows } from "./lease-rows.ts";
import { RowIds } from "./rows.ts";
import { prepareStatements, type Statements } from "./statements.ts";

/** Rows read at once when a network's pools are built: limits the time of one step. */
const STORED_PAGE_ROWS = 5_000;

/** One opened database, and the free space of its networks in memory. Discarded when the database is reopened. */
export class Ledger {
  readonly db: Database.Database;
  readonly sql: Statements;
  readonly attachments: AttachmentRows;
  readonly leases: LeaseRows;
  readonly context: NodeContext;
  readonly ids: RowIds;
  readonly bridgeGateways = new BridgeGateways();
  readonly networks = new Map<string, NetworkSpace>();
  readonly #byId = new Map<number, NetworkSpace>();

  /** `attachmentsChanged`: see NodeStore.watchAttachments. `ids`: those of the databases before this one. */
  constructor(
    db: Database.Database,
    context: NodeContext,
    attachmentsChanged: (network: string) => void = () => {},
    ids = new RowIds(),
  ) {
    this.db = db;
    this.context = context;
    this.sql = prepareStatements(db);
    this.ids = ids;
    ids.startAfter(db);
    this.attachments = new AttachmentRows(db, ids, (id) => attachmentsChanged(this.networkById(id).name));
    this.leases = new LeaseRows(db);
    for (const row of this.sql.networks.all()) {
      this.#remember(row.id, row.name).bridgeIsGateway = row.bridge_is_gateway === 1;
    }
  }

  /** The network of that name, created if it was unknown. */
  networkOf(name: string, transaction: Transaction): NetworkSpace {
    const known = this.networks.get(name);
    if (known) return known;
    const id = Number(this.sql.insertNetwork.run(name).lastInsertRowid);
    const space = this.#remember(id, name);
    transaction.onRollback(() => {
      this.networks.delete(name);
      this.#byId.delete(id);
    });
    return space;
  }

  /** From now on the network's gateway address belongs to a bridge. */
  setBridgeIsGateway(space: NetworkSpace, transaction: Transaction): void {
    this.sql.setBridgeIsGateway.run(space.id);
    space.bridgeIsGateway = true;
    transaction.onRollback(() => {
      space.bridgeIsGateway = false;
    });
    if (space.definition === null) return;
    this.define(space, this.bridgeGateways.of(space.definition), space.appliedBy, transaction);
  }

  networkById(id: number): NetworkSpace {
    const space = this.#byId.get(id);
    if (!space) throw new Error(`network ${id} is used but not recorded`);
    return space;
  }

  /** Sets the definition for new allocations of a network, and reverts it if the transaction fails. */
  define(
    space: NetworkSpace,
    definition: NetworkDefinition | null,
    appliedBy: string | null,
    transaction: Transaction,
  ): void {
    const before = { definition: space.definition, appliedBy: space.appliedBy };
    space.definition = definition;
    space.appliedBy = appliedBy;
    transaction.onRollback(() => {
      space.definition = before.definition;
      space.appliedBy = before.appliedBy;
    });
  }

  /** The pools of a definition; discarded if they were built from rows of a transaction that fails. */
  poolsOf(space: NetworkSpace, definition: NetworkDefinition, transaction: Transaction): readonly Pool[] {
    if (!space.knows(definition)) transaction.onRollback(() => space.forget(definition));
    return space.poolsOf(definition, this.context.clock.monotonicMs());
  }

  /** Allocated, retained and cooling addresses of a network in pages, in order of address. */
  *storedPages(networkId: number): Generator<(StoredAddress & { sinceMs: number })[]> {
    let after: Uint8Array = new Uint8Array(0);
    // A page that is not full is the last: with those that are added meanwhile it would not end.
    for (let count = STORED_PAGE_ROWS; count === STORED_PAGE_ROWS; ) {
      const rows = this.sql.storedAddresses.all(networkId, after, STORED_PAGE_ROWS);
      count = rows.length;
      after = rows.at(-1)?.address ?? after;
      yield rows.map((row) => ({
        address: addressFromBytes(row.address),
        cooling: row.state === "Cooling",
        retained: row.state === "Retained",
        sinceMs: row.since_ms,
      }));
    }
  }

  #remember(id: number, name: string): NetworkSpace {
    const space = new NetworkSpace(id, name, { stored: () => this.#stored(id) });
    this.networks.set(name, space);
    this.#byId.set(id, space);
    return space;
  }

  *#stored(networkId: number): Generator<StoredAddress> {
    for (const page of this.storedPages(networkId)) yield* page;
  }
}
