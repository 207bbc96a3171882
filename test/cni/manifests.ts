/** IPAMClaims and NetworkAttachmentDefinitions, and what a pod says to use them. */
import { expect } from "vitest";
import type { AppliedResult } from "../../admin/admin-api.ts";
import type { ClaimManifest } from "../../store/manifests.ts";
import { network, type ServedDaemon } from "../harness/daemon.ts";

/** The runtime's configuration of a network whose claims persist; the interface names a claim of it. */
export function withClaim(reference: unknown, ipam: object = {}, plugin: object = {}): object {
  const args = { cni: { "ipam-claim-reference": reference } };
  return network("blue", ipam, { allowPersistentIPs: true, args, ...plugin });
}

export function claim(name: string, spec: object = {}, more: object = {}) {
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name, namespace: "default" },
    spec: { network: "blue", interface: "eth0", ...spec },
    ...more,
  };
}

/** A NetworkAttachmentDefinition around a plugin configuration. */
export function nad(name: string, config: object) {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify(config) },
  };
}

/** Applies objects that must be taken; what was done with each. */
export async function apply(daemon: ServedDaemon, ...objects: object[]): Promise<string[]> {
  const results = await tryApply(daemon, ...objects);
  return results.map((result) => {
    expect(result).not.toHaveProperty("error");
    return "action" in result ? result.action : "";
  });
}

/** Applies objects of which some may be refused. */
export async function tryApply(daemon: ServedDaemon, ...objects: unknown[]): Promise<AppliedResult[]> {
  const answer = await daemon.post("/v1/apply", { objects });
  expect(answer.status, answer.body).toBe(200);
  return answer.json().results;
}

export async function claims(daemon: ServedDaemon): Promise<ClaimManifest[]> {
  const found: ClaimManifest[] = [];
  for (let token: string | undefined = ""; token !== undefined; ) {
    const page = (await daemon.get(`/v1/claims${token === "" ? "" : `?continue=${token}`}`)).json();
    found.push(...page.items);
    token = page.continue;
  }
  return found;
}

/** One claim as `GET /v1/claims` shows it; fails when there is none of that name. */
export async function claimNamed(daemon: ServedDaemon, name: string): Promise<ClaimManifest> {
  const found = (await claims(daemon)).find(({ metadata }) => metadata.name === name);
  if (!found) throw new Error(`there is no claim ${name}`);
  return found;
}

/** The condition of a claim in short: `True SuccessfulAllocation`. */
export async function conditionOf(daemon: ServedDaemon, name: string): Promise<string> {
  const conditions = (await claimNamed(daemon, name)).status?.conditions ?? [];
  const lines = (conditions as { type: string; status: string; reason: string }[]).map((one) => {
    expect(one.type).toBe("IPsAllocated");
    return `${one.status} ${one.reason}`;
  });
  expect(lines.length).toBeLessThanOrEqual(1);
  return lines[0] ?? "none";
}
