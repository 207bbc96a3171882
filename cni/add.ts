import type { PodIdentity } from "../allocations/records.ts";
import { containerKey } from "../claims/add-waiters.ts";
import { readAttachmentRequest } from "../claims/attachment-request.ts";
import { podNameIn, readClusterRequest } from "../claims/cluster-request.ts";
import { type CniArgs, parseCniArgs } from "../claims/cni-args.ts";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import { waitWhileOpen } from "../guests/ports/open-guests.ts";
import { BridgeGateways, withBridgeGateways } from "../ipam/definition/bridge-gateway.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../ipam/definition/plugin-config.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { AttachWant } from "../store/allocations.ts";
import { answer, attachWithClaim, bridgeTakesGateway, dnsOf, wantOf } from "./add-parts.ts";
import type { ClusterContext, CniContext } from "./context.ts";
import { type DefinedConfig, type PluginConfig, readConfig } from "./request.ts";

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

/** How often to check for a claim that does not exist yet, ms: its creator takes seconds, and there is no watch. */
const CLAIM_LOOK_AGAIN_MS = 500;

/** ADDs under way at once, mostly waiting for the API; the runtime retries anyway, so more would only cost memory. */
const UNDER_WAY_MAX = 1_000;

/** A request as far as it can be read without the cluster. */
interface ReadRequest {
  readonly config: PluginConfig;
  readonly args: CniArgs;
  readonly pod: PodIdentity | null;
  readonly base: ReturnType<typeof wantOf>;
}

/** ADD in Kubernetes: the request comes from the pod, its network selection element and the NAD. */
export class ClusterAdds {
  readonly #context: CniContext;
  readonly #cluster: ClusterContext;
  readonly #bridgeGateways = new BridgeGateways();
  #underWay = 0;

  constructor(context: CniContext, cluster: ClusterContext) {
    this.#context = context;
    this.#cluster = cluster;
  }

  /** The CNI result. Throws RefusalError, StorageFault and ApiAway. */
  async add(wire: CniWireRequest): Promise<object> {
    const context = this.#context;
    const config = readConfig(wire.config, "ADD", "0.1.0");
    const args = parseCniArgs(wire.args);
    const pod = podNameIn(args);
    const base = wantOf(context, wire, config);
    const keys = [containerKey(base.containerId, base.interface)];
    return context.gate.serve({ keys, deadlineMs: base.deadlineMs }, async (unready) => {
      const local = await answerHere(context, this.#cluster, config, { pod, ...base });
      return local ?? (unready === null ? this.#addFromCluster(wire, { config, args, pod, base }) : null);
    });
  }

  async #addFromCluster(wire: CniWireRequest, { config, args, pod, base }: ReadRequest): Promise<object> {
    const context = this.#context;
    const cluster = this.#cluster;
    if (this.#underWay >= UNDER_WAY_MAX) throw new RefusalError(refuse("TOO_MANY_WAITING", { count: this.#underWay }));
    const { deadlineMs } = base;
    this.#underWay += 1;
    try {
      const request = await readClusterRequest(
        cluster,
        {
          interface: wire.ifname,
          args,
          conf: config.conf,
          network: base.network,
          ownDefinition: () => ({
            definition: context.configs.read(wire.config).definition,
            source: wire.config,
          }),
        },
        deadlineMs,
      );
      await cluster.imports.ensure(base.network, request, deadlineMs);
      const definition = base.bridgeIsGateway ? this.#bridgeGateways.of(request.definition) : request.definition;
      const definitionLacksGateway = definition !== request.definition;
      if (definitionLacksGateway) {
        const counts = { definition: request.definition, by: "the network's definition" };
        context.warnings.warn(base.network, bridgeTakesGateway(counts));
      }
      const want = { definitionLacksGateway, ...base, ...request, definition };
      const dns = await dnsOf(context, want.definition);
      await waitWhileOpen(context, { network: base.network, conf: config.conf }, deadlineMs);
      const outcome =
        want.claim === null
          ? await context.store.attach(want)
          : await attachWithClaim(context, want, { recheckMs: CLAIM_LOOK_AGAIN_MS });
      if (outcome.kind === "refused") throw new RefusalError(outcome.refusal);
      for (const { reason, message } of outcome.warnings) {
        context.log.warn({ network: want.network, containerId: want.containerId }, message);
        cluster.warnPod(pod, reason, message);
      }
      for (const note of want.definition.notes) context.warnings.warn(want.network, note);
      return await answer(context, config, outcome, { dns, deadlineMs });
    } catch (error) {
      if (error instanceof RefusalError) cluster.tellPod(pod, error.refusal);
      throw error;
    } finally {
      this.#underWay -= 1;
    }
  }
}

/** The part without the API: an exact repeat is answered from the journal, even while nothing else can be. */
async function answerHere(
  context: CniContext,
  { store }: Pick<ClusterContext, "store">,
  config: PluginConfig,
  base: Pick<AttachWant, "network" | "containerId" | "interface" | "stamp" | "netns" | "onePerFamily" | "pod"> & {
    readonly deadlineMs: number;
  },
): Promise<object | null> {
  const definition = context.store.definition(base.network) ?? ownOrBare(config);
  const outcome = await store.answerLocally({
    definition,
    definitionSource: config.text,
    claim: null,
    requested: [],
    ...base,
  });
  if (outcome === null) return null;
  if (outcome.kind === "refused") throw new RefusalError(outcome.refusal);
  const dns = await dnsOf(context, outcome.definition);
  return answer(context, config, outcome, { dns, deadlineMs: base.deadlineMs });
}

/** A repeat is answered with its addresses even when its network cannot be determined any more. */
function ownOrBare(config: PluginConfig): NetworkDefinition {
  try {
    return parsePluginConfig(config.conf);
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return parsePluginConfig({ name: config.conf.name, ipam: { type: "holdfast-ipam" } });
  }
}
