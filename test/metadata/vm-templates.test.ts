import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH, DATA_TEMPLATES_PATH, MACHINE_DATAS_PATH } from "../../kube/metal3.ts";
import { ADDRESS_POOLS_PATH, namespacedPath } from "../../kube/objects.ts";
import { type DataObjects, DataReader } from "../../metadata/tenant/data-objects.ts";
import type { VmObjects } from "../../metadata/tenant/vm-directory.ts";
import { type TemplateRequest, VmTemplates } from "../../metadata/tenant/vm-templates.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { readManifestDirectory } from "../harness/kube-manifests.ts";
import { ManualClock } from "../harness/manual-clock.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const DEFINITIONS = readManifestDirectory(new URL("../../deploy/machines/crds", import.meta.url).pathname);
const NUMBERED = { metaData: { indexes: [{ key: "number" }] } };
/** How long what was read is believed, and what is not there yet, ms. */
const BELIEVED_MS = 3_000;
const AWAITED_MS = 500;
const VM = { namespace: "shop", name: "web", uid: "vm-1", vmiUid: "vmi-1", firmwareUuid: null };
const FOUND: VmObjects = {
  vm: {
    key: "shop/web",
    name: "web",
    uid: "vm-1",
    resourceVersion: "1",
    labels: new Map([["tier", "vm"]]),
    annotations: new Map(),
  },
  vmi: null,
};

let clock: ManualClock;
let api: KubeInMemory;
let reader: DataReader;
let objects: DataObjects;
let templates: VmTemplates;
let reads: string[];

beforeEach(() => {
  clock = new ManualClock();
  api = new KubeInMemory(clock);
  api.define(DEFINITIONS);
  reads = [];
  api.before = ({ path }) => void reads.push(path.replace(/^.*\/(?=[^/]+\/[^/]+$)/, ""));
  reader = new DataReader(api);
  objects = reader.of({ namespace: "shop", uid: "n-1" });
  templates = new VmTemplates();
});
afterEach(() => {
  api.before = () => {};
});

function put(collection: string, name: string, object: Any): Any {
  const metadata = { name, namespace: "shop", ...object.metadata };
  return api.put(namespacedPath(collection, "shop"), { ...object, metadata });
}

/** Template, claim and data of the VM, as the controller leaves them. */
function serve(spec: object = NUMBERED, { index = 0, vmUid = VM.uid } = {}): void {
  put(DATA_TEMPLATES_PATH, "t", { spec });
  const claim = put(DATA_CLAIMS_PATH, "web", {
    metadata: { ownerReferences: [owner("VirtualMachine", "web", vmUid)] },
    spec: { template: { name: "t" } },
    status: { renderedData: { name: `t-${index}` } },
  });
  put(MACHINE_DATAS_PATH, `t-${index}`, {
    metadata: { ownerReferences: [owner("Metal3DataClaim", "web", claim.metadata.uid)] },
    spec: { index, claim: { name: "web" }, template: { name: "t" } },
  });
}

const owner = (kind: string, name: string, uid: string) => ({ apiVersion: "x/v1", kind, name, uid });

function nic(given: Partial<IdentityInterface> = {}): IdentityInterface {
  return {
    network: "blue",
    interface: "net1",
    owner: { kind: "claim", uid: "c-1", interface: "", namespace: "shop", name: "web.blue" },
    claim: "shop/web.blue",
    addresses: [{ address: "10.0.0.5/24", gateway: "10.0.0.1" }],
    mac: "02:00:00:00:00:01",
    mtu: null,
    routes: [],
    dns: {},
    metadata: null,
    source: "holdfast",
    ...given,
  } as IdentityInterface;
}

function documents({
  interfaces = [nic()],
  ...given
}: Partial<TemplateRequest> & { interfaces?: IdentityInterface[] } = {}): Promise<Any> {
  const identity: IdentityView = { state: "running", vm: VM, pods: [], interfaces };
  return templates.documentsOf(objects, {
    template: "t",
    identity,
    vm: VM,
    found: FOUND,
    links: [],
    ...given,
  });
}

const problem = async (given: Parameters<typeof documents>[0] = {}) => (await documents(given)).problem;

describe("what a VM's template says", () => {
  test("is rendered once for the same inputs, and again when one has changed", async () => {
    serve({
      metaData: { ...NUMBERED.metaData, fromLabels: [{ key: "tier", object: "machine", label: "tier" }] },
    });
    const first = await documents();
    expect(first).toEqual({
      meta: { number: "0", tier: "vm", providerid: "shop/web/web" },
      networkDocument: null,
    });
    clock.nowMs += BELIEVED_MS;
    expect(await documents()).toBe(first);
    expect(await documents({ interfaces: [nic({ mac: "02:00:00:00:00:02" })] })).not.toBe(first);
    const labels = new Map([["tier", "other"]]);
    const vm = { ...(FOUND.vm as NonNullable<VmObjects["vm"]>), labels };
    expect((await documents({ found: { vm, vmi: null } })).meta.tier).toBe("other");
    put(DATA_TEMPLATES_PATH, "t", { spec: { metaData: { strings: [{ key: "k", value: "new" }] } } });
    clock.nowMs += BELIEVED_MS;
    expect((await documents()).meta).toEqual({ k: "new", providerid: "shop/web/web" });
  });

  test("costs three reads in three seconds, however often the guest asks", async () => {
    serve();
    for (let n = 0; n < 28; n += 1) await documents();
    expect(reads.sort()).toEqual(["metal3dataclaims/web", "metal3datas/t-0", "metal3datatemplates/t"]);
    clock.nowMs += BELIEVED_MS;
    await Promise.all([documents(), documents(), documents()]);
    expect(reads).toHaveLength(6);
  });

  test("is answered from memory while the API server is unreachable, and never guessed", async () => {
    serve();
    const first = await documents();
    api.away = true;
    clock.nowMs += BELIEVED_MS;
    expect(await documents()).toBe(first);
    await expect(documents({ template: "unread" })).rejects.toThrow(ApiAway);
    objects = reader.of({ namespace: "shop", uid: "n-2" });
    await expect(documents()).rejects.toThrow(ApiAway);
  });

  test("is there half a second after the controller has given the VM an index, and not asked for more often", async () => {
    put(DATA_TEMPLATES_PATH, "t", { spec: NUMBERED });
    for (let n = 0; n < 28; n += 1)
      expect(await problem()).toContain("Metal3DataClaim shop/web does not exist; holdfast controller");
    expect(reads.filter((path) => path.startsWith("metal3dataclaims"))).toHaveLength(1);
    serve();
    clock.nowMs += AWAITED_MS;
    expect((await documents()).meta.number).toBe("0");
  });

  test("is another VM's only until its claim is this VM's: a name alone is not enough", async () => {
    serve(NUMBERED, { vmUid: "an earlier VM's" });
    expect(await problem()).toBe("Metal3DataClaim shop/web is not this VM's: delete it, or rename the VM");
    serve(NUMBERED, { index: 7 });
    clock.nowMs += AWAITED_MS;
    expect((await documents()).meta.number).toBe("7");
  });
});

describe("problems", () => {
  test.each<[string, () => void, string]>([
    [
      "no template",
      () => api.remove(namespacedPath(DATA_TEMPLATES_PATH, "shop", "t")),
      "Metal3DataTemplate shop/t does not exist; create it, or name another",
    ],
    [
      "no definitions",
      () => void api.missing.add("/apis/infrastructure.cluster.x-k8s.io"),
      "Metal3DataTemplate shop/t has no definition here: kubectl apply -k deploy/machines/crds",
    ],
    [
      "a template that cannot be read",
      () => void put(DATA_TEMPLATES_PATH, "t", { spec: { metaData: { strings: "x" } } }),
      "Metal3DataTemplate shop/t: spec.metaData.strings: expected a list",
    ],
    [
      "a template that is too large",
      () =>
        void put(DATA_TEMPLATES_PATH, "t", {
          spec: { metaData: { strings: [{ key: "k", value: "x".repeat(1 << 18) }] } },
        }),
      "and one for VMs 131072 at most",
    ],
    [
      "a claim of the former template",
      () =>
        void put(DATA_CLAIMS_PATH, "web", {
          metadata: { ownerReferences: [owner("VirtualMachine", "web", VM.uid)] },
          spec: { template: { name: "former" } },
        }),
      "Metal3DataClaim shop/web is still of template former: the controller replaces it",
    ],
    [
      "a claim without an index",
      () =>
        void put(DATA_CLAIMS_PATH, "web", {
          metadata: { ownerReferences: [owner("VirtualMachine", "web", VM.uid)] },
          spec: { template: { name: "t" } },
          status: { errorMessage: "t has no free index" },
        }),
      "Metal3DataClaim shop/web has no index: t has no free index",
    ],
    [
      "no data object",
      () => api.remove(namespacedPath(MACHINE_DATAS_PATH, "shop", "t-0")),
      "Metal3Data shop/t-0 does not exist; holdfast controller --machine-data=own makes it",
    ],
    [
      "a data object of another claim",
      () =>
        void put(MACHINE_DATAS_PATH, "t-0", {
          metadata: { ownerReferences: [owner("Metal3DataClaim", "web", "another")] },
          spec: { index: 0, claim: { name: "web" }, template: { name: "t" } },
        }),
      "Metal3Data shop/t-0 is not this VM's: delete it",
    ],
  ])("%s", async (_why, make, wanted) => {
    serve();
    make();
    expect(await problem()).toContain(wanted);
  });
});

describe("a pool's name", () => {
  const pooled = (name: string) => ({ metaData: { ipAddressesFromPool: [{ key: "address", name }] } });
  const blue = nic({ addresses: [{ address: "10.0.0.5/24" }, { address: "fd00::5/64" }] });
  const green = nic({ network: "green", interface: "net2", addresses: [{ address: "10.1.0.5/24" }] });
  const link = (linkId: string, at: string, nad: string) => ({
    ...{ interface: at, network: null, mac: null, primary: false },
    ...{ linkId, nad },
  });
  const links = [link("front", "net1", "shop/blue-nad"), link("back", "net2", "green-nad")];
  const addressOf = async (name: string) => {
    serve(pooled(name));
    const found = await documents({ interfaces: [blue, green], links });
    return found.meta?.address ?? found.problem;
  };

  test.each([
    ["green", "10.1.0.5", "a network"],
    ["blue-nad", "10.0.0.5", "a NetworkAttachmentDefinition, whose namespace is not written"],
    ["green-nad", "10.1.0.5", "a NetworkAttachmentDefinition of the VM's namespace"],
    ["back", "10.1.0.5", "an interface of the VM"],
  ])("%s means %s: %s", async (name, address) => {
    expect(await addressOf(name)).toBe(address);
  });

  test("means an AddressPool before an interface, and of its family alone", async () => {
    put(ADDRESS_POOLS_PATH, "back", { spec: { network: "blue", family: 6 } });
    expect(await addressOf("back")).toBe("fd00::5");
  });

  test("that nothing has, or whose network the VM is not on, is a problem that names what there is", async () => {
    expect(await addressOf("lan")).toContain(
      "pool lan: no network, NetworkAttachmentDefinition or interface of the VM has this name, and neither has an AddressPool of namespace shop; the VM's networks are blue, green",
    );
    put(ADDRESS_POOLS_PATH, "lan", { spec: { network: "red" } });
    clock.nowMs += BELIEVED_MS;
    expect(await addressOf("lan")).toContain(
      "AddressPool shop/lan is of network red, on which the VM has no interface",
    );
    put(ADDRESS_POOLS_PATH, "lan", { spec: { network: "green", family: 6 } });
    clock.nowMs += BELIEVED_MS;
    expect(await addressOf("lan")).toContain("pool lan: interface back has no IPv6 address");
  });
});
