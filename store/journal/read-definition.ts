import { parseJsonObject } from "../../ipam/definition/definition-keys.ts";
import { parseNadConfig } from "../../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import type { Ledger } from "./ledger.ts";
import type { DefinitionRow } from "./rows.ts";

/**
 * The definition of a network according to the store: its oldest applied manifest, else the runtime's last
 * configuration.
 */
export function readDefinition(
  ledger: Ledger,
  network: string,
): { definition: NetworkDefinition | null; appliedBy: string | null } {
  const row = ledger.sql.networks.all().find(({ name }) => name === network);
  const onNode = (definition: NetworkDefinition) =>
    row?.bridge_is_gateway === 1 ? ledger.bridgeGateways.of(definition) : definition;
  const [oldest] = ledger.sql.definitionsOf.all(network);
  if (oldest) {
    return {
      definition: onNode(recordedDefinitionIn(oldest)),
      appliedBy: `${oldest.namespace}/${oldest.name}`,
    };
  }
  const runtime = row?.runtime_config ?? null;
  if (runtime === null) return { definition: null, appliedBy: null };
  return { definition: onNode(parsePluginConfig(parseJsonObject(runtime))), appliedBy: null };
}

export function recordedDefinitionIn(row: DefinitionRow): NetworkDefinition {
  return parseNadConfig(row.config).definition;
}
