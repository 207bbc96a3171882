import { expect, test } from "vitest";
import { PodDirectory } from "../../claims/pod-directory.ts";
import { namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

const FORMER = "0123456789abcdef0123456789abcdef";
const LATER = "fedcba9876543210fedcba9876543210";
const DEADLINE_MS = Number.MAX_SAFE_INTEGER;

function mirrorOf(uid: string, owner: string): object {
  return {
    metadata: {
      annotations: { "kubernetes.io/config.mirror": uid, "kubernetes.io/config.hash": uid },
      ownerReferences: [{ apiVersion: "v1", kind: "Node", name: owner, uid: "node-uid" }],
    },
  };
}

test.for([
  ["no object", null, "unseen"],
  ["the mirror of the same manifest", mirrorOf(FORMER, "n1"), "living"],
  ["an ordinary pod of the name", { metadata: {} }, "unseen"],
  ["a mirror that its node does not own", mirrorOf(LATER, "n2"), "unseen"],
  ["the mirror of another manifest", mirrorOf(LATER, "n1"), "gone"],
] as const)("whether a static pod has ended is judged by %s", async ([, object, state]) => {
  const api = new KubeInMemory();
  const metadata = { namespace: "shop", name: "web-n1", uid: "5f2b7c1e-0000-4000-8000-000000000001" };
  if (object !== null) {
    const spec = { nodeName: "n1" };
    const status = { phase: "Running" };
    api.put(namespacedPath(PODS_PATH, "shop"), {
      metadata: { ...metadata, ...(object as { metadata: object }).metadata },
      spec,
      status,
    });
  }
  const pods = new PodDirectory(api, () => undefined);
  expect(await pods.stateOf({ ...metadata, uid: FORMER }, DEADLINE_MS)).toBe(state);
});
