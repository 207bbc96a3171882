/** What the tests of the sweep are about: its rules, and the owners of the allocations that it judges. */
import type { Rules } from "../../claims/reasons/verdict.ts";
import type { AllocationOwner } from "../../kube/objects.ts";

export const RULES: Rules = {
  graceSeconds: 30,
  podGoneReleaseSeconds: 0,
  clusterGoneReleaseSeconds: 0,
  coolingKeepSeconds: 600,
  definitionOf: () => ({ cooldownSeconds: 60 }),
};
export const CLAIM: AllocationOwner = {
  kind: "IPAMClaim",
  namespace: "shop",
  name: "vm1",
  uid: "c1",
  interface: "",
};
export const POD: AllocationOwner = {
  kind: "Pod",
  namespace: "shop",
  name: "web",
  uid: "p1",
  interface: "net1",
};
