import { isSound, sameAllocationOwner } from "../../../allocations/allocation-object.ts";
import { succeedsHolder, toAllocationOwner } from "../../../allocations/owners.ts";
import type { Owner } from "../../../ipam/owner.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { labelSelector } from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, LABEL_NETWORK, LABEL_OWNER } from "../../../kube/objects.ts";

export type OwnedAllocation = InterfaceAddress & { readonly network: string; readonly object: IPAllocation };

/** Which allocations an owner has: what a reservation is decided from. */
export interface Holdings {
  /** Whether they come from a copy that may lag behind: what is kept because of it is read again. */
  readonly mayLag: boolean;
  /** Its sound allocations on a network, cooling ones included, and those that it takes over. Throws ApiAway. */
  of(owner: Owner, network: string, deadlineMs: number): Promise<readonly OwnedAllocation[]>;
  learned(object: IPAllocation): void;
  forgotten(name: string): void;
}

export class ReadHoldings implements Holdings {
  readonly mayLag = false;
  readonly #api: KubeApi;

  constructor(api: KubeApi) {
    this.#api = api;
  }

  async of(owner: Owner, network: string, deadlineMs: number): Promise<OwnedAllocation[]> {
    const wanted = toAllocationOwner(owner);
    const own = (await readOwned(this.#api, owner, deadlineMs)).filter((one) => one.network === network);
    if (!succeedsHolder(wanted, { ...wanted, uid: "" })) return own;
    const former = await listSound(this.#api, labelSelector(LABEL_NETWORK, network), deadlineMs, (object) =>
      succeedsHolder(wanted, object.spec.owner),
    );
    return [...own, ...former.filter((one) => one.network === network)];
  }

  learned(): void {}
  forgotten(): void {}
}

/** All allocations of an owner, on all networks, by a quorum read. Throws ApiAway. */
export function readOwned(api: KubeApi, owner: Owner, deadlineMs: number): Promise<OwnedAllocation[]> {
  const wanted = toAllocationOwner(owner);
  return listSound(api, labelSelector(LABEL_OWNER, owner.uid), deadlineMs, (object) =>
    sameAllocationOwner(object.spec.owner, wanted),
  );
}

export function owned(object: IPAllocation): OwnedAllocation {
  return { ...parseInterfaceAddress(object.spec.address), network: object.spec.network, object };
}

async function listSound(
  api: KubeApi,
  selector: string,
  deadlineMs: number,
  isMeant: (object: IPAllocation) => boolean,
): Promise<OwnedAllocation[]> {
  const found: OwnedAllocation[] = [];
  await api.list({
    path: ALLOCATIONS_PATH,
    query: { labelSelector: selector },
    deadlineMs,
    each: (object: IPAllocation) => {
      if (isSound(object) && isMeant(object)) found.push(owned(object));
    },
    restarted: () => found.splice(0),
  });
  return found;
}
