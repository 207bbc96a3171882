import { NetworkImports } from "./network-imports.ts";
import { NetworkStatus } from "./network-status.ts";
import { OrphanNetworks, type OrphanNetworksOptions } from "./orphan-networks.ts";
import type { ControllerPart, PartContext } from "./part.ts";
import { LostNetworks } from "./protection/lost-networks.ts";
import { NetworkProtection } from "./protection/network-protection.ts";
import { Recoveries } from "./recoveries.ts";
import { UdnConditions } from "./udn-conditions.ts";

/** How often networks are imported and their protection looked after, ms. */
const NETWORKS_INTERVAL_MS = 3_000;
/** A pass that one lost answer has made long rests no longer than this, ms: ADDs on new networks wait for the next. */
const NETWORKS_REST_MS_MAX = 3_000;
/** How often the counts and the taken addresses of networks that have changed are written, ms. */
const STATUS_INTERVAL_MS = 1_000;

interface NetworkPartsOptions extends PartContext {
  readonly pools: OrphanNetworksOptions["pools"];
  onRefused(count: number): void;
}

/** What was in use before a network was ours, what it has, and when it goes. */
export class NetworkParts {
  readonly status: NetworkStatus;
  readonly udnConditions: UdnConditions;
  readonly lost: LostNetworks;
  readonly parts: readonly ControllerPart[];

  constructor(options: NetworkPartsOptions) {
    const { api, log, idle, settings, watched, pools, events, occur, onRefused, serverMs } = options;
    const { allocations, networks, catalog: definitions } = watched;
    const shared = { api, log, idle, networks };
    const imports = new NetworkImports({ ...shared, definitions, onRefused });
    const { usedSpaces } = watched;
    const status = new NetworkStatus({ ...shared, definitions, allocations, usedSpaces, serverMs });
    const keepSeconds = Math.max(settings.coolingKeepSeconds, settings.sweepGraceSeconds);
    const orphans = new OrphanNetworks({ ...shared, definitions, allocations, pools, keepSeconds });
    const protection = new NetworkProtection({ ...shared, allocations, events });
    const lost = new LostNetworks({ ...shared, definitions, allocations, pools, events });
    const recoveries = new Recoveries(shared);
    const onChange = () => occur("udns-changed");
    const udnConditions = new UdnConditions({ api, log, idle, events, onChange });
    this.status = status;
    this.udnConditions = udnConditions;
    this.lost = lost;
    this.parts = [
      {
        ...{ name: "the networks", everyMs: NETWORKS_INTERVAL_MS },
        triggers: ["changed", "definitions-changed"],
        rest: { restMsMax: NETWORKS_REST_MS_MAX },
        nextMs: () => {
          const againMs = api.clock.monotonicMs() + NETWORKS_INTERVAL_MS;
          if (lost.waits || imports.waits) return againMs;
          return Math.max(againMs, Math.min(orphans.nextMs, recoveries.nextMs));
        },
        work: async (signal) => {
          if (watched.definitionsKnown) await lost.runPass(signal);
          await protection.runPass(signal);
          if (watched.definitionsKnown) await imports.runPass(signal);
          if (watched.definitionsKnown) await orphans.runPass(signal);
          await recoveries.runPass(signal);
        },
      },
      {
        ...{ name: "the counts of networks", everyMs: STATUS_INTERVAL_MS },
        triggers: ["changed", "definitions-changed"],
        nextMs: () => status.nextMs,
        work: (signal) => status.runPass(signal, { writes: idle() === null }),
      },
      {
        ...{ name: "the user-defined networks", triggers: ["udns-changed"] },
        everyMs: settings.sweepIntervalSeconds * 1_000,
        work: (signal) => udnConditions.runPass(signal),
      },
    ];
  }
}
