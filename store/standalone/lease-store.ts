import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Lease } from "../host-local/lease-files.ts";
import type { LeaseStore, LeaseVerdict, RecordedLease } from "../host-local/lease-store.ts";
import { isInUse, judgeLease, settleLeases, takeLeases } from "../journal/host-local.ts";
import type { StateDirectory } from "../journal/state-directory.ts";

export class SqliteLeaseStore implements LeaseStore {
  readonly #directory: StateDirectory;

  constructor(directory: StateDirectory) {
    this.#directory = directory;
  }

  definitions(): NetworkDefinition[] {
    return [...this.#directory.ledger.networks.values()].flatMap(({ definition }) => definition ?? []);
  }

  directories(network: string): string[] {
    return this.#directory.ledger.leases
      .directories()
      .flatMap((one) => (one.network === network ? [one.directory] : []));
  }

  mayBeFree(definition: NetworkDefinition, lease: Lease): boolean {
    return judgeLease(this.#directory.ledger, definition, lease).kind === "free";
  }

  isInUse(network: string, directory: string): boolean {
    return isInUse(this.#directory.ledger, network, directory);
  }

  async remember(network: string, directory: string): Promise<void> {
    if (this.directories(network).includes(directory)) return;
    await this.#directory.write((ledger, transaction) =>
      ledger.leases.remember(ledger.networkOf(network, transaction).id, directory),
    );
  }

  async judge(definition: NetworkDefinition, lease: Lease): Promise<LeaseVerdict> {
    return judgeLease(this.#directory.ledger, definition, lease);
  }

  async take(
    definition: NetworkDefinition,
    groups: readonly (readonly [LeaseHolder, readonly Lease[]])[],
  ): Promise<LeaseVerdict[][]> {
    const verdicts = groups.map(([, leases]) =>
      leases.map((lease) => judgeLease(this.#directory.ledger, definition, lease)),
    );
    if (!verdicts.flat().some(({ kind }) => kind === "free")) return verdicts;
    return this.#directory.write((ledger, transaction) =>
      groups.map(([holder, leases]) => takeLeases(ledger, transaction, definition, holder, leases)),
    );
  }

  settle(network: string, directory: string, present: ReadonlyMap<string, Lease>): Promise<RecordedLease[]> {
    return this.#directory.write((ledger, transaction) =>
      settleLeases(ledger, transaction, network, directory, present),
    );
  }
}
