import { expect, test } from "vitest";
import { type KubeAnswer, KubeApi, type KubeObject } from "../harness/kube-api.ts";
import { Ledger } from "./ledger.ts";
import { lostOrLeaked } from "./truth.ts";

/** Lists what a test gives it: allocations, and claims. */
class ListedObjects extends KubeApi {
  readonly #allocations: readonly KubeObject[];
  readonly #claims: readonly KubeObject[];

  constructor(allocations: readonly KubeObject[], claims: readonly KubeObject[] = []) {
    super();
    this.#allocations = allocations;
    this.#claims = claims;
  }

  override async call(_method: string, path: string): Promise<KubeAnswer> {
    return { status: 200, body: { items: path.includes("ipamclaims") ? this.#claims : this.#allocations } };
  }

  override close(): void {}
}

const IP = "10.0.0.2/24";

function allocation(uid: string, ...attachments: string[]): KubeObject {
  return {
    spec: { network: "blue", address: IP, owner: { kind: "Pod", name: uid, uid } },
    status: { state: "Bound", attachments: Object.fromEntries(attachments.map((one) => [one, {}])) },
  };
}

function ledgerOf(isClaim: boolean): Ledger {
  const ledger = new Ledger();
  ledger.answered({
    ...{ network: "blue", ips: [IP], owner: "mine", isClaim },
    ...{ node: "n1", container: "c1", ifname: "net1" },
  });
  return ledger;
}

test("an answered address must be Bound, to its owner, and in use by its container", async () => {
  const wrong = (objects: KubeObject[]) => lostOrLeaked(new ListedObjects(objects), ledgerOf(false));
  expect(await wrong([allocation("mine", "c1/net1")])).toEqual([]);
  expect(await wrong([])).toEqual([expect.stringMatching(/^lost: /)]);
  expect(await wrong([allocation("other", "c1/net1")])).toEqual([expect.stringContaining("Bound to other")]);
  expect(await wrong([allocation("mine", "c0/net1")])).toEqual([expect.stringContaining("not in use by c1/net1")]);
});

test("an address that no ADD was answered with must not be Bound", async () => {
  const found = await lostOrLeaked(new ListedObjects([allocation("ghost")]), new Ledger());
  expect(found).toEqual([expect.stringMatching(/^leaked: .* Bound to Pod ghost/)]);
});

test("a claim keeps and lists its address without a container", async () => {
  const ledger = ledgerOf(true);
  ledger.ending("c1", "net1");
  const wrong = (ips: readonly string[]) =>
    lostOrLeaked(new ListedObjects([allocation("mine")], [{ metadata: { uid: "mine" }, status: { ips } }]), ledger);
  expect(await wrong([IP])).toEqual([]);
  expect(await wrong([])).toEqual([expect.stringContaining("claim mine was given")]);
});
