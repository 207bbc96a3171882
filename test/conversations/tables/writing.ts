import { type Conversation, get, merge, patch, post, put } from "../steps.ts";
import {
  ALLOCATIONS,
  allocation,
  CLAIMS,
  CONFIG_MAPS,
  changed,
  claim,
  configMap,
  GROUP_KIND,
  LEASES,
  NAMESPACES,
  namespace,
  PODS,
  pod,
} from "./objects.ts";

const ONE = `${ALLOCATIONS}/{id}`;
const STALE =
  'Operation cannot be fulfilled on ipallocations.ipam.holdfast.dev "{id}": the object has been modified; please apply your changes to the latest version and try again';
const IS_STALE = { reason: "Conflict", message: STALE, details: { name: "{id}", ...GROUP_KIND }, code: 409 };

const lease = (name: string, more: object = {}) => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: { name, ...more },
  spec: { holderIdentity: "me" },
});

const SECRETS = "/api/v1/namespaces/{id}/secrets";

export const WRITING: readonly Conversation[] = [
  {
    title: "a Secret keeps as bytes what it is given as text",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(
        SECRETS,
        {
          apiVersion: "v1",
          kind: "Secret",
          metadata: { name: "boot" },
          data: { kept: "eA==" },
          stringData: { userdata: "first" },
        },
        201,
        { data: { kept: "eA==", userdata: "Zmlyc3Q=" }, stringData: undefined },
      ),
      merge(`${SECRETS}/boot`, { stringData: { userdata: "second" } }, 200, {
        data: { kept: "eA==", userdata: "c2Vjb25k" },
        stringData: undefined,
      }),
    ],
  },
  {
    title: "a PUT with the current version is written, and one with an older version is a conflict",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      put(
        ONE,
        changed("first", () => ({ status: { state: "Cooling" } })),
        200,
        (said) => ({
          metadata: { uid: said.first.metadata.uid, generation: 2 },
          status: { state: "Cooling" },
        }),
        { as: "second" },
      ),
      put(ONE, (said) => said.first, 409, IS_STALE),
      get(ONE, 200, (said) => said.second),
    ],
  },
  {
    title: "a PUT of a custom object without a version is refused, one of a ConfigMap overwrites",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(ALLOCATIONS, allocation("{id}"), 201),
      put(ONE, allocation("{id}"), 422, {
        reason: "Invalid",
        details: {
          name: "{id}",
          causes: [{ reason: "FieldValueInvalid", field: "metadata.resourceVersion" }],
        },
      }),
      post(CONFIG_MAPS, configMap("m", { data: { a: "1" } }), 201),
      put(`${CONFIG_MAPS}/m`, configMap("m", { data: { b: "2" } }), 200, { data: { b: "2" } }),
    ],
  },
  {
    title: "a PUT that changes nothing keeps the version",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      put(
        ONE,
        (said) => said.first,
        200,
        (said) => ({
          metadata: { resourceVersion: said.first.metadata.resourceVersion },
        }),
      ),
      merge(ONE, { status: { state: "Bound" } }, 200, (said) => ({
        metadata: { resourceVersion: said.first.metadata.resourceVersion, generation: 1 },
      })),
    ],
  },
  {
    title: "a PUT with another UID is a conflict, and one with another name is invalid",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      put(
        ONE,
        changed("first", ({ metadata }) => ({ metadata: { ...metadata, uid: "another" } })),
        409,
        (said) => ({
          reason: "Conflict",
          message: `Operation cannot be fulfilled on ipallocations.ipam.holdfast.dev "{id}": StorageError: invalid object, Code: 4, Key: /registry/ipam.holdfast.dev/ipallocations/{id}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: another, UID in object meta: ${said.first.metadata.uid}`,
        }),
      ),
      put(
        ONE,
        changed("first", ({ metadata }) => ({ metadata: { ...metadata, name: "{id}-2" } })),
        400,
        {
          reason: "BadRequest",
          message: "the name of the object ({id}-2) does not match the name on the URL ({id})",
        },
      ),
    ],
  },
  {
    title: "the generation counts changes outside metadata and a status subresource",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(ALLOCATIONS, allocation("{id}"), 201, { metadata: { generation: 1 } }),
      merge(ONE, { metadata: { annotations: { a: "b" } } }, 200, { metadata: { generation: 1 } }),
      merge(ONE, { status: { node: "n" } }, 200, { metadata: { generation: 2 } }),
      merge(ONE, { spec: { mac: "02:00:00:00:00:01" } }, 200, { metadata: { generation: 3 } }),
      post(CLAIMS, claim("c"), 201, { metadata: { generation: 1 } }),
      merge(`${CLAIMS}/c/status`, { status: { ips: [] } }, 200, {
        metadata: { generation: 1 },
        status: { ips: [] },
      }),
      merge(`${CLAIMS}/c`, { spec: { interface: "net2" } }, 200, {
        metadata: { generation: 2 },
        status: { ips: [] },
      }),
    ],
  },
  {
    title: "a write of the status subresource changes only the status, and one of the object all else",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("c"), 201, {}, { as: "claim" }),
      merge(
        `${CLAIMS}/c/status`,
        { metadata: { labels: { a: "b" } }, spec: { network: "red" }, status: { ips: ["10.0.0.1/24"] } },
        200,
        { metadata: { labels: undefined }, spec: { network: "blue" }, status: { ips: ["10.0.0.1/24"] } },
      ),
      merge(
        `${CLAIMS}/c`,
        { metadata: { labels: { a: "b" } }, status: { ips: [] } },
        200,
        {
          metadata: { labels: { a: "b" } },
          status: { ips: ["10.0.0.1/24"] },
        },
        { as: "labelled" },
      ),
      put(
        `${CLAIMS}/c/status`,
        changed("labelled", () => ({ status: { ips: ["10.0.0.2/24"] }, spec: {} })),
        200,
        { spec: { network: "blue" }, status: { ips: ["10.0.0.2/24"] } },
      ),
      put(`${CLAIMS}/c/status`, (said) => said.labelled, 409, { reason: "Conflict" }),
      get(`${CLAIMS}/c/status`, 200, { status: { ips: ["10.0.0.2/24"] } }),
    ],
  },
  {
    title: "a merge patch changes the named fields, removes null ones, and replaces lists",
    steps: [
      post(
        ALLOCATIONS,
        allocation("{id}", {
          metadata: { annotations: { a: "1", b: "2" } },
          status: { attachments: { x: { node: "n" }, y: { node: "m" } } },
        }),
        201,
      ),
      merge(
        ONE,
        {
          metadata: { annotations: { a: null, c: "3" } },
          status: { attachments: { x: null, z: { node: "o" } } },
        },
        200,
        {
          metadata: { annotations: { a: undefined, b: "2", c: "3" } },
          status: { attachments: { x: undefined, y: { node: "m" }, z: { node: "o" } } },
        },
      ),
      merge(ONE, { metadata: { finalizers: ["holdfast.dev/a", "holdfast.dev/b"] } }, 200, {
        metadata: { finalizers: ["holdfast.dev/a", "holdfast.dev/b"] },
      }),
      merge(ONE, { metadata: { finalizers: ["holdfast.dev/b"] } }, 200, {
        metadata: { finalizers: ["holdfast.dev/b"] },
      }),
      merge(ONE, { metadata: { finalizers: null } }, 200, { metadata: { finalizers: undefined } }),
    ],
  },
  {
    title: "a merge patch with an older version is a conflict, and one with another UID is refused",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      merge(
        ONE,
        (said) => ({
          metadata: { resourceVersion: said.first.metadata.resourceVersion },
          status: { node: "n" },
        }),
        200,
      ),
      merge(
        ONE,
        (said) => ({
          metadata: { resourceVersion: said.first.metadata.resourceVersion },
          status: { node: "m" },
        }),
        409,
        IS_STALE,
      ),
      merge(ONE, { metadata: { uid: "another" }, status: { node: "m" } }, 422, {
        reason: "Invalid",
        details: { causes: [{ field: "metadata.uid" }, { field: "metadata.uid" }] },
      }),
      get(ONE, 200, { status: { node: "n" } }),
    ],
  },
  {
    title: "a JSON patch is applied when its tests hold, and refused as a whole when one does not",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201),
      patch(
        ONE,
        [
          { op: "test", path: "/spec/owner/uid", value: "u1" },
          { op: "test", path: "/status/state", value: "Bound" },
          { op: "add", path: "/status/attachments", value: {} },
          { op: "add", path: "/status/attachments/c1.net1", value: { node: "n" } },
          { op: "replace", path: "/status/state", value: "Cooling" },
        ],
        200,
        { status: { state: "Cooling", attachments: { "c1.net1": { node: "n" } } } },
      ),
      patch(
        ONE,
        [
          { op: "replace", path: "/status/node", value: "m" },
          { op: "test", path: "/spec/owner/uid", value: "u2" },
        ],
        422,
        { reason: "Invalid", code: 422 },
      ),
      patch(ONE, [{ op: "remove", path: "/status/nothing" }], 422, { reason: "Invalid" }),
      patch(ONE, [{ op: "remove", path: "/status/attachments/c1.net1" }], 200, {
        status: { attachments: {} },
      }),
      get(ONE, 200, { status: { state: "Cooling", node: undefined } }),
    ],
  },
  {
    title: "a PUT creates a Lease where there is none, and needs a version where there is one",
    steps: [
      post(NAMESPACES, namespace(), 201),
      put(`${LEASES}/l`, lease("l"), 201, { spec: { holderIdentity: "me" } }, { as: "lease" }),
      put(`${LEASES}/l`, lease("l"), 422, { reason: "Invalid" }),
      put(
        `${LEASES}/l`,
        changed("lease", () => ({ spec: { holderIdentity: "you" } })),
        200,
        {
          spec: { holderIdentity: "you" },
        },
      ),
      put(`${LEASES}/l`, (said) => said.lease, 409, { reason: "Conflict" }),
      post(LEASES, lease("l"), 409, { reason: "AlreadyExists" }),
    ],
  },
  {
    title: "the spec of a pod cannot be changed, and its status is a subresource",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("p", { spec: { nodeName: "n" } }), 201),
      merge(`${PODS}/p`, { spec: { hostname: "x" } }, 422, { reason: "Invalid" }),
      merge(`${PODS}/p`, { metadata: { annotations: { a: "b" } }, status: { phase: "Running" } }, 200, {
        metadata: { annotations: { a: "b" } },
        status: { phase: "Pending" },
      }),
      merge(`${PODS}/p/status`, { status: { phase: "Running", podIP: "10.1.0.1" } }, 200, {
        status: { phase: "Running", podIP: "10.1.0.1" },
      }),
    ],
  },
];
