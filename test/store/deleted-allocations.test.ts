import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { cooled, newAllocation } from "../../allocations/allocation-object.ts";
import { parseRequestedAddress } from "../../ipam/definition/requested-address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { clusterStore, opened } from "./cluster-store.ts";
import { want } from "./subjects.ts";

test("a requested address whose deleted allocation a finalizer keeps is refused after a few requests", async () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-deleted-"));
  const api = new KubeInMemory();
  const one = parseInterfaceAddress("10.0.0.3/29");
  const time = "2026-01-01T00:00:00Z";
  const owner = { kind: "IPAddressClaim", namespace: "shop", name: "m0", uid: "c0", interface: "" } as const;
  const bound = newAllocation("blue", one, { owner, attachment: null }, time) as IPAllocation;
  const object = cooled(bound, time) as IPAllocation;
  const metadata = { ...object.metadata, finalizers: ["somebody.test/else"], deletionTimestamp: time };
  api.put(ALLOCATIONS_PATH, { ...object, metadata });
  const store = await opened(clusterStore({ directory, api }));
  onTestFinished(async () => {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  let requests = 0;
  api.before = () => {
    requests += 1;
    if (requests > 50) throw new ApiAway("the test has seen enough requests");
  };
  const { network, definition } = want("nobody", { ipam: { subnets: "10.0.0.0/29" } });
  const within = IntervalSet.of(one.address.value, one.address.value);
  const requested = parseRequestedAddress("10.0.0.3", "the annotation");
  const outcome = await store.reservations.reserve({
    owner: { kind: "addressClaim", uid: "c1", interface: "", namespace: "shop", name: "m1" },
    network,
    definition,
    request: { kind: "single", family: 4, within, automatic: within, requested },
  });
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "ADDRESS_COOLING" } });
  expect(requests).toBeLessThan(15);
});
