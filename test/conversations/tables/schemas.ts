import { type Conversation, get, type Json, merge, patch, post, type SendStep } from "../steps.ts";
import { ALLOCATIONS, allocation, CLAIMS, claim, DEFINITIONS, NAMESPACES, NETWORKS, namespace } from "./objects.ts";

const network = (more: Json = {}): Json => ({
  apiVersion: "ipam.holdfast.dev/v1alpha1",
  kind: "IPNetwork",
  metadata: { name: "{id}" },
  spec: { network: "{id}", ...more.spec },
  ...(more.status === undefined ? {} : { status: more.status }),
});

/** An object that is refused for these fields. */
const refused = (path: string, object: Json, ...fields: readonly string[]): SendStep =>
  post(path, object, 422, {
    reason: "Invalid",
    details: { causes: fields.map((field) => ({ field })) },
  });

const condition = (more: Json = {}): Json => ({
  type: "Imported",
  status: "True",
  lastTransitionTime: "2026-01-01T00:00:00Z",
  reason: "Done",
  message: "",
  ...more,
});

const WIDGETS = "/apis/{id}.holdfast.dev/v1/widgets";
const widget = (spec: Json): Json => ({
  apiVersion: "{id}.holdfast.dev/v1",
  kind: "Widget",
  metadata: { name: "one" },
  spec,
});
const definition = (schema: Json): Json => ({
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.{id}.holdfast.dev" },
  spec: {
    group: "{id}.holdfast.dev",
    scope: "Cluster",
    names: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", properties: { spec: schema } } },
      },
    ],
  },
});
const defined = (schema: Json) => [
  post(DEFINITIONS, definition(schema), 201),
  get(WIDGETS, 200, { items: [] }, { intime: true }),
];

const NEXT_WIDGETS = WIDGETS.replace("v1", "v2");
const nextVersion = {
  name: "v2",
  served: true,
  storage: true,
  schema: {
    openAPIV3Schema: {
      type: "object",
      properties: { spec: { type: "object", properties: { both: { type: "string" } } } },
    },
  },
};

export const SCHEMAS: readonly Conversation[] = [
  {
    title: "a null field counts as absent, unless it is nullable",
    steps: [
      post(ALLOCATIONS, allocation("{id}", { spec: { vm: null, mac: null } }), 201, {
        spec: { vm: undefined, mac: undefined },
      }),
      refused(ALLOCATIONS, allocation("{id}-2", { spec: { network: null } }), "spec.network"),
    ],
  },
  {
    title: "unknown fields are dropped, at every depth",
    steps: [
      post(
        ALLOCATIONS,
        {
          ...allocation("{id}", {
            spec: { more: 1 },
            status: { state: "Bound", more: 2, attachments: { x: { node: "n", more: 3 } } },
          }),
          extra: 4,
        },
        201,
        {
          extra: undefined,
          spec: { more: undefined },
          status: { more: undefined, attachments: { x: { node: "n", more: undefined } } },
        },
      ),
      merge(`${ALLOCATIONS}/{id}`, { spec: { more: 1 }, extra: 2 }, 200, {
        extra: undefined,
        metadata: { generation: 1 },
      }),
    ],
  },
  {
    title: "an allocation without a required field is refused",
    steps: [
      refused(ALLOCATIONS, { ...allocation("{id}"), spec: undefined }, "spec"),
      refused(ALLOCATIONS, { ...allocation("{id}"), spec: {} }, "spec.network", "spec.address", "spec.owner"),
      refused(ALLOCATIONS, allocation("{id}", { spec: { network: "" } }), "spec.network"),
      refused(ALLOCATIONS, allocation("{id}", { spec: { owner: { kind: "Pod" } } }), "spec.owner.uid"),
      refused(ALLOCATIONS, allocation("{id}", { spec: { address: 5 } }), "spec.address"),
      refused(ALLOCATIONS, allocation("{id}", { spec: { vm: "yes" } }), "spec.vm"),
      refused(ALLOCATIONS, allocation("{id}", { status: { attachments: { x: "n" } } }), "status.attachments.x"),
      post(ALLOCATIONS, allocation("{id}", { spec: { owner: { kind: "Nobody", uid: "u" } } }), 422, {
        reason: "Invalid",
        details: {
          name: "{id}",
          group: "ipam.holdfast.dev",
          kind: "IPAllocation",
          causes: [{ reason: "FieldValueNotSupported", field: "spec.owner.kind" }],
        },
      }),
      get(`${ALLOCATIONS}/{id}`, 404),
    ],
  },
  {
    title: "a patch is validated by the whole object that results",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201),
      merge(`${ALLOCATIONS}/{id}`, { spec: { owner: { uid: null } } }, 422, {
        details: { causes: [{ field: "spec.owner.uid" }] },
      }),
      merge(`${ALLOCATIONS}/{id}`, { status: { state: "Gone" } }, 422, {
        details: { causes: [{ field: "status.state" }] },
      }),
      get(`${ALLOCATIONS}/{id}`, 200, { spec: { owner: { uid: "u1" } }, metadata: { generation: 1 } }),
    ],
  },
  {
    title: "the lists and conditions of an IPNetwork are validated",
    steps: [
      refused(NETWORKS, network({ spec: { definedIn: "x".repeat(64) } }), "spec.definedIn"),
      refused(NETWORKS, network({ spec: { sharedWith: ["a", ""] } }), "spec.sharedWith"),
      refused(
        NETWORKS,
        network({ spec: { sharedWith: Array.from({ length: 1_001 }, (_, i) => `n${i}`) } }),
        "spec.sharedWith",
      ),
      refused(
        NETWORKS,
        network({ status: { conditions: [condition({ status: "Maybe" })] } }),
        "status.conditions.status",
      ),
      refused(NETWORKS, network({ status: { conditions: [condition({ reason: "" })] } }), "status.conditions.reason"),
      refused(
        NETWORKS,
        network({ status: { conditions: [condition({ observedGeneration: -1 })] } }),
        "status.conditions.observedGeneration",
      ),
      refused(
        NETWORKS,
        network({ status: { conditions: [condition({ lastTransitionTime: "yesterday" })] } }),
        "status.conditions.lastTransitionTime",
      ),
      refused(NETWORKS, network({ status: { conditions: [condition(), condition()] } }), "status.conditions[1]"),
      post(
        NETWORKS,
        network({ status: { conditions: [condition()], importedFrom: [{ uid: "u", generation: 3 }] } }),
        201,
        {
          status: { conditions: [condition()], importedFrom: [{ uid: "u", generation: 3 }] },
        },
      ),
    ],
  },
  {
    title: "a claim's status must have ips",
    steps: [
      post(NAMESPACES, namespace(), 201),
      refused(CLAIMS, { ...claim("c"), spec: { network: "blue" } }, "spec.interface"),
      post(CLAIMS, claim("c"), 201),
      merge(`${CLAIMS}/c/status`, { status: { ownerPod: { name: "p" } } }, 422, {
        details: { causes: [{ field: "status.ips" }] },
      }),
      merge(`${CLAIMS}/c/status`, { status: { ips: [], ownerPod: "p" } }, 422, {
        details: { causes: [{ field: "status.ownerPod" }] },
      }),
      merge(`${CLAIMS}/c/status`, { status: { ips: [], conditions: [condition({ reason: "no reason" })] } }, 422, {
        details: { causes: [{ field: "status.conditions.reason" }] },
      }),
      merge(`${CLAIMS}/c/status`, { status: { ips: ["10.0.0.1/24"], ownerPod: { name: "p" } } }, 200, {
        status: { ips: ["10.0.0.1/24"], ownerPod: { name: "p" } },
      }),
    ],
  },
  {
    title: "defaults are set when an object is written",
    steps: [
      ...defined({
        type: "object",
        properties: {
          size: { type: "integer", default: 3 },
          parts: {
            type: "array",
            items: { type: "object", properties: { kind: { type: "string", default: "plain" } } },
          },
        },
      }),
      post(WIDGETS, widget({ parts: [{}, { kind: "other" }] }), 201, {
        spec: { size: 3, parts: [{ kind: "plain" }, { kind: "other" }] },
      }),
      merge(`${WIDGETS}/one`, { spec: { size: null } }, 200, { spec: { size: 3 } }),
    ],
  },
  {
    title: "numbers, patterns, sets and preserved unknown fields are validated",
    steps: [
      ...defined({
        type: "object",
        properties: {
          count: { type: "integer", minimum: 1, maximum: 5 },
          name: { type: "string", pattern: "^[a-z]+$" },
          ports: { type: "array", minItems: 1, maxItems: 2, items: { type: "integer" } },
          tags: { type: "array", items: { type: "string" }, "x-kubernetes-list-type": "set" },
          free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
          either: { "x-kubernetes-int-or-string": true },
          maybe: { type: "string", nullable: true },
          map: { type: "object", additionalProperties: { type: "string" } },
        },
      }),
      refused(WIDGETS, widget({ count: 0 }), "spec.count"),
      refused(WIDGETS, widget({ count: 6 }), "spec.count"),
      refused(WIDGETS, widget({ count: 1.5 }), "spec.count"),
      refused(WIDGETS, widget({ name: "A" }), "spec.name"),
      refused(WIDGETS, widget({ ports: [] }), "spec.ports"),
      refused(WIDGETS, widget({ ports: [1, 2, 3] }), "spec.ports"),
      refused(WIDGETS, widget({ tags: ["a", "a"] }), "spec.tags[1]"),
      refused(WIDGETS, widget({ either: true }), "spec.either"),
      refused(WIDGETS, widget({ map: { a: 1 } }), "spec.map.a"),
      post(
        WIDGETS,
        widget({
          count: 5,
          name: "a",
          ports: [1],
          tags: ["a", "b"],
          free: { x: { y: [1] } },
          either: "80%",
          maybe: null,
          map: { a: "b" },
        }),
        201,
        {
          spec: { free: { x: { y: [1] } }, either: "80%", maybe: null, map: { a: "b" } },
        },
      ),
    ],
  },
  {
    title: "an object is shown in the version that is served, without what that does not know",
    steps: [
      ...defined({ type: "object", properties: { old: { type: "string" }, both: { type: "string" } } }),
      post(WIDGETS, widget({ old: "a", both: "b" }), 201),
      patch(
        `${DEFINITIONS}/widgets.{id}.holdfast.dev`,
        [
          { op: "replace", path: "/spec/versions/0/served", value: false },
          { op: "replace", path: "/spec/versions/0/storage", value: false },
          { op: "add", path: "/spec/versions/-", value: nextVersion },
        ],
        200,
      ),
      get(
        `${NEXT_WIDGETS}/one`,
        200,
        { apiVersion: "{id}.holdfast.dev/v2", spec: { both: "b", old: undefined } },
        { intime: true },
      ),
      get(NEXT_WIDGETS, 200, {
        items: [{ apiVersion: "{id}.holdfast.dev/v2", spec: { both: "b", old: undefined } }],
      }),
      merge(`${NEXT_WIDGETS}/one`, { spec: { both: "c" } }, 200, {
        apiVersion: "{id}.holdfast.dev/v2",
        spec: { both: "c", old: undefined },
      }),
      get(`${WIDGETS}/one`, 404, {}),
    ],
  },
];
