import { describe, expect, test } from "vitest";
import { AllocationRows } from "../../claims/reasons/allocation-rows.ts";
import { nodeFact, projectSweptPod } from "../../claims/reasons/fact-views.ts";
import { weightOf } from "../../kube/lean-view.ts";
import { ReflectedItems } from "../../kube/reflected-items.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import {
  projectCapiCluster,
  projectMachineAddress,
  projectMachineClaim,
} from "../../kube/views/machine-claim-view.ts";
import {
  projectDataClaim,
  projectDataTemplate,
  projectMachineData,
} from "../../kube/views/machine-data-view.ts";
import { projectHost, projectMetal3Machine } from "../../kube/views/metal3-machine-view.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { projectService } from "../../kube/views/service-view.ts";
import { projectTemplatedVm } from "../../kube/views/templated-vm-view.ts";
import { projectNamespace, projectTenantObject, projectVm } from "../../kube/views/tenant-objects.ts";
import { projectVmi } from "../../kube/views/vmi-view.ts";
import { CachedReads } from "../../metadata/tenant/cached-reads.ts";
import { projectSlice } from "../../metadata/tenant/services-endpoints.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { projectUdn } from "../../networks/udn/udn-object.ts";
import { systemClock } from "../../platform/time.ts";
import { expectMeanwhile, expectProportion, keptOf } from "./measure.ts";
import { ANNOTATIONS_BYTES_MAX, OBJECT_BYTES_MAX, objectWith } from "./objects.ts";
import { list, SHAPES, type Shape } from "./shapes.ts";

type Project = (
  object: unknown,
) => { readonly key: string; readonly uid: string; readonly resourceVersion: string } | null;

const ITEMS = {
  conditions: (bytes, salt) => list(bytes, (at) => `{"type":"${(at + salt).toString(36)}"}`),
  "empty conditions": (bytes) => list(bytes, () => "{}"),
  owners: (bytes, salt) => list(bytes, (at) => `{"kind":"a","name":"${(at + salt).toString(36)}","uid":"b"}`),
  names: (bytes, salt) => list(bytes, (at) => `{"name":"${(at + salt).toString(36)}"}`),
  addresses: (bytes, salt) =>
    list(bytes, (at) => `"10.${at >> 16}.${(at >> 8) % 256}.${(at + salt) % 256}/8"`),
} satisfies Record<string, Shape>;
const ALL = { ...SHAPES, ...ITEMS };
type ShapeName = keyof typeof ALL;

const MAPS: readonly ShapeName[] = ["keys"];
/** Of a field that is kept as it is. One key many times is none of them: the API server sends what it has decoded. */
const ANYTHING: readonly ShapeName[] = ["numbers as keys", "empty objects"];
const TEXT: readonly ShapeName[] = ["wide text"];
const CONDITIONS: readonly ShapeName[] = ["conditions", "empty conditions"];

/** The fields of which more is kept than one text, by the view; and a text of each. */
const VIEWS: readonly (readonly [
  kind: string,
  project: Project,
  fields: Readonly<Record<string, readonly ShapeName[]>>,
  more?: object,
])[] = [
  [
    "Pod",
    (object) => projectPod(object, { addresses: true }),
    {
      "metadata.ownerReferences": ["owners"],
      "metadata.name": ["empty objects", "nested lists"],
      "status.podIPs": ["names"],
      "metadata.annotations.k8s.v1.cni.cncf.io/networks": TEXT,
    },
  ],
  [
    "Pod of a sweep",
    projectSweptPod,
    { "metadata.annotations.k8s.v1.cni.cncf.io/network-status": ["texts"] },
  ],
  [
    "IPAMClaim",
    projectClaim,
    {
      "metadata.ownerReferences": ["owners"],
      "spec.ipRequests": ["numbers", "nested lists"],
      "status.ips": ["texts", "addresses", "empty lists"],
      "status.conditions": CONDITIONS,
    },
    { spec: { network: "blue" } },
  ],
  [
    "VirtualMachineInstance",
    projectVmi,
    { "metadata.labels": MAPS, "metadata.annotations": MAPS, "spec.domain.devices.interfaces": ["names"] },
  ],
  ["VirtualMachine", projectVm as Project, { "metadata.annotations": ["wide text", "keys"] }],
  [
    "VirtualMachine with a template",
    projectTemplatedVm,
    { "metadata.annotations.metadata.holdfast.dev/data-template": TEXT },
  ],
  ["ConfigMap", (object) => projectTenantObject(object, "ConfigMap"), { data: MAPS }],
  ["Service", projectService, { "spec.ports": ["empty objects", "names"], "spec.ipFamilies": ["texts"] }],
  [
    "IPAddressClaim",
    projectMachineClaim,
    { "status.conditions": CONDITIONS, "metadata.annotations.ipAddress": TEXT },
  ],
  [
    "EndpointSlice",
    projectSlice,
    { endpoints: ["empty objects", "nested lists"], ports: ["names"] },
    { addressType: "IPv4" },
  ],
  [
    "Node",
    (object) => ({ key: "a", uid: "u", resourceVersion: "1", ...nodeFact(object as { status?: unknown }) }),
    { "status.conditions": CONDITIONS },
  ],
  ["Cluster", projectCapiCluster, { "metadata.annotations": MAPS }],
  ["Namespace", projectNamespace, { "metadata.annotations": MAPS }],
  ["IPAddress", projectMachineAddress, { "metadata.annotations": MAPS }],
  [
    "Metal3DataTemplate",
    projectDataTemplate,
    {
      spec: ANYTHING,
      "status.indexes": ["names", "empty objects"],
      "status.conditions": CONDITIONS,
    },
  ],
  ["Metal3DataClaim", projectDataClaim, { "status.conditions": CONDITIONS }],
  ["Metal3Data", projectMachineData, { "status.conditions": CONDITIONS, "status.errorMessage": TEXT }],
  ["Metal3Machine", projectMetal3Machine, { "metadata.annotations": MAPS, "status.conditions": CONDITIONS }],
  [
    "BareMetalHost",
    projectHost,
    { "metadata.annotations": MAPS, "status.hardware.nics": ["names", "empty objects"] },
  ],
  [
    "AddressPool",
    projectAddressPool,
    {
      "spec.ranges": ["texts", "numbers"],
      "spec.preallocations": MAPS,
      "spec.definition": ANYTHING,
      "status.conditions": CONDITIONS,
    },
  ],
  [
    "UserDefinedNetwork",
    (object) => projectUdn(object, "UserDefinedNetwork"),
    { spec: ANYTHING, "status.conditions": CONDITIONS },
  ],
  [
    "NetworkAttachmentDefinition",
    projectNad,
    { "spec.config": TEXT, "metadata.annotations.ipam.holdfast.dev/shared-with": TEXT },
  ],
];

const CASES = VIEWS.map(([kind, project, fields, more]) => {
  const texts = Object.entries(fields).flatMap(([field, shapes]) =>
    shapes.map((shape) => {
      const bytes = field.startsWith("metadata.annotations") ? ANNOTATIONS_BYTES_MAX : OBJECT_BYTES_MAX;
      const textOf = (salt: number, share = 1) => objectWith(field, ALL[shape](bytes * share, salt), more);
      return { field, shape, textOf };
    }),
  );
  return { kind, project, texts };
});

const log = { info: () => {}, warn: () => {} };

/** As a reflector keeps it: the view, or nothing of an object that makes no sense. */
function reflected(project: Project): (text: string) => unknown {
  const items = new ReflectedItems({ project, onUpsert: () => {}, onDelete: () => {}, log }, systemClock);
  return (text) => {
    const listed = new Map();
    items.collect(listed, JSON.parse(text));
    return listed;
  };
}

describe.each(CASES)("$kind", ({ kind, project, texts }) => {
  const read = reflected(project);

  test.each(texts)("$field: of $shape twice the text is kept at most", ({ shape, textOf }) => {
    const reading = keptOf((salt) => textOf(salt), read);
    expect(reading.keptBytes).toBeLessThanOrEqual(2 * reading.textBytes);
    expectMeanwhile(kind, reading, shape);
  });

  test.each(texts)("$field: of $shape takes time in proportion to the text", ({ textOf }) => {
    expectProportion((share) => textOf(1, share), read);
  });
});

test("a view whose fields are kept as text says the same as another", () => {
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`k${at}`, `v"\\€${at}`]));
  const object = JSON.parse(objectWith("metadata.labels", JSON.stringify(many)));
  const items = new ReflectedItems(
    { project: (one) => projectVm(one), onUpsert: () => {}, onDelete: () => {}, log },
    systemClock,
  );
  const listed = new Map();
  items.collect(listed, object);
  const [view] = [...listed.values()];
  expect(Object.getOwnPropertyDescriptor(view, "labels")?.get).toBeDefined();
  expect(view).toEqual(projectVm(object));
  expect(view.labels.get("k17")).toBe('v"\\€17');
});

test("what is nested too deeply for anybody is left out, and the next object is read", async () => {
  const said: string[] = [];
  const items = new ReflectedItems(
    {
      project: (object) => projectAddressPool(object),
      onUpsert: () => {},
      onDelete: () => {},
      log: { ...log, warn: (text: unknown) => void said.push(String(text)) },
    },
    systemClock,
  );
  const deep = objectWith("spec.definition", SHAPES["nested objects"](OBJECT_BYTES_MAX));
  items.upsert(JSON.parse(deep));
  expect(said).toEqual([
    expect.stringMatching(/one makes no sense and is left out: it is nested deeper than 1000 levels/),
  ]);
  items.upsert(
    JSON.parse(deep.replace(/"name":"one"/, '"name":"two"').replace(/"definition":.*?0\}+$/, '"family":4}}')),
  );
  expect([...items.items.keys()]).toEqual(["shop/two"]);
});

test("a claim that lists too many addresses never looks like one that lists few", () => {
  const ips = JSON.stringify(Array.from({ length: 300 }, (_, at) => `10.0.${at >> 8}.${at % 256}/16`));
  const { ips: read } = projectClaim(
    JSON.parse(objectWith("status.ips", ips, { spec: { network: "blue" } })),
  );
  expect(read).toHaveLength(257);
  expect(read.at(-1)).toBe("300 entries, of which 256 are read");
});

describe("an IPAllocation", () => {
  const allocation = (attachments: number, salt: number) =>
    JSON.stringify({
      metadata: { name: `a${salt}`, uid: "u", resourceVersion: "1", creationTimestamp: "t" },
      spec: { network: "blue", address: "10.0.0.1/24", owner: { kind: "Pod", uid: "u" } },
      status: {
        attachments: Object.fromEntries(
          Array.from({ length: attachments }, (_, at) => [`${(at + salt).toString(36)}`, {}]),
        ),
      },
    });

  test("of very many attachments takes no more than twice its text, in time in proportion", () => {
    const rows = new AllocationRows();
    const read = (text: string) => rows.project(JSON.parse(text));
    const reading = keptOf((salt) => allocation(150_000, salt), read);
    expect(reading.keptBytes).toBeLessThanOrEqual(2 * reading.textBytes);
    expectMeanwhile("IPAllocation", reading);
    expectProportion((share) => allocation(150_000 * share, 1), read);
  });
});

test("what guests' requests read by name is remembered up to a size, however small its values are", async () => {
  const clock = systemClock;
  const reads = new CachedReads<unknown>({ clock });
  const text = objectWith("data", SHAPES.keys(OBJECT_BYTES_MAX, 1));
  for (let at = 0; at < 16; at += 1)
    await reads.read(`${at}`, async () => projectTenantObject(JSON.parse(text), "ConfigMap"));
  let asked = 0;
  for (let at = 0; at < 16; at += 1)
    await reads.read(`${at}`, async () => {
      asked += 1;
      return null;
    });
  expect(asked).toBeGreaterThan(4);
  expect(weightOf({ one: "a".repeat(1_000) }).bytes).toBeGreaterThan(1_000);
});
