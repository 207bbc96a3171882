import { expect, test } from "vitest";
import { shortContainerId, shortHolder, usersOf } from "../../cli/holder.ts";
import type { Owner } from "../../ipam/owner.ts";

const CONTAINER_ID = "3fa9c21b07de5f60aa11b2c4";
const claim: Owner = { kind: "claim", uid: "u1", interface: "", namespace: "default", name: "vm1" };
const pod: Owner = { kind: "pod", uid: "u2", interface: "net1", namespace: "shop", name: "web-0" };
const container: Owner = { kind: "container", uid: CONTAINER_ID, interface: "eth0", namespace: "", name: "" };

function use(name: string | null, containerID = CONTAINER_ID) {
  return {
    pod: name === null ? null : { namespace: "default", name, uid: `uid-${name}` },
    containerID,
    interface: "net1",
  };
}

test("holders are short enough for a table", () => {
  expect([claim, pod, container].map(shortHolder)).toEqual([
    "claim default/vm1",
    "pod shop/web-0 (net1)",
    "container 3fa9c21b07de… (eth0)",
  ]);
  expect(shortContainerId("podman-db")).toBe("podman-db");
});

test.each([
  ["a stopped VM", claim, [], ""],
  ["a running VM", claim, [use("launcher-a")], "pod default/launcher-a"],
  [
    "a VM that migrates",
    claim,
    [use("launcher-a"), use("launcher-b")],
    "pod default/launcher-a,pod default/launcher-b",
  ],
  ["two sandboxes of one pod", claim, [use("launcher-a"), use("launcher-a", "other")], "pod default/launcher-a"],
  ["a VM outside Kubernetes", claim, [use(null)], "container 3fa9c21b07de… (net1)"],
  ["a pod without a name", claim, [use("")], "pod default/uid-"],
  ["a pod: its sandbox", pod, [use("web-0")], "container 3fa9c21b07de… (net1)"],
  ["a container without a pod", container, [use(null)], "container 3fa9c21b07de… (net1)"],
  ["a container that has ended", container, [], ""],
])("used by: %s", (_what, owner, attachments, text) => {
  expect(usersOf(owner, attachments)).toBe(text);
});
