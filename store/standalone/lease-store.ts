import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Lease } from "../host-local/lease-files.ts";
import type { LeaseStore, LeaseVerdict, RecordedLease } from "../host-local/lease-store.ts";
import { isInUse, judgeLease, settleLeases, takeLeases } from "../journal/host-local.ts";
import type { StateFolder } from "../journal/state-folder.ts";

/** host-local's leases where SQLite is the truth. */
export class SqliteLeaseStore implements LeaseStore {
  readonly #folder: StateFolder;

  constructor(folder: StateFolder) {
    this.#folder = folder;
  }

  definitions(): NetworkDefinition[] {
    return [...this.#folder.ledger.networks.values()].flatMap(({ definition }) => definition ?? []);
  }

  folders(): { network: string; folder: string }[] {
    return this.#folder.ledger.leases.folders();
  }

  mayBeFree(definition: NetworkDefinition, lease: Lease): boolean {
    return judgeLease(this.#folder.ledger, definition, lease).kind === "free";
  }

  isInUse(network: string, folder: string): boolean {
    return isInUse(this.#folder.ledger, network, folder);
  }

  async remember(network: string, folder: string): Promise<void> {
    if (this.folders().some((one) => one.network === network && one.folder === folder)) return;
    await this.#folder.write((ledger, transaction) =>
      ledger.leases.remember(ledger.networkOf(network, transaction).id, folder),
    );
  }

  async judge(definition: NetworkDefinition, lease: Lease): Promise<LeaseVerdict> {
    return judgeLease(this.#folder.ledger, definition, lease);
  }

  async take(
    definition: NetworkDefinition,
    groups: readonly (readonly [LeaseHolder, readonly Lease[]])[],
  ): Promise<LeaseVerdict[][]> {
    const verdicts = groups.map(([, leases]) =>
      leases.map((lease) => judgeLease(this.#folder.ledger, definition, lease)),
    );
    if (!verdicts.flat().some(({ kind }) => kind === "free")) return verdicts;
    return this.#folder.write((ledger, transaction) =>
      groups.map(([holder, leases]) => takeLeases(ledger, transaction, definition, holder, leases)),
    );
  }

  settle(network: string, folder: string, present: ReadonlyMap<string, Lease>): Promise<RecordedLease[]> {
    return this.#folder.write((ledger, transaction) =>
      settleLeases(ledger, transaction, network, folder, present),
    );
  }
}
