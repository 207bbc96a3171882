/** Where a claim's VM is to be: its VMI says so, else the template of its VM. */
import { beforeEach, describe, expect, test } from "vitest";
import type { Facts, Found } from "../../claims/reasons/facts.ts";
import { decideFresh } from "../../claims/reasons/fresh-facts.ts";
import { NO_MEMORY } from "../../claims/reasons/read-facts.ts";
import { readVmWants } from "../../claims/reasons/vm-wants.ts";
import { NADS_PATH, namespacedPath } from "../../kube/objects.ts";
import { VMIS_PATH, VMS_PATH } from "../../kube/views/tenant-objects.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { claimFact } from "./judged.ts";

let server: KubeInMemory;

beforeEach(() => {
  server = new KubeInMemory();
});

const VM = { name: "vm", uid: "vm-uid" };
const CLAIM = { namespace: "shop", name: "vm.nic", vm: VM };
const ASKS = "network.kubevirt.io/addresses";

interface Interfaces {
  /** `interface NAD`; a `-` before it: being unplugged. */
  readonly on?: readonly string[];
  readonly asks?: string;
}

function spec({ on = ["nic blue"] }: Interfaces): object {
  const all = on.map((text) => {
    const [name = "", nad = ""] = text.replace(/^-/, "").split(" ");
    return { name, nad, isLeaving: text.startsWith("-") };
  });
  return {
    domain: {
      devices: {
        interfaces: all.map(({ name, isLeaving }) => ({ name, bridge: {}, ...(isLeaving && { state: "absent" }) })),
      },
    },
    networks: all.map(({ name, nad }) => ({ name, ...(nad === "" ? { pod: {} } : { multus: { networkName: nad } }) })),
  };
}

const annotations = ({ asks }: Interfaces) => (asks === undefined ? {} : { annotations: { [ASKS]: asks } });

function vmi(given: Interfaces, metadata: object = {}): void {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", ...VM, controller: true };
  server.put(namespacedPath(VMIS_PATH, "shop"), {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: {
      namespace: "shop",
      name: "vm",
      uid: "vmi-uid",
      ownerReferences: [owner],
      ...annotations(given),
      ...metadata,
    },
    spec: spec(given),
  });
}

function vm(given: Interfaces, uid = VM.uid): void {
  server.put(namespacedPath(VMS_PATH, "shop"), {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { namespace: "shop", name: "vm", uid },
    spec: { runStrategy: "Manual", template: { metadata: annotations(given), spec: spec(given) } },
  });
}

const wants = async () => {
  const found = await readVmWants(server, CLAIM);
  return found.kind === "present" ? found.it : found.kind;
};

describe("who says so", () => {
  test("the VMI, whatever the template says meanwhile", async () => {
    vm({ on: ["nic red"], asks: '{"nic":["10.9.0.9"]}' });
    vmi({ on: ["nic blue"], asks: '{"nic":["10.0.0.9"]}' });
    expect(await wants()).toEqual({ nad: "shop/blue", asks: ["10.0.0.9"], vmi: "vmi-uid" });
  });

  test("the template of a VM that is stopped", async () => {
    vm({ on: ["nic red"], asks: '{"nic":["10.9.0.9"]}' });
    expect(await wants()).toEqual({ nad: "shop/red", asks: ["10.9.0.9"], vmi: null });
  });

  test("a VMI that itself owns the claim", async () => {
    vmi({}, { uid: VM.uid, ownerReferences: [] });
    expect(await wants()).toEqual({ nad: "shop/blue", asks: [], vmi: VM.uid });
  });

  test("nobody, where there is neither", async () => {
    expect(await wants()).toBe("unknown");
  });

  test("no VMI of another VM, and then not the template either: its VM may be about to come back", async () => {
    vm({});
    vmi({}, { ownerReferences: [{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm", uid: "other" }] });
    expect(await wants()).toBe("unknown");
  });

  test("no VM of the name that is another one", async () => {
    vm({}, "made-again");
    expect(await wants()).toBe("unknown");
  });

  test("nobody, where the API does not answer", async () => {
    vm({});
    server.away = true;
    expect(await wants()).toBe("unknown");
  });
});

describe("which interface", () => {
  test.each<[Interfaces, unknown, string]>([
    [{ on: ["other red", "nic shop-b/blue"] }, { nad: "shop-b/blue" }, "the one that the claim is named after"],
    [{ on: ["other red"] }, "unknown", "unplugged: it may be plugged in again"],
    [{ on: [] }, "unknown", "none at all"],
    [{ on: ["-nic blue"] }, "unknown", "being unplugged"],
    [{ on: ["nic blue", "nic red"] }, "unknown", "two of its name"],
    [{ on: ["nic "] }, "unknown", "on the network of the pod"],
    [{ asks: '{"other":["10.0.0.9"]}' }, { asks: [] }, "what is asked for of another interface is not"],
    [{ asks: "{" }, { asks: [] }, "an annotation that nobody can read asks for nothing"],
    [{ asks: '{"nic":["10.0.0.09"]}' }, { asks: [] }, "nor does an address that nobody can read"],
    [{ asks: '{"nic":["FD00:0::9","10.0.0.9"]}' }, { asks: ["fd00::9", "10.0.0.9"] }, "in any spelling"],
  ])("%j → %j: %s", async (given, expected) => {
    for (const put of [vmi, vm]) {
      server = new KubeInMemory();
      put(given);
      if (typeof expected === "string") expect(await wants()).toBe(expected);
      else expect(await wants()).toMatchObject(expected as object);
    }
  });
});

describe("which network that is", () => {
  const nad = (config: object) =>
    server.put(namespacedPath(NADS_PATH, "shop"), {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { namespace: "shop", name: "blue" },
      spec: { config: JSON.stringify({ cniVersion: "1.0.0", name: "net-of-blue", type: "bridge", ...config }) },
    });
  const ipam = { type: "holdfast-ipam", subnets: "10.0.0.0/24" };

  async function found(): Promise<ReturnType<Facts["wants"]>> {
    const memory = {
      ...{ attachedToClaim: () => false, namesOf: () => [], wasSeenStopped: () => false },
      ...{ guestRunsElsewhere: () => false, machines: NO_MEMORY, sharedReads: new SingleFlight<Found<unknown>>() },
    };
    const claim = claimFact([], { name: CLAIM.name, vm: VM });
    return decideFresh(server, memory, (facts) => facts.wants(claim));
  }

  test.each<[object | null, string | null | undefined, string]>([
    [{ ipam, allowPersistentIPs: true }, "net-of-blue", "ours, which keeps addresses"],
    [{ ipam }, null, "ours, which keeps none"],
    [{ ipam: { type: "host-local", subnet: "10.0.0.0/24" } }, null, "another plugin's"],
    [{ ipam: { type: "holdfast-ipam", subnets: "nonsense" }, allowPersistentIPs: true }, undefined, "one in error"],
    [null, undefined, "none: it may be made again"],
  ])("%j → %s: %s", async (config, network) => {
    vmi({ asks: '{"nic":["10.0.0.9"]}' });
    if (config !== null) nad(config);
    const expected = { network, asks: ["10.0.0.9"], vmi: "vmi-uid", nad: "shop/blue" };
    expect(await found()).toEqual(network === undefined ? { kind: "unknown" } : { kind: "present", it: expected });
  });

  test("of a claim without a VM nothing is read: it is where it says", async () => {
    server.away = true;
    const claim = claimFact([], { network: "net-of-blue", vm: null });
    const memory = {
      ...{ attachedToClaim: () => false, namesOf: () => [], wasSeenStopped: () => false },
      ...{ guestRunsElsewhere: () => false, machines: NO_MEMORY, sharedReads: new SingleFlight<Found<unknown>>() },
    };
    const it = { network: "net-of-blue", asks: [], vmi: null, nad: "" };
    expect(await decideFresh(server, memory, (facts) => facts.wants(claim))).toEqual({ kind: "present", it });
  });
});
