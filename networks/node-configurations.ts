import { BridgeGateways, gatewaysOf, withBridgeGateways } from "../ipam/definition/bridge-gateway.ts";
import { type Difference, differenceFrom } from "../ipam/definition/definition-difference.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { hasRanges, nodeIsGateway } from "../ipam/definition/plugin-config.ts";
import type { Configuration } from "../ipam/definition/read-keys.ts";
import type { Finding } from "../ipam/finding.ts";
import { describeOwner, type Owner } from "../ipam/owner.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import { formatAddress } from "../ipam/space/address.ts";
import { leanView, weightOf } from "../kube/lean-view.ts";
import { BoundedMap } from "../platform/bounded-map.ts";
import type { Clock } from "../platform/time.ts";
import { gatewayHeld } from "../store/journal/check.ts";
import type { DefinitionCatalog } from "./definition-catalog.ts";
import { subnetsOf } from "./import-sources.ts";
import type { CountingDefinition } from "./nad-verdict.ts";

/** How long an ADD of a network that is not in use here is remembered, ms: a kubelet retries a refused ADD sooner. */
const TRIED_MS = 600_000;
/** Networks whose configuration is remembered: whoever may ask the runtime for an ADD names as many as they like. */
export const NETWORKS_MAX = 1_000;
/** Of all of them together, as `weightOf` counts them. */
const BYTES_MAX = 4 << 20;

/** The runtime's configuration in an ADD, from a file on the node. */
interface PassedConfiguration {
  readonly network: string;
  readonly conf: Configuration;
  /** Throws RefusalError when it is invalid. */
  ownDefinition(): { readonly definition: NetworkDefinition };
}

interface Remembered extends PassedConfiguration {
  readonly atMs: number;
  readonly bytes: number;
}

interface FindingsParts {
  readonly catalog: Pick<DefinitionCatalog, "definitionOf">;
  readonly node: string;
  isUsed(network: string): boolean;
  holderOf(network: string, address: ReturnType<typeof gatewaysOf>[number]): Promise<Owner | null>;
}

/** As in the last ADD. It may differ from the definition in force in the cluster, and only this node can tell. */
export class NodeConfigurations {
  readonly #passed = new BoundedMap<string, Remembered>(NETWORKS_MAX, {
    sizeMax: BYTES_MAX,
    sizeOf: ({ bytes }) => bytes,
  });
  readonly #clock: Clock;
  readonly #bridgeGateways = new BridgeGateways();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes the configuration of an interface that no NAD configures. */
  note({ network, conf, ownDefinition }: PassedConfiguration): void {
    // As a text, where it is of many values.
    const kept = leanView({ ...conf });
    const { bytes } = weightOf(kept);
    this.#passed.set(network, { network, conf: kept, ownDefinition, bytes, atMs: this.#clock.monotonicMs() });
  }

  /** The findings for `holdfast check`. Throws ApiAway. */
  async findings(parts: FindingsParts): Promise<Finding[]> {
    const findings: Finding[] = [];
    const oldestMs = this.#clock.monotonicMs() - TRIED_MS;
    for (const [network, passed] of this.#passed) {
      if (passed.atMs < oldestMs && !parts.isUsed(network)) this.#passed.delete(network);
      else findings.push(...(await this.#findingsOf(passed, parts)));
    }
    return findings;
  }

  /** How the node's configuration differs from the definition in force; null: in nothing that an interface gets. */
  differenceOf({ conf, ownDefinition }: PassedConfiguration, counting: CountingDefinition): Difference | null {
    if (!hasRanges(conf)) return null;
    const { definition } = counting;
    const given = nodeIsGateway(conf) ? this.#bridgeGateways.of(definition) : definition;
    return differenceFrom(ownDefinition().definition, given);
  }

  async #findingsOf(passed: PassedConfiguration, parts: FindingsParts): Promise<Finding[]> {
    const { network, conf } = passed;
    const counting = parts.catalog.definitionOf(network);
    const refusal = refusalOf(passed, counting);
    if (refusal !== null) {
      const message = `the configuration of network ${network} on node ${parts.node} is refused: ${refusal.message}`;
      return [{ invariant: "network", message, hint: refusal.hint }];
    }
    if (counting === null) return [];
    const difference = this.differenceOf(passed, counting);
    if (difference !== null) return [differs(passed, counting, difference, parts.node)];
    if (!nodeIsGateway(conf)) return [];
    const taken = gatewaysTakenBeside(counting.definition);
    if (taken.length === 0) return [];
    const findings = [lacksGateway(network, counting, taken.map(formatAddress), parts.node)];
    for (const gateway of taken) {
      const holder = await parts.holderOf(network, gateway);
      if (holder !== null) findings.push(gatewayHeld(network, gateway, describeOwner(holder)));
    }
    return findings;
  }
}

/** Why no ADD with this configuration can succeed, whatever else is defined; null: it can. */
function refusalOf(
  { network, conf, ownDefinition }: PassedConfiguration,
  counting: CountingDefinition | null,
): Refusal | null {
  if (counting !== null && !hasRanges(conf)) return null;
  try {
    const { rangeSets } = ownDefinition().definition;
    return rangeSets.length > 0 ? null : refuse("NETWORK_UNDEFINED", { network });
  } catch (error) {
    if (error instanceof RefusalError) return error.refusal;
    throw error;
  }
}

export function differenceRemedy(network: string, { by }: CountingDefinition): string {
  return `remove the ranges from the nodes' configuration; where the network is the nodes' own, an administrator takes it from ${by.split("/")[0]}: holdfast networks own ${network} --administrators`;
}

function differs(
  { network, ownDefinition }: PassedConfiguration,
  counting: CountingDefinition,
  difference: Difference,
  node: string,
): Finding {
  const [here, there] = [ownDefinition().definition, counting.definition].map((one) => {
    if (difference === "ranges") return ` ${subnetsOf(one)}`;
    return difference === "gateway" ? ` ${gatewaysOf(one).map(formatAddress).join(",") || "none"}` : "";
  });
  const what = here === there ? `other ${difference}` : `${difference}${here} here,${there} there`;
  const message = `the configuration on node ${node} defines network ${network} differently from NetworkAttachmentDefinition ${counting.by}, which counts (${what}): ADDs that come by it are refused`;
  return { invariant: "network", message, hint: `make them the same, or ${differenceRemedy(network, counting)}` };
}

function lacksGateway(network: string, { by }: CountingDefinition, taken: readonly string[], node: string): Finding {
  const message = `the configuration of network ${network} on node ${node} makes the node its gateway (isGateway, or ptp), and NetworkAttachmentDefinition ${by}, which counts, does not: ${taken.join(", ")} is the node's there, and other nodes may give it`;
  const hint = `write "isGateway": true, or the gateway, into NetworkAttachmentDefinition ${by}`;
  return { invariant: "gateway", message, hint };
}

/** The addresses that a bridge with isGateway takes although the definition does not have them as gateways. */
function gatewaysTakenBeside(definition: NetworkDefinition) {
  const named = new Set(gatewaysOf(definition).map(formatAddress));
  return gatewaysOf(withBridgeGateways(definition)).filter((one) => !named.has(formatAddress(one)));
}
