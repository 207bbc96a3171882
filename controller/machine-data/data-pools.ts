import { problemOf } from "../../kube/answers.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { NAME_CHARS_MAX } from "../../kube/object-names.ts";
import { API_VERSION, namespacedPath } from "../../kube/objects.ts";
import type { MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { MachineDataView } from "../../kube/views/machine-data-view.ts";
import type { PoolReference, PoolResult } from "../../metadata/documents/machine-template.ts";
import type { MachineCaches } from "../capi/machine-caches.ts";
import { addressClaimBody, apiVersionAt } from "./data-bodies.ts";
import { failed, type Held, waiting } from "./data-status.ts";

export type PoolOutcome = { readonly kind: "given"; readonly result: PoolResult } | Held;

/** Addresses of AddressPools that data objects hold themselves, where no Cluster API is. */
export interface DirectAddresses {
  /** What the ledger has for this very data object; null: nothing. */
  held(data: MachineDataView, pool: string): PoolOutcome | null;
  /** Throws ApiAway. */
  reserve(data: MachineDataView, pool: string): Promise<PoolOutcome>;
}

export interface DataPoolsOptions {
  readonly api: KubeApi;
  readonly machines: Pick<MachineCaches, "claims" | "addresses" | "pools" | "metal3Pools">;
  /** Of a network's definition. */
  readonly dnsServersOf: (network: string) => readonly string[];
  readonly direct: DirectAddresses;
}

const ADDRESS_POOL = { apiGroup: API_VERSION.replace(/\/.*$/, ""), kind: "AddressPool" };
const METAL3_GROUP = "ipam.metal3.io";

/**
 * The addresses of data objects: one of each pool that the template names, claimed as `<metal3data>-<pool>` with an
 * IPAddressClaim where Cluster API serves them, else reserved directly. What an object has it keeps, whether or not
 * Cluster API comes or goes afterwards: a machine is told its addresses once.
 */
export class DataPools {
  readonly #options: DataPoolsOptions;
  readonly #objects: ObjectClient;

  constructor(options: DataPoolsOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** `mayTake`: an object that has nothing of the pool may be given an address. Throws ApiAway. */
  resultOf(data: MachineDataView, reference: PoolReference, mayTake: boolean): Promise<PoolOutcome> | PoolOutcome {
    const { machines, direct } = this.#options;
    const { claims } = machines;
    const held = direct.held(data, reference.name);
    if (held !== null) return held;
    const claim = claims.items.get(`${data.namespace}/${claimName(data, reference)}`);
    if (!claims.missing && claim !== undefined) return this.#answerOf(data, claim);
    if (!mayTake)
      return waiting(
        "AddressMissing",
        `it was rendered with an address of pool ${reference.name} that it has no longer: delete this object to have another, under the same index`,
      );
    const pool = this.#servedPool(reference);
    if (!claims.missing) return this.#claim(data, pool);
    if (isAddressPool(pool)) return direct.reserve(data, pool.name);
    return failed(
      "PoolNotServed",
      `pool ${pool.name} is a ${pool.kind} of ${pool.apiGroup}, and Cluster API's IPAddressClaims are not served: name an AddressPool`,
    );
  }

  /** Where Metal3's pools are not served, one means the AddressPool of its name: it is what templates default to. */
  #servedPool(reference: PoolReference): PoolReference {
    const { metal3Pools } = this.#options.machines;
    const isMetal3 = reference.apiGroup === METAL3_GROUP && reference.kind === "IPPool";
    return isMetal3 && metal3Pools.missing ? { ...ADDRESS_POOL, name: reference.name } : reference;
  }

  async #claim(data: MachineDataView, pool: PoolReference): Promise<PoolOutcome> {
    const { path } = this.#options.machines.claims;
    const name = claimName(data, pool);
    if (name.length > NAME_CHARS_MAX) {
      const message = `the name ${name} of its IPAddressClaim has ${name.length} characters, and Kubernetes accepts ${NAME_CHARS_MAX}: rename template or pool`;
      return failed("PoolClaimFailed", message);
    }
    const body = addressClaimBody(data, name, pool, apiVersionAt(path));
    const created = await this.#objects.create(namespacedPath(path, data.namespace), body);
    // A conflict: the copy does not show it yet.
    if (created.kind === "done" || created.kind === "conflict")
      return waiting("WaitingForAddress", `IPAddressClaim ${data.namespace}/${name} has no address yet`);
    const problem = problemOf(created.answer);
    return failed("PoolClaimFailed", `IPAddressClaim ${data.namespace}/${name} cannot be created: ${problem}`);
  }

  #answerOf(data: MachineDataView, claim: MachineClaimView): PoolOutcome {
    const { addresses } = this.#options.machines;
    const wait = (why: string) => waiting("WaitingForAddress", `IPAddressClaim ${claim.key} ${why}`);
    const isOwn = claim.owners.some(({ uid }) => uid === data.uid);
    // One that nobody owns was made for this object in advance.
    if (!isOwn && claim.owners.length > 0)
      return wait("belongs to another object; delete it if nothing needs it any more");
    if (claim.deletionTimestamp !== null && !(isOwn && claim.addressRef !== null)) return wait("is being deleted");
    if (claim.addressRef === null) return wait(`has no address yet${said(claim)}`);
    const address = addresses.items.get(`${data.namespace}/${claim.addressRef}`);
    if (address === undefined) return wait(`refers to IPAddress ${claim.addressRef}, which does not exist`);
    const dnsServers = isAddressPool(claim.pool) ? this.#dnsServersOf(data.namespace, claim.pool.name) : [];
    const { prefix, gateway } = address;
    return { kind: "given", result: { address: address.address, prefix, gateway, dnsServers } };
  }

  #dnsServersOf(namespace: string, pool: string): readonly string[] {
    const { machines, dnsServersOf } = this.#options;
    const view = machines.pools.items.get(`${namespace}/${pool}`);
    return view === undefined ? [] : dnsServersOf(view.network);
  }
}

function claimName(data: MachineDataView, pool: { readonly name: string }): string {
  return `${data.name}-${pool.name}`;
}

function isAddressPool({ apiGroup, kind }: PoolReference): boolean {
  return apiGroup === ADDRESS_POOL.apiGroup && kind === ADDRESS_POOL.kind;
}

function said({ conditions, otherConditions }: MachineClaimView): string {
  const ready = [...conditions, ...otherConditions].find(({ type }) => type === "Ready");
  return ready?.message ? `: ${ready.message}` : "";
}
