import { describe, expect, test } from "vitest";
import { projectSweptPod } from "../../../claims/reasons/fact-views.ts";
import { formatAddress } from "../../../ipam/space/address.ts";
import { statusAddresses } from "../../../kube/views/held-addresses.ts";
import { projectPod } from "../../../kube/views/pod-view.ts";
import { owner, pod } from "../../claims/objects.ts";

const STATUS = "k8s.v1.cni.cncf.io/network-status";
const POD_NETWORKS = "k8s.ovn.org/pod-networks";

test("a plain pod has no claims and no addresses", () => {
  expect(projectPod(pod())).toEqual({
    key: "shop/web",
    namespace: "shop",
    name: "web",
    uid: "uid-1",
    resourceVersion: "7",
    creationTimestamp: "2026-11-20T10:00:00Z",
    deletionTimestamp: null,
    node: "node-a",
    phase: "Running",
    taken: true,
    terminal: false,
    stopped: false,
    hostNetwork: false,
    lacksSandbox: false,
    podIPs: [],
    staticUid: null,
    vmi: null,
    isMigrationTarget: false,
    annotations: {},
  });
});

/** What calls itself the mirror of a static pod. */
function mirror(uid: string, ...ownerReferences: object[]) {
  return pod({ metadata: { ownerReferences, annotations: { "kubernetes.io/config.mirror": uid } } });
}

describe("the view of a pod keeps", () => {
  const vmi = owner("VirtualMachineInstance", "vmi-1");
  const annotations = {
    other: "x",
    "k8s.v1.cni.cncf.io/networks": "a",
    [STATUS]: "[]",
    [POD_NETWORKS]: "{}",
  };
  test.each([
    [pod({ status: { phase: "Succeeded" } }), { terminal: true }, "completed"],
    [pod({ status: { phase: "Failed" } }), { terminal: true }, "failed"],
    [pod({ status: { phase: "Unknown" } }), { terminal: false, phase: "Unknown" }, "unknown means in use"],
    [pod({ status: { phase: undefined } }), { terminal: false, phase: "" }, "no phase yet"],
    [pod({ spec: { nodeName: undefined } }), { node: null }, "not scheduled"],
    [pod({ spec: { hostNetwork: true } }), { hostNetwork: true }, "without a network of its own"],
    [
      pod({ metadata: { deletionTimestamp: "2026-11-20T11:00:00Z" } }),
      { deletionTimestamp: "2026-11-20T11:00:00Z" },
      "on its way out",
    ],
    [mirror("abc", owner("Node", "n", { name: "node-a" })), { uid: "uid-1", staticUid: "abc" }, "two UIDs"],
    [mirror("abc"), { staticUid: null }, "an annotation alone makes no static pod"],
    [mirror("abc", owner("Node", "n", { name: "node-b" })), { staticUid: null }, "of another node"],
    [mirror("abc", owner("ReplicaSet", "n", { name: "node-a" })), { staticUid: null }, "no node owns it"],
    [mirror("a".repeat(129), owner("Node", "n", { name: "node-a" })), { staticUid: null }, "too long"],
    [mirror("a b", owner("Node", "n", { name: "node-a" })), { staticUid: null }, "no UID at all"],
    [pod({ spec: { nodeName: undefined } }), { taken: false }, "Running, and nowhere"],
    [pod({ status: { phase: "Pending" } }), { taken: false }, "a node is named, and nobody has begun"],
    [pod({ status: { phase: undefined } }), { taken: false }, "before any status"],
    [
      pod({ status: { phase: "Pending", containerStatuses: [{ state: { waiting: {} } }] } }),
      { taken: true },
      "its kubelet pulls the image: it has its addresses",
    ],
    [
      pod({ status: { phase: "Pending", initContainerStatuses: [{ state: { running: {} } }] } }),
      { taken: true },
      "an init container runs",
    ],
    [pod({ status: { phase: "Unknown" } }), { taken: true }, "its node is away"],
    [pod({ metadata: { ownerReferences: [owner("ReplicaSet", "rs-1")] } }), { vmi: null }, "another owner"],
    [pod({ metadata: { ownerReferences: [vmi] } }), { vmi: { name: "vm-a", uid: "vmi-1" } }, "a VM's pod"],
    [
      pod({
        metadata: {
          ownerReferences: [owner("VirtualMachineInstance", "vmi-0"), { ...vmi, controller: true }],
        },
      }),
      { vmi: { name: "vm-a", uid: "vmi-1" } },
      "the owner that controls it",
    ],
    [
      pod({ metadata: { ownerReferences: [null, { kind: "VirtualMachineInstance" }] } }),
      { vmi: null },
      "references without UID own nothing",
    ],
    [
      pod({ metadata: { annotations } }),
      { annotations: { "k8s.v1.cni.cncf.io/networks": "a" } },
      "annotations that are read",
    ],
  ])("case %#", (object, expected, reason) => {
    expect(projectPod(object), reason).toMatchObject(expected);
    if ("annotations" in expected) expect(projectPod(object).annotations, reason).toEqual(expected.annotations);
  });

  test("the view keeps the big annotations only on request", () => {
    const object = pod({ metadata: { annotations } });
    expect(Object.keys(projectPod(object).annotations)).toEqual(["k8s.v1.cni.cncf.io/networks"]);
    expect(Object.keys(projectPod(object, { addresses: true }).annotations)).toEqual([
      "k8s.v1.cni.cncf.io/networks",
      STATUS,
      POD_NETWORKS,
    ]);
  });
});

test.each([
  [null, "nothing"],
  ["pod", "a text"],
  [{}, "no metadata"],
  [{ metadata: [] }, "metadata that is a list"],
  [pod({ metadata: { uid: "" } }), "no UID"],
  [pod({ metadata: { namespace: 7 } }), "a namespace that is a number"],
  [pod({ metadata: { resourceVersion: undefined } }), "no version"],
  [pod({ metadata: { ownerReferences: {} } }), "owners that are no list"],
  [{ ...pod(), spec: "x" }, "a spec that is a text"],
])("%j is refused as no pod", (object, _reason) => {
  expect(() => projectPod(object)).toThrow(/^Pod/);
});

describe("a pod has ended when its phase and all its containers have", () => {
  const running = { name: "compute", state: { running: { startedAt: "2026-11-20T10:00:00Z" } } };
  const terminated = { name: "compute", state: { terminated: { exitCode: 0 } } };
  const waiting = (reason?: string) => ({ name: "compute", state: { waiting: { reason } } });
  test.each([
    [{ phase: "Failed" }, true, "evicted before a container was made"],
    [{ phase: "Failed", containerStatuses: [terminated, terminated] }, true, "all terminated"],
    [{ phase: "Succeeded", containerStatuses: [terminated, running] }, false, "a container runs"],
    [{ phase: "Failed", containerStatuses: [running] }, false, "an evicted VM that is still shutting down"],
    [
      { phase: "Failed", containerStatuses: [terminated], initContainerStatuses: [running] },
      false,
      "a sidecar runs, which is an init container",
    ],
    [
      { phase: "Failed", containerStatuses: [terminated], ephemeralContainerStatuses: [running] },
      false,
      "somebody debugs it",
    ],
    [{ phase: "Failed", containerStatuses: [waiting("ContainerCreating")] }, false, "about to run"],
    [{ phase: "Failed", containerStatuses: [{ name: "compute" }] }, false, "no state: unknown is running"],
    [{ phase: "Failed", containerStatuses: [{ name: "compute", state: {} }] }, false, "an empty state"],
    [{ phase: "Failed", containerStatuses: [null] }, false, "no status at all"],
    [{ phase: "Failed", containerStatuses: "none" }, false, "a list that is none"],
    [{ phase: "Failed", containerStatuses: null }, true, "no list"],
    [
      {
        phase: "Failed",
        containerStatuses: [waiting("PodInitializing")],
        initContainerStatuses: [terminated],
      },
      true,
      "an init container failed: the others never run",
    ],
    [{ phase: "Running", containerStatuses: [terminated] }, false, "it may be restarted"],
  ])("%j: %s", (status, terminal, reason) => {
    expect(projectPod(pod({ status })).terminal, reason).toBe(terminal);
  });

  const deletionTimestamp = "2026-11-20T11:00:00Z";
  test.each([
    [{ phase: "Succeeded", containerStatuses: [terminated] }, null, true, "it has ended"],
    [{ phase: "Running", containerStatuses: [terminated] }, deletionTimestamp, true, "deleted, and ended"],
    [{ phase: "Running", containerStatuses: [terminated] }, null, false, "it may be restarted"],
    [{ phase: "Running", containerStatuses: [terminated, running] }, deletionTimestamp, false, "one runs"],
    [
      { phase: "Running", containerStatuses: [terminated], initContainerStatuses: [running] },
      deletionTimestamp,
      false,
      "a sidecar runs, which is an init container",
    ],
    [
      {
        phase: "Pending",
        containerStatuses: [waiting("PodInitializing")],
        initContainerStatuses: [terminated],
      },
      deletionTimestamp,
      false,
      "between two init containers",
    ],
    [{ phase: "Running", containerStatuses: [] }, deletionTimestamp, false, "nothing is said of containers"],
    [{ phase: "Running" }, deletionTimestamp, false, "no list"],
  ])("for status %j, deleted %s, the pod has stopped: %s", (status, deleted, stopped, reason) => {
    const metadata = deleted === null ? {} : { deletionTimestamp: deleted };
    expect(projectPod(pod({ status, metadata })).stopped, reason).toBe(stopped);
  });
});

describe("the addresses of a pod by its annotations", () => {
  const read = (status: unknown, podNetworks?: unknown, more: object = {}) => {
    const annotations = {
      ...(status === undefined ? {} : { [STATUS]: typeof status === "string" ? status : JSON.stringify(status) }),
      ...(podNetworks === undefined
        ? {}
        : { [POD_NETWORKS]: typeof podNetworks === "string" ? podNetworks : JSON.stringify(podNetworks) }),
    };
    const { held, problems } = statusAddresses(
      projectPod(pod({ metadata: { annotations }, ...more }), { addresses: true }),
    );
    const lines = held.map(
      ({ nad, interface: name, address, prefixLength, mac }) =>
        `${nad ? `${nad.namespace}/${nad.name}` : "-"} ${name || "-"} ${formatAddress(address)}/${prefixLength} ${mac}`,
    );
    return { lines, problems };
  };
  const blue = { name: "nets/blue", interface: "net1", ips: ["10.0.0.5", "FD10::05"], mac: "02:01" };

  test.each([
    [undefined, undefined, [], "no annotation"],
    ["", "", [], "empty ones"],
    [
      [blue],
      undefined,
      ["nets/blue net1 10.0.0.5/null 02:01", "nets/blue net1 fd10::5/null 02:01"],
      "Multus, without masks",
    ],
    [
      [{ name: "cbr0", interface: "eth0", ips: ["10.244.0.5"], default: true }],
      undefined,
      ["- eth0 10.244.0.5/null null"],
      "the default network has no NAD",
    ],
    [[{ name: "nets/red", interface: "net2" }], undefined, [], "an interface without addresses"],
    [
      undefined,
      { default: { ip_addresses: ["10.244.0.5/24"] } },
      ["- - 10.244.0.5/24 null"],
      "OVN-Kubernetes, default network",
    ],
    [
      undefined,
      { "nets/blue": { ip_address: "10.0.0.5/24", mac_address: "02:01" } },
      ["nets/blue - 10.0.0.5/24 02:01"],
      "its older key",
    ],
    [
      undefined,
      { "nets/blue/1": { ip_addresses: ["10.0.0.5/24"] } },
      ["nets/blue - 10.0.0.5/24 null"],
      "the second interface on one NAD",
    ],
    [
      [blue],
      { "nets/blue": { ip_addresses: ["10.0.0.5/24", "10.0.0.6/24"] } },
      ["nets/blue net1 10.0.0.5/24 02:01", "nets/blue net1 fd10::5/null 02:01", "nets/blue - 10.0.0.6/24 null"],
      "both: interface from the one, mask from the other",
    ],
  ])("case %#", (status, podNetworks, lines, reason) => {
    expect(read(status, podNetworks), reason).toEqual({ lines, problems: [] });
  });

  test.each([
    [{ mac: "02:00:00:00:00:01" }, "nets/blue net1 10.0.0.5/null 02:00:00:00:00:01", []],
    [{ mac: "x".repeat(100_000) }, "nets/blue net1 10.0.0.5/null null", [/no MAC address/]],
    [{ interface: "n".repeat(100_000) }, "nets/blue - 10.0.0.5/null null", [/at most 15 characters/]],
    [{ interface: "a/b" }, "nets/blue - 10.0.0.5/null null", [/no name of an interface/]],
  ])(
    "case %#: an impossible value of an interface is dropped, and the interface's address counts",
    (more, line, wanted) => {
      const { lines, problems } = read([{ name: "nets/blue", interface: "net1", ips: ["10.0.0.5"], ...more }]);
      expect(lines).toEqual([line]);
      expect(problems).toEqual(wanted.map((one) => expect.stringMatching(one)));
    },
  );

  test.each([
    ["[{", /network-status: /, "JSON that breaks off"],
    [{}, /expected a list/, "no list"],
    [[7], /\[0\]: expected an object/, "no object"],
    [[{ ips: ["10.0.0.5"] }], /\[0\]: expected an object with name/, "no name"],
    [[{ name: "A/B", ips: [] }], /\[0\]: expected an object with name/, "a name that cannot exist"],
    [[{ name: "nets/blue", ips: "10.0.0.5" }], /a list of addresses/, "addresses as one text"],
    [[{ name: "nets/blue", ips: [7, "::ffff:10.0.0.1"] }], /not an IP address.*IPv4-mapped/s, "no addresses"],
    [`${"[".repeat(100_000)}${"]".repeat(100_000)}`, /nested/, "deep nesting"],
  ])("an annotation that is unreadable is named: %.60j", (status, problem, _reason) => {
    const { lines, problems } = read(status, { "nets/red": { ip_addresses: ["10.1.0.1/24"] } });
    expect(problems.join("\n")).toMatch(problem);
    expect(lines, "what can be read is").toEqual(["nets/red - 10.1.0.1/24 null"]);
  });

  test.each([
    ["7", /expected an object/, "a number"],
    [
      { "a/b": 5, "nets/blue": { ip_addresses: ["10.0.0.5/33"] } },
      /"namespace\/name" with an object.*prefix length/s,
      "entries that are none",
    ],
  ])("OVN-Kubernetes' annotation %j is read", (podNetworks, problem, _reason) => {
    expect(read(undefined, podNetworks).problems.join("\n")).toMatch(problem);
  });

  test("an unreadable entry does not hide its neighbours, and the number of problems is bounded", () => {
    const { lines, problems } = read([{ ...blue, ips: ["x", "10.0.0.5"] }, ...Array(100).fill(1)]);
    expect(lines).toHaveLength(1);
    expect(problems).toHaveLength(20);
  });

  test("a pod that has ended holds no address", () => {
    expect(read([blue], undefined, { status: { phase: "Succeeded" } }).lines).toEqual([]);
  });
});

test("a pod that has ended has no address, whatever its status and annotations list", () => {
  const annotations = {
    [STATUS]: JSON.stringify([{ name: "shop/blue", interface: "net1", ips: ["10.0.0.7"] }]),
  };
  const reported = (phase: string) => {
    const status = { phase, podIP: "10.1.0.9", podIPs: [{ ip: "10.1.0.9" }] };
    return projectSweptPod(pod({ metadata: { annotations }, status })).addresses.map(({ address }) => address);
  };
  expect(reported("Running")).toEqual(["10.0.0.7", "10.1.0.9"]);
  expect(reported("Succeeded")).toEqual([]);
});
