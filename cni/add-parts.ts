import { claimKey, containerKey } from "../claims/add-waiters.ts";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import { answerOf } from "../guests/ports/admission.ts";
import { gatewaysOf, withBridgeGateways } from "../ipam/definition/bridge-gateway.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { nodeIsGateway } from "../ipam/definition/plugin-config.ts";
import { refuse } from "../ipam/refusals.ts";
import { formatAddress } from "../ipam/space/address.ts";
import type { AttachOutcome, AttachWant } from "../store/allocations.ts";
import type { CniContext } from "./context.ts";
import { networkNameOf, type PluginConfig, stampOfLive } from "./request.ts";
import { formatResult } from "./result.ts";

export function wantOf(
  context: CniContext,
  wire: CniWireRequest,
  config: PluginConfig,
): Pick<
  AttachWant,
  "network" | "containerId" | "interface" | "stamp" | "netns" | "onePerFamily" | "bridgeIsGateway"
> & { readonly deadlineMs: number } {
  return {
    deadlineMs: context.clock.monotonicMs() + context.addDeadlineMs,
    network: networkNameOf(config),
    containerId: wire.containerId,
    interface: wire.ifname,
    stamp: stampOfLive(context, wire),
    netns: context.namespaces.identify(wire.netns, wire.netnsId),
    bridgeIsGateway: nodeIsGateway(config.conf),
    onePerFamily: config.cniVersion === "0.1.0" || config.cniVersion === "0.2.0",
  };
}

/** Recorded once: from then on the network has this gateway. */
export function bridgeTakesGateway({ definition, by }: { definition: NetworkDefinition; by: string }): string {
  const named = new Set(gatewaysOf(definition).map(formatAddress));
  const taken = gatewaysOf(withBridgeGateways(definition))
    .map(formatAddress)
    .filter((address) => !named.has(address));
  return `${by} counts and names no gateway for every subnet, and with the runtime's configuration the node is the gateway (isGateway, or ptp): ${taken.join(", ")} is the node's and is not given; write gateway or isGateway into ${by}`;
}

export async function answer(
  context: CniContext,
  config: PluginConfig,
  outcome: Extract<AttachOutcome, { kind: "attached" }>,
  { dns, deadlineMs }: { readonly dns: NetworkDefinition["dns"]; readonly deadlineMs: number },
): Promise<object> {
  const { ips: answered, routes } = await answerOf(context, config, outcome, deadlineMs);
  const result = formatResult(config.cniVersion, { ips: answered, routes, dns });
  context.machine.killPoint?.("before-answer");
  const { network, containerId, interface: name, ips, pod } = outcome.attachment;
  context.log.debug({ network, containerId, interface: name, ips, pod, repeat: outcome.repeat }, "ADD");
  return result;
}

/** Called before an address is reserved: without it there is no answer. Throws RefusalError CONFIG_INVALID. */
export async function dnsOf(
  { resolverFiles }: Pick<CniContext, "resolverFiles">,
  { dns, resolvConf }: NetworkDefinition,
): Promise<NetworkDefinition["dns"]> {
  return resolvConf === undefined ? dns : resolverFiles.read(resolvConf);
}

/** Waits for a claim that does not exist yet, within the deadline; an address is never allocated without it. */
export async function attachWithClaim(
  context: CniContext,
  want: AttachWant & { readonly deadlineMs: number },
  { recheckMs = Number.POSITIVE_INFINITY }: { readonly recheckMs?: number } = {},
): Promise<AttachOutcome> {
  const claim = want.claim as NonNullable<AttachWant["claim"]>;
  const place = context.waiting.enter([claimKey(claim), containerKey(want.containerId, want.interface)]);
  const { clock } = context;
  try {
    for (;;) {
      const outcome = await context.store.attach(want);
      if (outcome.kind !== "refused" || outcome.refusal.code !== "CLAIM_ABSENT") return outcome;
      const left = want.deadlineMs - clock.monotonicMs();
      const woken = await place.wait(Math.min(left, recheckMs));
      if (woken === "deadline" && left <= recheckMs) return outcome;
      if (woken === "closed") return { kind: "refused", refusal: refuse("DAEMON_ENDING", {}) };
      if (woken === "full") {
        return { kind: "refused", refusal: refuse("TOO_MANY_WAITING", { count: context.waiting.count }) };
      }
    }
  } finally {
    place.leave();
  }
}
