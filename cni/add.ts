import { readAttachmentRequest } from "../claims/attachment-request.ts";
import { parseCniArgs } from "../claims/cni-args.ts";
import { claimKey, containerKey } from "../claims/waiting-room.ts";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import { gatewaysOf, isBridgeGateway, withBridgeGateways } from "../ipam/definition/bridge-gateway.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { formatAddress } from "../ipam/space/address.ts";
import { routesOf } from "../metadata/listeners/admission.ts";
import { stampOfLive } from "../platform/boot-id.ts";
import { killPoint } from "../platform/kill-point.ts";
import { identifyNamespace } from "../platform/namespaces.ts";
import type { AttachOutcome, AttachWant } from "../store/allocations.ts";
import { clusterAdd } from "./add-in-cluster.ts";
import type { CniContext } from "./context.ts";
import { networkNameOf, type PluginConfig, readDefinedConfig } from "./request.ts";
import { formatResult } from "./result.ts";

/** ADD: the CNI result, or a refusal thrown or returned. Throws RefusalError and StorageFault. */
export async function cniAdd(context: CniContext, wire: CniWireRequest): Promise<object | AttachOutcome> {
  if (context.cluster !== null) return clusterAdd(context, context.cluster, wire);
  refuseUnlessReady(context);
  const config = readDefinedConfig(wire.config, "ADD", "0.1.0");
  const asked = readAttachmentRequest(parseCniArgs(wire.args), config.conf);
  const want: AttachWant = {
    ...wantOf(context, wire, config),
    definition: config.definition,
    definitionSource: config.text,
    ...asked,
  };
  const applied = context.store.appliedDefinition(want.network);
  if (applied && want.bridgeIsGateway && withBridgeGateways(applied.definition) !== applied.definition) {
    context.warnings.warn(want.network, bridgeTakesGateway(applied));
  }
  const dns = await dnsOf(context, applied?.definition ?? config.definition);
  const outcome =
    want.claim === null ? await context.store.attach(want) : await attachWithClaim(context, want);
  if (outcome.kind === "refused") return outcome;
  for (const warning of outcome.warnings) {
    context.log.warn({ network: want.network, containerId: want.containerId }, warning);
  }
  for (const note of config.definition.notes) context.warnings.warn(want.network, note);
  if (applied && differs(outcome.definition, config.definition)) {
    context.warnings.warn(
      want.network,
      `the ranges in the runtime's configuration are not those of ${applied.by}, which was applied and counts`,
    );
  }
  return answer(context, config, outcome, dns);
}

/** What every ADD wants, whoever tells the rest. Throws RefusalError BOOT_MISMATCH. */
export function wantOf(
  context: CniContext,
  wire: CniWireRequest,
  config: PluginConfig,
): Pick<
  AttachWant,
  "network" | "containerId" | "interface" | "stamp" | "netns" | "onePerFamily" | "bridgeIsGateway"
> {
  return {
    network: networkNameOf(config),
    containerId: wire.containerId,
    interface: wire.ifname,
    stamp: stampOfLive(context, wire),
    netns: identifyNamespace(wire.netns, wire.netnsId),
    bridgeIsGateway: isBridgeGateway(config.conf),
    onePerFamily: config.cniVersion === "0.1.0" || config.cniVersion === "0.2.0",
  };
}

/** Said once: from then on the network has this gateway. */
export function bridgeTakesGateway({
  definition,
  by,
}: {
  definition: NetworkDefinition;
  by: string;
}): string {
  const named = new Set(gatewaysOf(definition).map(formatAddress));
  const taken = gatewaysOf(withBridgeGateways(definition))
    .map(formatAddress)
    .filter((address) => !named.has(address));
  return `${by} counts and names no gateway for every subnet, and the bridge of the runtime's configuration is the gateway (isGateway): ${taken.join(", ")} is the bridge's and is not given; write gateway or isGateway into ${by}`;
}

export async function answer(
  context: CniContext,
  config: PluginConfig,
  outcome: Extract<AttachOutcome, { kind: "attached" }>,
  dns: NetworkDefinition["dns"],
): Promise<object> {
  const routes = await routesOf(context, config, outcome);
  const result = formatResult(config.cniVersion, { ips: outcome.attachment.ips, routes, dns });
  killPoint("before-answer");
  const { network, containerId, interface: name, ips, pod } = outcome.attachment;
  context.log.debug({ network, containerId, interface: name, ips, pod, repeat: outcome.repeat }, "ADD");
  return result;
}

export function refuseUnlessReady(context: CniContext): void {
  const reason = context.notReady();
  if (reason !== null) throw new RefusalError(refuse("NOT_READY", { reason }));
}

/** Whether a configuration gives ranges, and other ones than the definition that counts. */
function differs(counts: NetworkDefinition, given: NetworkDefinition): boolean {
  const ranges = (definition: NetworkDefinition) => definition.rangeSets.map((set) => set.fingerprint).join();
  return given.rangeSets.length > 0 && counts !== given && ranges(counts) !== ranges(given);
}

/** Asked before an address is reserved: without it there is no answer. Throws RefusalError CONFIG_INVALID. */
export async function dnsOf(
  { resolverFiles }: Pick<CniContext, "resolverFiles">,
  { dns, resolvConf }: NetworkDefinition,
): Promise<NetworkDefinition["dns"]> {
  return resolvConf === undefined ? dns : resolverFiles.read(resolvConf);
}

/** A claim that does not exist yet is waited for, within the deadline; never is an address given without it. */
export async function attachWithClaim(
  context: CniContext,
  want: AttachWant,
  { lookAgainMs = Number.POSITIVE_INFINITY }: { readonly lookAgainMs?: number } = {},
): Promise<AttachOutcome> {
  const claim = want.claim as NonNullable<AttachWant["claim"]>;
  const place = context.waiting.enter([claimKey(claim), containerKey(want.containerId, want.interface)]);
  const deadline = performance.now() + context.addDeadlineMs;
  try {
    for (;;) {
      const outcome = await context.store.attach(want);
      if (outcome.kind !== "refused" || outcome.refusal.code !== "CLAIM_ABSENT") return outcome;
      const left = deadline - performance.now();
      const woken = await place.wait(Math.min(left, lookAgainMs));
      if (woken === "deadline" && (left <= lookAgainMs || context.waiting.closed)) return outcome;
      if (woken === "full") {
        return { kind: "refused", refusal: refuse("TOO_MANY_WAITING", { count: context.waiting.count }) };
      }
    }
  } finally {
    place.leave();
  }
}
