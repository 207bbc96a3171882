import { readAttachmentRequest } from "../claims/attachment-request.ts";
import { parseCniArgs } from "../claims/cni-args.ts";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import { waitWhileOpen } from "../guests/ports/open-guests.ts";
import { withBridgeGateways } from "../ipam/definition/bridge-gateway.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { RefusalError } from "../ipam/refusals.ts";
import type { AttachWant } from "../store/allocations.ts";
import { answer, attachWithClaim, bridgeTakesGateway, dnsOf, wantOf } from "./add-parts.ts";
import type { CniContext } from "./context.ts";
import type { DefinedConfig } from "./request.ts";

type Want = AttachWant & { readonly deadlineMs: number };

/** ADD on a standalone node: the CNI result. Throws RefusalError and StorageFault. */
export async function addStandalone(context: CniContext, wire: CniWireRequest): Promise<object> {
  const config = context.configs.read(wire.config);
  const asked = readAttachmentRequest(parseCniArgs(wire.args), config.conf);
  const want = {
    definition: config.definition,
    definitionSource: config.text,
    // Last: V8 takes 2 µs for each property that follows a spread.
    ...wantOf(context, wire, config),
    ...asked,
  };
  return context.gate.serve(want, async (unready) => (unready === null ? attach(context, config, want) : null));
}

async function attach(context: CniContext, config: DefinedConfig, want: Want): Promise<object> {
  const applied = context.store.appliedDefinition(want.network);
  if (applied && want.bridgeIsGateway && withBridgeGateways(applied.definition) !== applied.definition) {
    context.warnings.warn(want.network, bridgeTakesGateway(applied));
  }
  const dns = await dnsOf(context, applied?.definition ?? config.definition);
  const open = waitWhileOpen(context, { network: want.network, conf: config.conf }, want.deadlineMs);
  if (open !== undefined) await open;
  const outcome = want.claim === null ? await context.store.attach(want) : await attachWithClaim(context, want);
  if (outcome.kind === "refused") throw new RefusalError(outcome.refusal);
  for (const { message: warning } of outcome.warnings) {
    context.log.warn({ network: want.network, containerId: want.containerId }, warning);
  }
  for (const note of config.definition.notes) context.warnings.warn(want.network, note);
  if (applied) context.runtimeConfigurations.note(config);
  if (applied && differs(outcome.definition, config.definition)) {
    context.warnings.warn(
      want.network,
      `the ranges in the runtime's configuration are not those of ${applied.by}, which was applied and counts`,
    );
  }
  return answer(context, config, outcome, { dns, deadlineMs: want.deadlineMs });
}

function differs(counts: NetworkDefinition, given: NetworkDefinition): boolean {
  const ranges = (definition: NetworkDefinition) => definition.rangeSets.map((set) => set.fingerprint).join();
  return given.rangeSets.length > 0 && counts !== given && ranges(counts) !== ranges(given);
}
