import { expect, test } from "vitest";
import { type ClaimSays, claimSays } from "../../claims/reasons/claim-says.ts";
import type { JudgedAllocation } from "../../claims/reasons/verdict.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import type { IPAllocation } from "../../kube/objects.ts";

const definitionOf = (name: string) => {
  const ipam = { type: "holdfast-ipam", subnets: "10.1.0.0/24,10.2.0.0/24,10.3.0.0/24" };
  return parsePluginConfig({ cniVersion: "1.0.0", name, type: "bridge", ipam });
};

function had(network: string, address: string): JudgedAllocation {
  const owner = { kind: "IPAMClaim", namespace: "shop", name: "db.nic", uid: "c1", interface: "" };
  const object = { metadata: { name: `${network}-${address}` }, spec: { network, address, owner }, status: {} };
  return { object: object as unknown as IPAllocation, address: address.split("/")[0] ?? "" };
}

test("a claim says the same in whichever order its allocations are found", () => {
  const claim = {
    ...{ namespace: "shop", name: "db.nic", uid: "c1", network: "red", creationTimestamp: "", isDeleting: false },
    ips: ["10.3.0.7/24", "10.1.0.7/24", "10.2.0.7/24"],
    vm: null,
  };
  const wants = { network: "red", asks: [], vmi: null, nad: "" };
  const facts = { pod: () => ({ kind: "absent" }) as const, networkOfNad: () => ({ kind: "absent" }) as const };
  const says = (all: readonly JudgedAllocation[]) =>
    (claimSays(claim, all, wants, facts, { definitionOf }) as { it: ClaimSays }).it;
  const all = [had("blue", "10.1.0.7/24"), had("green", "10.2.0.7/24"), had("red", "10.3.0.7/24")];
  expect(says(all).ips).toEqual(claim.ips);
  for (const other of [all.toReversed(), [...all.slice(1), ...all.slice(0, 1)]]) expect(says(other).isRight).toBe(true);
});
