import { nodeFact, projectSweptPod } from "../../claims/reasons/fact-views.ts";
import { ReflectedItems } from "../../kube/reflected-items.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import { projectCapiCluster, projectMachineAddress, projectMachineClaim } from "../../kube/views/machine-claim-view.ts";
import { projectDataClaim, projectDataTemplate, projectMachineData } from "../../kube/views/machine-data-view.ts";
import { projectHost, projectMetal3Machine } from "../../kube/views/metal3-machine-view.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { projectService } from "../../kube/views/service-view.ts";
import { projectTemplatedVm } from "../../kube/views/templated-vm-view.ts";
import { projectNamespace, projectTenantObject, projectVm } from "../../kube/views/tenant-objects.ts";
import { projectVmi } from "../../kube/views/vmi-view.ts";
import { projectSlice } from "../../metadata/tenant/services-endpoints.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { projectUdn } from "../../networks/udn/udn-object.ts";
import { systemClock } from "../../platform/time.ts";
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
  addresses: (bytes, salt) => list(bytes, (at) => `"10.${at >> 16}.${(at >> 8) % 256}.${(at + salt) % 256}/8"`),
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
  ["Pod of a sweep", projectSweptPod, { "metadata.annotations.k8s.v1.cni.cncf.io/network-status": ["texts"] }],
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
  ["IPAddressClaim", projectMachineClaim, { "status.conditions": CONDITIONS, "metadata.annotations.ipAddress": TEXT }],
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
  ["BareMetalHost", projectHost, { "metadata.annotations": MAPS, "status.hardware.nics": ["names", "empty objects"] }],
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

/** A kind, its projection, and the texts of its fields. */
export const CASES = VIEWS.map(([kind, project, fields, more]) => {
  const texts = Object.entries(fields).flatMap(([field, shapes]) =>
    shapes.map((shape) => {
      const bytes = field.startsWith("metadata.annotations") ? ANNOTATIONS_BYTES_MAX : OBJECT_BYTES_MAX;
      const textOf = (salt: number, share = 1) => objectWith(field, ALL[shape](bytes * share, salt), more);
      return { field, shape, textOf };
    }),
  );
  return { kind, project, texts };
});

export const log = { info: () => {}, warn: () => {} };

/** As a reflector keeps it: the view, or nothing of an object that makes no sense. */
export function reflected(project: Project): (text: string) => unknown {
  const items = new ReflectedItems({ project, onUpsert: () => {}, onDelete: () => {}, log }, systemClock);
  return (text) => {
    const listed = new Map();
    items.collect(listed, JSON.parse(text));
    return listed;
  };
}
