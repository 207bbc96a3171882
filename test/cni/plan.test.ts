/** `POST /v1/plan` beside what the ADD then does: it must never say something else. */
import { expect } from "vitest";
import { claimOfInterface } from "../../claims/vm-claims.ts";
import { ADDRESSES_ANNOTATION } from "../../kube/views/requested-addresses.ts";
import { network, pod, test } from "./fixtures.ts";
import { apply, claim, nad, withClaim } from "./manifests.ts";

const NETWORK = "lan";
const CONFIG = network(
  "blue",
  {
    subnets: "10.10.0.0/26,fd10::/122",
    gateway: "10.10.0.1",
    excludeSubnets: "10.10.0.4/31",
    reservedSubnets: "10.10.0.12/30",
    cooldownSeconds: 0,
    retainSeconds: 3_600,
  },
  { allowPersistentIPs: true },
);

function vmThatAsks(name: string, addresses: readonly string[]): object {
  const annotations = { [ADDRESSES_ANNOTATION]: JSON.stringify({ [NETWORK]: addresses }) };
  return {
    kind: "VirtualMachine",
    metadata: { name },
    spec: {
      template: {
        metadata: { annotations },
        spec: { networks: [{ name: NETWORK, multus: { networkName: "blue" } }] },
      },
    },
  };
}

test("what a plan says of a VM is what its first start gets, whoever has the addresses", async ({ daemon }) => {
  await apply(daemon, nad("blue", CONFIG));
  let seed = 4_711;
  const nat = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };
  const running = new Set<string>();
  const codes = new Set<number>();
  for (let round = 0; round < 150; round++) {
    const name = `vm${nat(12)}`;
    if (running.has(name)) continue;
    const own = claimOfInterface(name, NETWORK);
    const asked = Array.from({ length: 1 + nat(2) }, () =>
      nat(2) === 0 ? `10.10.${nat(12) === 0 ? 9 : 0}.${nat(18)}` : `fd10::${nat(18).toString(16)}`,
    );
    const plan = await daemon.post("/v1/plan", { objects: [vmThatAsks(name, asked)] });
    const said: { readonly state: string; readonly message?: string }[] = plan.json().items;
    await apply(daemon, claim(own));
    const config = withClaim(own, {}, { capabilities: { ips: true }, runtimeConfig: { ips: asked } });
    const answer = await daemon.cni("ADD", `c${round}`, { config, args: pod(`uid-${round}`) });
    const isGiven = answer.code === 0;
    const what = `round ${round}: ${name} asks for ${asked.join(", ")}: ${answer.stdout}`;
    expect(said.map(({ state }) => state).includes("refused"), what).toBe(!isGiven);
    // Of several addresses each is told what is wrong with it, and an ADD names one.
    // Multus hands over as runtimeConfig what the VM has as an annotation: each names where it read it.
    const asAdd = (message: string) =>
      message.replace(`annotation ${ADDRESSES_ANNOTATION}, ${NETWORK}`, "runtimeConfig.ips");
    if (!isGiven && asked.length === 1) expect(asAdd(said[0]?.message ?? ""), what).toBe(answer.json().msg);
    codes.add(isGiven ? 0 : answer.json().code);
    if (isGiven && nat(4) === 0) running.add(name);
    else {
      await daemon.cni("DEL", `c${round}`, { config });
      await daemon.delete(`/v1/claims/default/${own}`);
    }
  }
  expect([...codes].sort()).toEqual([0, 120, 121, 122, 7]);
});
