import { describe, expect, test } from "vitest";
import { mayUse, sameVm } from "../../claims/vm-identity.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import { claim, owner } from "./objects.ts";

const CREATED = "2026-11-20T10:00:00Z";
const user = (vmi: string | null, vmUid: string | null, createdAt = CREATED) => ({
  key: "shop/virt-launcher-vm-a",
  createdAt,
  vmi: vmi === null ? null : { uid: vmi },
  vmUid,
});
const owned = (...owners: object[]) => projectClaim(claim({ metadata: { ownerReferences: owners } }));
const ofVm = owned(owner("VirtualMachine", "vm-1"));
const ofVmi = owned(owner("VirtualMachineInstance", "vmi-1"));
const unowned = projectClaim(claim({ metadata: { labels: { "kubevirt.io/vm": "vm-a" } } }));

describe("may use a claim", () => {
  test.each([
    [ofVm, user("vmi-1", "vm-1"), true, "a pod of the VM that owns it"],
    [ofVm, user("vmi-2", "vm-1"), true, "the VM after a restart: another VMI"],
    [ofVmi, user("vmi-1", null), true, "a pod of the VMI that owns it"],
    [
      owned(owner("VirtualMachine", "vm-0"), owner("VirtualMachine", "vm-1")),
      user("vmi-1", "vm-1"),
      true,
      "one of two owners",
    ],
    [unowned, user("vmi-9", "vm-9"), true, "nobody owns it; a label is no owner"],
    [unowned, user(null, null), true, "nobody owns it, and no VM"],
    [unowned, null, true, "nobody owns it, and the pod is not known"],
    [owned(owner("Deployment", "d")), user(null, null), true, "an owner that is no VM"],
    [ofVm, user("vmi-9", "vm-9"), false, "without KubeVirt nobody could tell"],
    [ofVm, null, false, "the same, and the pod is not known"],
  ])("case %#", (view, pod, kubevirt, reason) => {
    expect(mayUse({ claim: view, pod, kubevirt }), reason).toEqual({ ok: true });
  });
});

describe("may not use a claim", () => {
  test.each([
    [ofVm, user("vmi-2", "vm-2"), "another VM, perhaps of the same name"],
    [ofVm, user("vmi-1", null), "its VM could not be read"],
    [ofVm, user(null, null), "a plain pod that names a VM's claim"],
    [ofVm, user(null, "vm-1"), "a VM without VMI is none of a pod's"],
    [ofVmi, user("vmi-2", null), "another VMI"],
    [ofVm, null, "the pod is not known"],
  ])("case %#", (view, pod, reason) => {
    expect(mayUse({ claim: view, pod, kubevirt: true }), reason).toMatchObject({
      ok: false,
      refusal: { code: "CLAIM_OTHER_OWNER", cniCode: 11 },
    });
  });

  test("the refusal names the claim, its VM and the pod", () => {
    expect(mayUse({ claim: ofVm, pod: user("vmi-2", "vm-2"), kubevirt: true })).toMatchObject({
      refusal: {
        message:
          "IPAMClaim shop/vm-a.blue belongs to VirtualMachine vm-a (UID vm-1), not to the VM of pod shop/virt-launcher-vm-a",
      },
    });
  });
});

describe("a claim that is being deleted", () => {
  const view = (deletionTimestamp: string, owners: object[] = []) =>
    projectClaim(claim({ metadata: { deletionTimestamp, ownerReferences: owners } }));
  test.each([
    [view("2026-11-20T10:00:01Z"), user(null, null), "ok", "the pod was there before"],
    [view(CREATED), user(null, null), "ok", "the same second: which was first cannot be told"],
    [view("2026-11-20T09:59:59Z"), user(null, null), "CLAIM_TERMINATING", "the pod came later"],
    [view(CREATED), null, "CLAIM_TERMINATING", "the pod is not known"],
    [view(CREATED), user(null, null, "soon"), "CLAIM_TERMINATING", "a time that is none"],
    [
      view(CREATED, [owner("VirtualMachine", "vm-0")]),
      user("vmi-1", "vm-1"),
      "CLAIM_OTHER_OWNER",
      "of a dead VM: that is what an operator must know",
    ],
  ])("case %#", (claimView, pod, expected, reason) => {
    const answer = mayUse({ claim: claimView, pod, kubevirt: true });
    expect(answer.ok ? "ok" : answer.refusal.code, reason).toBe(expected);
  });
});

test.each([
  [user("vmi-1", null), user("vmi-1", null), true, "source and target of a migration"],
  [user("vmi-1", "vm-1"), user("vmi-2", "vm-1"), true, "before and after a restart of the VM"],
  [user("vmi-1", null), user("vmi-2", null), false, "two VMIs without VM"],
  [user("vmi-1", "vm-1"), user("vmi-2", "vm-2"), false, "two VMs"],
  [user(null, null), user(null, null), false, "two plain pods"],
  [user("", ""), user("", ""), false, "empty UIDs are none"],
  [user("vmi-1", "vm-1"), user(null, null), false, "a VM's pod and a plain one"],
])("%j and %j are the same VM: %s", (a, b, expected, _reason) => {
  expect(sameVm(a, b)).toBe(expected);
  expect(sameVm(b, a)).toBe(expected);
});
