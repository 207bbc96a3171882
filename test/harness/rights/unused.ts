import type { TestModule, Vitest } from "vitest/node";
import { shippedRights, titleOf } from "./shipped.ts";

/** The project whose tests use everything that the shipped roles allow (docs/decisions/0087). */
const PROJECT = "worlds";

const OWNERS =
  "OwnerReferencesPermissionEnforcement asks for it where we name an owner that waits (blockOwnerDeletion)";
const OPENSHIFT = "OpenShift asks for it where a pod of the account is created";
/** Rights that no request of ours uses: only the admission of a server asks for them. */
const ONLY_ADMISSION: Readonly<Record<string, string>> = {
  "holdfast-controller update addresspools/finalizers.ipam.holdfast.dev": OWNERS,
  "holdfast-controller update ipaddressclaims/finalizers.ipam.cluster.x-k8s.io": OWNERS,
  "holdfast-controller update metal3datatemplates/finalizers.infrastructure.cluster.x-k8s.io": OWNERS,
  "holdfast-controller update metal3dataclaims/finalizers.infrastructure.cluster.x-k8s.io": OWNERS,
  "holdfast-controller update metal3datas/finalizers.infrastructure.cluster.x-k8s.io": OWNERS,
  "holdfast-node use securitycontextconstraints.security.openshift.io privileged": OPENSHIFT,
  "holdfast-controller use securitycontextconstraints.security.openshift.io privileged": OPENSHIFT,
  "holdfast-metadata use securitycontextconstraints.security.openshift.io privileged": OPENSHIFT,
};

/**
 * What is wrong with the rights of deploy/ by the uses that were seen: rights that nothing uses, and rows of the table
 * without a right.
 */
export function problemsOf(uses: ReadonlySet<string>, rights = shippedRights().map(titleOf)): string[] {
  const rows = Object.keys(ONLY_ADMISSION);
  return [
    ...[...new Set(rights)]
      .filter((title) => !uses.has(title) && !rows.includes(title))
      .map((title) => `no test uses this right of deploy/, so nothing seems to need it: ${title}`),
    ...rows
      .filter((title) => !rights.includes(title) || uses.has(title))
      .map((title) => `not a right that only admission asks for: ${title}`),
  ];
}

/**
 * The problems that a run has shown. None where it ran a part of the project only (some of its files, a filter of
 * names), or failed: what did not run has used nothing.
 */
export async function unusedRights(vitest: Vitest, modules: readonly TestModule[]): Promise<string[]> {
  const project = vitest.projects.find(({ name }) => name === PROJECT);
  if (project === undefined) return [];
  const own = modules.filter((module) => module.project.name === PROJECT);
  const ran = new Set(own.map(({ moduleId }) => moduleId));
  const { testFiles } = await project.globTestFiles();
  if (testFiles.length === 0 || testFiles.some((file) => !ran.has(file))) return [];
  const tests = own.flatMap((module) => [...module.children.allTests()]);
  if (own.some((module) => !module.ok()) || tests.some((test) => test.result().state !== "passed")) return [];
  return problemsOf(new Set(own.flatMap((module) => module.meta().usedRights ?? [])));
}
