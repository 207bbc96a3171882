import { expect, onTestFinished, test } from "vitest";
import { ALLOCATIONS_PATH, CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { clusterSubject } from "./cluster-subject.ts";
import { detachWant, want } from "./subjects.ts";

/** A claim that a container on this node uses, in an API server whose restored etcd lacks that. */
async function restored() {
  const clock = new ManualClock();
  const api = new KubeInMemory(clock);
  api.put("/api/v1/namespaces", { metadata: { name: "shop" } });
  for (const name of ["user", "other"])
    api.put("/api/v1/namespaces/shop/pods", { metadata: { name, namespace: "shop", uid: `${name}-uid` } });
  const subject = await clusterSubject({ clock, api, admin: api, close: async () => {} });
  onTestFinished(() => subject.close());
  await subject.createClaim("shop", "web", "blue");
  const attached = await subject.allocations.attach(want("a", { pod: "user", claim: "web" }));
  expect(attached).toMatchObject({ kind: "attached" });
  const recorded = [...api.objects].filter(([path]) => path.startsWith(ALLOCATIONS_PATH));
  expect(recorded).toHaveLength(1);
  for (const [, object] of recorded as [string, IPAllocation][]) {
    expect(Object.keys(object.status?.attachments ?? {})).toHaveLength(1);
    api.put(ALLOCATIONS_PATH, { ...object, status: { ...object.status, attachments: {} } });
  }
  return { ...subject, api, store: subject.store };
}

test("a claim that a container of this node uses is not given to another pod though a restored etcd does not know it", async () => {
  const { allocations } = await restored();
  const other = await allocations.attach(want("b", { pod: "other", claim: "web" }));
  expect(other).toMatchObject({ kind: "refused", refusal: { code: "CLAIM_IN_USE" } });
  expect((other as { refusal: { message: string } }).refusal.message).toContain("pod shop/user (eth0)");

  await allocations.detach(detachWant("a"));
  const later = await allocations.attach(want("c", { pod: "other", claim: "web" }));
  expect(later).toMatchObject({ kind: "attached" });
});

test("a claim whose list a restored etcd does not know gets it again from the node that uses its addresses", async () => {
  const { api, store } = await restored();
  const path = namespacedPath(CLAIMS_PATH, "shop");
  const claim = () => api.at(`${path}/web`);
  const { ips } = claim().status;
  expect(ips).toHaveLength(1);
  api.put(path, { ...claim(), status: { ...claim().status, ips: [] } });
  expect(await store.agreement.judgeHeldUses({ everything: false })).toMatchObject({
    restored: 1,
    republished: ["shop/web"],
  });
  expect(claim().status.ips).toEqual(ips);
});
