import { type Conversation, end, get, list, merge, post, put, remove, watch } from "../steps.ts";
import { ALLOCATIONS, allocation, CLAIMS, GROUP_KIND } from "./objects.ts";

const NO_PAGE = {
  kind: "Status",
  code: 404,
  message: "404 page not found\n",
  details: undefined,
  reason: undefined,
};

const NO_VERSION = {
  reason: "NotFound",
  message: "the server could not find the requested resource",
  details: {},
};

export const ABSENT: readonly Conversation[] = [
  {
    title: "a 404 names the object that does not exist",
    steps: [
      get(`${ALLOCATIONS}/{id}`, 404, {
        kind: "Status",
        apiVersion: "v1",
        status: "Failure",
        reason: "NotFound",
        message: 'ipallocations.ipam.holdfast.dev "{id}" not found',
        details: { name: "{id}", ...GROUP_KIND },
        code: 404,
      }),
      merge(`${ALLOCATIONS}/{id}`, { spec: { mac: "x" } }, 404, {
        reason: "NotFound",
        details: { name: "{id}" },
      }),
      remove(`${ALLOCATIONS}/{id}`, undefined, 404, { reason: "NotFound", details: { name: "{id}" } }),
      get(`${CLAIMS}/nothing`, 404, { reason: "NotFound", details: { name: "nothing", kind: "ipamclaims" } }),
      list(CLAIMS, []),
      get("/api/v1/nodes/{id}", 404, { reason: "NotFound", details: { name: "{id}", kind: "nodes" } }),
    ],
  },
  {
    title: "a PUT of an absent object is a 404, and a conflict where it names a UID",
    steps: [
      put(`${ALLOCATIONS}/{id}`, allocation("{id}", { metadata: { resourceVersion: "1" } }), 404, {
        reason: "NotFound",
        details: { name: "{id}" },
      }),
      put(`${ALLOCATIONS}/{id}`, allocation("{id}", { metadata: { resourceVersion: "1", uid: "u" } }), 409, {
        reason: "Conflict",
        message:
          'Operation cannot be fulfilled on ipallocations.ipam.holdfast.dev "{id}": StorageError: invalid object, Code: 4, Key: /registry/ipam.holdfast.dev/ipallocations/{id}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: ',
        details: { name: "{id}", ...GROUP_KIND },
      }),
    ],
  },
  {
    title: "the 404 of a resource that is not served names no object",
    steps: [
      get("/apis/none.holdfast.dev/v1/widgets", 404, NO_PAGE),
      get("/apis/none.holdfast.dev/v1/widgets/{id}", 404, NO_PAGE),
      get("/apis/none.holdfast.dev/v1/namespaces/{id}/widgets/{id}", 404, NO_PAGE),
      get("/apis/ipam.holdfast.dev/v1alpha1/widgets", 404, NO_PAGE),
      get("/apis/ipam.holdfast.dev/v7/ipallocations", 404, NO_PAGE),
      list("/apis/none.holdfast.dev/v1/widgets", "missing"),
      watch("w", "/apis/none.holdfast.dev/v1/widgets", "1"),
      end("w", { kind: "failed", status: 404, problem: "404 404 page not found\n" }, false),
    ],
  },
  {
    title: "the path of a status that is not a subresource is not found",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201),
      merge(`${ALLOCATIONS}/{id}/status`, { status: { node: "n" } }, 404, {
        reason: "NotFound",
        details: { name: "{id}" },
      }),
      get(`${ALLOCATIONS}/{id}/status`, 404, { reason: "NotFound", details: { name: "{id}" } }),
    ],
  },
  {
    title: "the discovery document of a group lists its resources",
    steps: [
      get("/apis/coordination.k8s.io/v1", 200, {
        kind: "APIResourceList",
        groupVersion: "coordination.k8s.io/v1",
      }),
      get("/apis/coordination.k8s.io/v7", 404, NO_VERSION),
    ],
  },
  {
    title: "a server before 1.21 serves only v1beta1 of EndpointSlices",
    minors: { last: 20 },
    steps: [
      get("/apis/discovery.k8s.io/v1", 404, NO_VERSION),
      get("/apis/discovery.k8s.io/v1beta1", 200, { kind: "APIResourceList" }),
      list("/apis/discovery.k8s.io/v1/namespaces/{id}/endpointslices", "missing"),
      list("/apis/discovery.k8s.io/v1beta1/namespaces/{id}/endpointslices", []),
    ],
  },
];
