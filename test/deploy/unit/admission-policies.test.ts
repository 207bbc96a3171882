import { describe, expect, test } from "vitest";
import { cooled } from "../../../allocations/allocation-object.ts";
import { review, shippedPolicies } from "../../harness/admission.ts";
import { ALLOCATION_CASES } from "../../harness/admission-cases/allocations.ts";
import { type AdmissionCase, DAEMON, ofClaim, requestOf, TIME } from "../../harness/admission-cases/objects.ts";
import { CLAIM_CASES, NETWORK_CASES } from "../../harness/admission-cases/others.ts";

const TABLES = [
  ["an IPAllocation", "holdfast-node-allocations", ALLOCATION_CASES],
  ["an IPNetwork", "holdfast-node-networks", NETWORK_CASES],
  ["the status of an IPAMClaim", "holdfast-node-claims", CLAIM_CASES],
] as const;
const refusals = (one: AdmissionCase) => review(requestOf(one)).refusals;

describe.each(TABLES)("what a daemon writes of %s:", (_, policy, cases) => {
  const isAllowed = ({ refused }: AdmissionCase) => refused === null;

  test.each(cases.filter(isAllowed))("it may $name", (one) => expect(refusals(one)).toEqual([]));

  test.each(cases.filter((one) => !isAllowed(one)))("a stolen token may not $name", (one) =>
    expect(refusals(one).join("\n")).toMatch(one.refused as RegExp),
  );

  test("each rule refuses a case here that no other rule refuses", () => {
    const [shipped] = shippedPolicies().filter(({ metadata }) => metadata.name === policy);
    const rules: { message: string }[] = shipped === undefined ? [] : shipped.spec.validations;
    expect(rules).not.toEqual([]);
    for (const { message } of rules) {
      const alone = cases.filter((one) => refusals(one).join() === message);
      expect(alone.length, message).toBeGreaterThan(0);
    }
  });
});

const RELEASE: AdmissionCase = {
  ...{ resource: "ipallocations", name: "release another node's address", refused: null },
  ...{ before: ofClaim("b"), after: cooled(ofClaim("b"), TIME) },
};

test("the policies do not restrict the controller and administrators", () => {
  for (const user of ["system:serviceaccount:holdfast-system:holdfast-controller", "kubernetes-admin"])
    expect(refusals({ ...RELEASE, user, node: null })).toEqual([]);
});

test("the policies hold the daemons of every namespace that Holdfast can be installed in", () => {
  for (const user of [DAEMON, "system:serviceaccount:network-addresses:holdfast-node"])
    expect(refusals({ ...RELEASE, user })).not.toEqual([]);
});

test("the policies have every field that Kubernetes 1.30 requires", () => {
  for (const { apiVersion, spec } of shippedPolicies()) {
    expect(apiVersion).toBe("admissionregistration.k8s.io/v1");
    expect(spec.failurePolicy).toBe("Fail");
    for (const { reason, message } of spec.validations) {
      // Any other reason is answered 422, which the daemon takes for an object that changed meanwhile.
      expect(reason).toBe("Forbidden");
      expect(message).toMatch(/^[a-z]/);
    }
  }
});
