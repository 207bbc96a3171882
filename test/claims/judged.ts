/** What the tests of the sweep are about: its rules, and the owners of the allocations that it judges. */
import { type MachineFacts, UNKNOWN } from "../../claims/reasons/facts.ts";
import type { Rules } from "../../claims/reasons/verdict.ts";
import type { AllocationOwner } from "../../kube/objects.ts";

export const RULES: Rules = {
  graceSeconds: 30,
  podGoneReleaseSeconds: 0,
  clusterGoneReleaseSeconds: 0,
  coolingKeepSeconds: 600,
  wallMs: () => Date.parse("2026-01-01T00:00:00Z"),
  definitionOf: () => ({ cooldownSeconds: 60 }),
};
/** Machines' facts where none are followed. */
export const NO_MACHINES: MachineFacts = {
  addressClaim: () => UNKNOWN,
  machineData: () => UNKNOWN,
  machineAddress: () => UNKNOWN,
  boundTo: () => UNKNOWN,
  cluster: () => UNKNOWN,
  addressPools: () => UNKNOWN,
  namespace: () => UNKNOWN,
  wasPaused: () => UNKNOWN,
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
