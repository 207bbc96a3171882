import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { namespacedPath } from "../../../kube/objects.ts";
import { VMIS_PATH, VMS_PATH } from "../../../kube/views/tenant-objects.ts";
import { OwnModeHere, ownerOf, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const ANNOTATION = "metadata.holdfast.dev/data-template";
const KUBEVIRT = "kubevirt.io/v1";
const TEMPLATE = {
  metaData: { ipAddressesFromPool: [{ key: "address", name: "blue" }] },
  networkData: { networks: { ipv4: [{ id: "n", link: "l", fromPoolRef: { name: "blue" } }] } },
};

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.serveClaims();
  here.start();
  for (const name of ["t", "other"]) here.template(name, TEMPLATE);
});
afterEach(() => here.stop());

const annotated = (template: string | null) => (template === null ? {} : { [ANNOTATION]: template });

/** A VM; `next`: what its next instance is annotated with. */
function vm(name: string, template: string | null = "t", next: string | null = null): Any {
  return here.api.put(namespacedPath(VMS_PATH, "shop"), {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachine",
    metadata: { name, namespace: "shop", annotations: annotated(template) },
    spec: { template: { metadata: { annotations: annotated(next) } } },
  });
}

/** Its instance; of no VM where `of` is null. */
function instance(name: string, template: string | null, of: Any): Any {
  const ownerReferences = of === null ? [] : [{ ...ownerOfVm(of), controller: true }];
  return here.api.put(namespacedPath(VMIS_PATH, "shop"), {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachineInstance",
    metadata: { name, namespace: "shop", annotations: annotated(template), ownerReferences },
    spec: {},
  });
}

const ownerOfVm = (object: Any) => ({ ...ownerOf(object.kind, object), apiVersion: KUBEVIRT });
const templateOf = (name: string) => here.readClaim(name)?.spec.template.name;
const annotate = (name: string, template: string | null) =>
  here.change(VMS_PATH, name, (object) => {
    object.metadata.annotations = annotated(template);
  });

describe("a VM whose annotation names a template", () => {
  test("gets a claim that it owns, and an index, and nothing that a machine gets beside", async () => {
    const web = vm("web");
    here.machine("m");
    here.host("m");
    await here.settle();
    expect(here.readClaim("web")).toMatchObject({
      metadata: { ownerReferences: [{ ...ownerOfVm(web), controller: true }] },
      spec: { template: { name: "t", namespace: "shop" } },
    });
    const { name } = here.readClaim("web").status.renderedData;
    const data = here.readData(name);
    expect(data.metadata.ownerReferences).toEqual([
      { ...ownerOf("Metal3DataClaim", here.readClaim("web")), controller: true },
    ]);
    expect(data.spec).toEqual({
      index: expect.any(Number),
      claim: { name: "web", namespace: "shop" },
      template: { name: "t", namespace: "shop" },
    });
    expect(data.status).toMatchObject({
      ready: true,
      conditions: [{ type: "Ready", status: "True", reason: "ServedByMetadata" }],
    });
    expect(here.indexes()).toEqual({ web: expect.any(Number), m: expect.any(Number) });
    expect(new Set(Object.values(here.indexes()))).toEqual(new Set([0, 1]));
    expect(here.all(PATHS.secrets)).toEqual([]);
    expect(here.all(PATHS.addressClaims).map(({ metadata }) => metadata.ownerReferences[0].name)).toEqual([
      here.readClaim("m").status.renderedData.name,
    ]);
    const writes = here.api.writes.length;
    await here.settle();
    expect(here.api.writes.slice(writes).map(({ path }) => path)).toEqual([]);
  });

  test("keeps its index without an instance and with the next, and another controller gives no second one", async () => {
    const web = vm("web", null, "t");
    vm("db");
    await here.settle();
    const before = here.indexes();
    instance("web", "t", web);
    await here.settle();
    here.api.remove(namespacedPath(VMIS_PATH, "shop", "web"));
    here.start();
    await here.settle();
    instance("web", "t", web);
    await here.settle();
    expect(here.indexes()).toEqual(before);
    expect(Object.keys(before).sort()).toEqual(["db", "web"]);
  });

  test.each([
    ["t", "other", "t", "the VM's own comes first"],
    ["", "t", undefined, "an empty one means none"],
    [null, "t", "t", "the instance's counts where the VM has none"],
    [" t ", null, "t", "spaces do not count"],
    ["no/name", null, undefined, "what cannot be a name means none"],
    [null, null, undefined, "neither has one"],
  ])("%j and its instance %j: %j (%s)", async (own, instances, expected, _why) => {
    instance("web", instances, vm("web", own));
    await here.settle();
    expect(templateOf("web")).toBe(expected);
  });

  test("an instance keeps the template that it was started with until it is started again", async () => {
    const web = vm("web", null, "other");
    instance("web", "t", web);
    await here.settle();
    expect(templateOf("web")).toBe("t");
    here.api.remove(namespacedPath(VMIS_PATH, "shop", "web"));
    await here.settle();
    expect(templateOf("web")).toBe("other");
    expect(here.indexes("t")).toEqual({});
  });

  test("an instance without a VM owns its claim itself", async () => {
    const lone = instance("lone", "t", null);
    await here.settle();
    expect(here.readClaim("lone").metadata.ownerReferences).toEqual([{ ...ownerOfVm(lone), controller: true }]);
    expect(here.indexes()).toEqual({ lone: 0 });
  });
});

describe("the claim of a VM", () => {
  test("goes with the annotation, and its index with it", async () => {
    vm("web");
    await here.settle();
    annotate("web", null);
    await here.settle();
    expect(here.readClaim("web")).toBeUndefined();
    expect(here.indexes()).toEqual({});
  });

  test("is replaced when the annotation names another template", async () => {
    vm("web");
    await here.settle();
    const first = here.readClaim("web").metadata.uid;
    annotate("web", "other");
    await here.settle();
    expect(templateOf("web")).toBe("other");
    expect(here.readClaim("web").metadata.uid).not.toBe(first);
    expect(here.indexes("t")).toEqual({});
    expect(here.indexes("other")).toEqual({ web: 0 });
  });

  test.each(["no/name", "t"])("stays while the annotation is %j", async (text) => {
    vm("web");
    await here.settle();
    const { uid } = here.readClaim("web").metadata;
    annotate("web", text);
    await here.settle();
    expect(here.readClaim("web").metadata.uid).toBe(uid);
  });

  test("stays while it is paused", async () => {
    vm("web");
    await here.settle();
    here.change(PATHS.claims, "web", (claim) => {
      claim.metadata.annotations = { "cluster.x-k8s.io/paused": "" };
    });
    annotate("web", null);
    await here.settle();
    expect(templateOf("web")).toBe("t");
    here.change(PATHS.claims, "web", (claim) => {
      claim.metadata.annotations = {};
    });
    await here.settle();
    expect(here.readClaim("web")).toBeUndefined();
  });

  test("stays while KubeVirt's definitions are gone", async () => {
    vm("web");
    await here.settle();
    here.api.missing.add("/apis/kubevirt.io");
    here.api.remove(namespacedPath(VMS_PATH, "shop", "web"));
    await here.settle(120_000);
    expect(templateOf("web")).toBe("t");
  });

  test("of an earlier VM of the name is left to the garbage collector, and the new VM gets its own", async () => {
    vm("web");
    await here.settle();
    here.api.remove(namespacedPath(VMS_PATH, "shop", "web"));
    const anew = vm("web");
    await here.settle();
    const known = here.readClaim("web");
    expect(known.metadata.ownerReferences[0].uid).not.toBe(anew.metadata.uid);
    here.remove(PATHS.claims, "web");
    await here.settle();
    expect(here.readClaim("web").metadata.ownerReferences[0].uid).toBe(anew.metadata.uid);
    expect(Object.keys(here.indexes())).toEqual(["web"]);
  });

  test("is not confused with a machine's claim of the same name", async () => {
    vm("web");
    await here.settle();
    here.machine("web");
    here.host("web");
    here.machine("db");
    here.host("db");
    await here.settle();
    vm("db");
    await here.settle();
    const condition = here.readMachine("web").status.conditions.find(({ type }: Any) => type === "Metal3DataReady");
    expect(condition).toMatchObject({
      status: "False",
      message: "Metal3DataClaim shop/web is VirtualMachine web's: rename one of the two",
    });
    expect(here.readHost("web").spec.metaData).toBeUndefined();
    expect(here.readClaim("db").metadata.ownerReferences[0].kind).toBe("Metal3Machine");
    expect(here.reasonsOf("db")).toContain("DataTemplateUnavailable");
  });

  test("says why it has no index", async () => {
    vm("web", "nothing");
    await here.settle();
    expect(here.readClaim("web").status.conditions).toMatchObject([
      { reason: "WaitingForTemplate", message: "Metal3DataTemplate shop/nothing does not exist" },
    ]);
    here.template("nothing", TEMPLATE);
    await here.settle();
    expect(here.indexes("nothing")).toEqual({ web: 0 });
  });
});
