import { isDeepStrictEqual } from "node:util";
import { nameOrigin, parseNadConfig } from "../../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type { Transaction } from "../journal/group-commit.ts";
import type { Ledger } from "../journal/ledger.ts";
import { readDefinition, recordedDefinitionIn } from "../journal/load.ts";
import type { AppliedDefinition, ApplyAction } from "../manifests.ts";

/** Creates or changes a NetworkAttachmentDefinition. Existing allocations stay; new ones follow the new ranges. */
export function applyDefinition(ledger: Ledger, transaction: Transaction, applied: AppliedDefinition): ApplyAction {
  const { sql } = ledger;
  const definition = definitionIn(applied);
  const self = `${applied.namespace}/${applied.name}`;
  for (const row of sql.definitionsOf.all(applied.network)) {
    const other = `${row.namespace}/${row.name}`;
    if (other === self || recordedDefinitionIn(row).fingerprint === definition.fingerprint) continue;
    throw new RefusalError(
      refuse("DEFINITION_CONFLICT", {
        other: `${self}${nameOrigin(applied.config)}`,
        network: applied.network,
        definition: `${other}${nameOrigin(row.config)}`,
        remedy: "give one of them another name",
      }),
    );
  }
  const known = sql.definition.get(applied.namespace, applied.name);
  const manifest = JSON.stringify(applied.manifest);
  if (known && isDeepStrictEqual(JSON.parse(known.manifest), applied.manifest)) return "unchanged";
  sql.putDefinition.run(applied.namespace, applied.name, applied.network, applied.config, manifest);
  refreshDefinition(ledger, transaction, applied.network);
  if (known && known.network !== applied.network) refreshDefinition(ledger, transaction, known.network);
  return known ? "configured" : "created";
}

/** Removes an applied definition. Allocations stay; new ones need another definition. False: there was none. */
export function deleteDefinition(ledger: Ledger, transaction: Transaction, namespace: string, name: string): boolean {
  const known = ledger.sql.definition.get(namespace, name);
  if (!known) return false;
  ledger.sql.deleteDefinition.run(namespace, name);
  refreshDefinition(ledger, transaction, known.network);
  return true;
}

function definitionIn(one: Pick<AppliedDefinition, "config" | "name">): NetworkDefinition {
  return parseNadConfig(one.config, one.name).definition;
}

function refreshDefinition(ledger: Ledger, transaction: Transaction, network: string): void {
  const space = ledger.networkOf(network, transaction);
  const { definition, appliedBy } = readDefinition(ledger, network);
  ledger.define(space, definition, appliedBy, transaction);
}
