import { afterAll, beforeAll, expect, test } from "vitest";
import { network, type ServedDaemon, TestDaemon } from "../harness/daemon.ts";

let daemon: ServedDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(() => daemon.stop());

/** Applies a claim of a network that is not known yet, and uses it. */
async function restoredBefore(name: string, ips: readonly string[]) {
  const ipam = { subnets: "10.50.0.0/24", gateway: "10.50.0.1" };
  const config = network(name, ipam, { allowPersistentIPs: true });
  const claim = {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name },
    spec: { network: name },
    status: { ips },
  };
  expect((await daemon.post("/v1/apply", { objects: [claim] })).json().results[0].action).toBe("created");
  return daemon.cni("ADD", `c-${name}`, { config, args: `IPAM_CLAIM=default/${name}` });
}

test.each([
  ["the gateway's", ["10.50.0.1/24"], 122],
  ["the broadcast address", ["10.50.0.255/24"], 122],
  ["of another subnet", ["10.51.0.7/24"], 121],
  ["two of one subnet", ["10.50.0.8/24", "10.50.0.9/24"], 130],
])(
  "a restored address of a network that was not defined yet is judged at its first use: %s",
  async (what, ips, code) => {
    const name = what.replaceAll(/[^a-z]/g, "");
    const answer = await restoredBefore(name, ips);
    expect(answer.json()).toMatchObject({ code });
    expect((await daemon.delete(`/v1/claims/default/${name}`)).status).toBe(200);
  },
);

test("a restored address of a network that was not defined yet has the mask of its subnet, in the claim as well", async () => {
  const answer = await restoredBefore("masked", ["10.50.0.7/16"]);
  expect(answer.json().ips).toMatchObject([{ address: "10.50.0.7/24" }]);
  const { items } = (await daemon.get("/v1/claims")).json();
  const claim = items.find(({ metadata }: { metadata: { name: string } }) => metadata.name === "masked");
  expect(claim.status.ips).toEqual(["10.50.0.7/24"]);
});
