import type { EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { ClaimStatus } from "./claim-status.ts";
import { Fulfilment } from "./fulfilment.ts";
import type { MachineCaches } from "./machine-caches.ts";
import type { MachineLedger } from "./machine-ledger.ts";
import { Machines } from "./machines.ts";
import type { Pools } from "./pools.ts";
import { RecordedAddresses } from "./recorded-addresses.ts";
import { RefusedAddresses } from "./refused-addresses.ts";
import { ToldAddresses } from "./told-addresses.ts";

export interface MachineClaimsOptions {
  readonly api: KubeApi;
  readonly caches: MachineCaches;
  readonly pools: Pick<Pools, "stateOf">;
  readonly ledger: MachineLedger;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf">;
  readonly events: Pick<EventWriter, "warn">;
  readonly passMs: number;
  readonly idle: () => string | null;
  readonly onDue: () => void;
  readonly log: Pick<Log, "info" | "warn">;
}

/** The claims of machines and everything that fulfils them, put together; what the caches tell comes in here. */
export class MachineClaims {
  readonly loop: Machines;
  readonly #claims: MachineCaches["claims"];
  readonly #ledger: MachineLedger;
  readonly #told: ToldAddresses;
  readonly #refused: RefusedAddresses;

  constructor(options: MachineClaimsOptions) {
    const { api, caches, ledger, definitions } = options;
    const { clock } = api;
    this.#claims = caches.claims;
    this.#ledger = ledger;
    this.#told = new ToldAddresses(caches.addresses, clock);
    this.#refused = new RefusedAddresses(clock, ledger);
    const status = new ClaimStatus(api, caches.claims);
    const fulfilment = new Fulfilment({
      ...options,
      status,
      recorded: new RecordedAddresses({ caches, ledger, definitions }),
      told: this.#told,
      refused: this.#refused,
    });
    this.loop = new Machines({ ...options, fulfilment, status });
  }

  runPass(signal: AbortSignal): Promise<void> {
    for (const key of this.#told.takeLate()) this.loop.addressChanged({ key });
    return this.loop.runPass(signal);
  }

  get nextMs(): number {
    return Math.min(this.loop.nextMs, this.#told.lateMs);
  }

  claimGone(claim: MachineClaimView): void {
    this.#refused.clear(claim);
    this.#told.forget(claim.key);
    this.loop.claimGone(claim);
  }

  addressSeen(address: MachineAddressView): void {
    this.#told.followed(address);
    this.loop.addressChanged(address);
  }

  addressGone(address: MachineAddressView): void {
    this.#told.gone(address);
    if (!this.#claims.items.has(address.key)) this.#told.forget(address.key);
    this.loop.addressChanged(address);
  }

  allocationSeen(object: IPAllocation): void {
    this.#ledger.upsert(object);
    this.loop.allocationChanged(object, false);
  }

  allocationGone(object: IPAllocation): void {
    this.#ledger.gone(object);
    this.loop.allocationChanged(object, true);
  }
}
