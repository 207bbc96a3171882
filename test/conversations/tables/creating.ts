import { expect } from "vitest";
import { type Conversation, get, post } from "../steps.ts";
import {
  ALLOCATIONS,
  allocation,
  CLAIMS,
  CONFIG_MAPS,
  claim,
  configMap,
  GROUP_KIND,
  NAMESPACES,
  namespace,
  PODS,
  pod,
} from "./objects.ts";

const UID = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
const VERSION = expect.stringMatching(/^\d+$/);

export const CREATING: readonly Conversation[] = [
  {
    title: "a new object gets a UID, a version, a generation and a time",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {
        apiVersion: "ipam.holdfast.dev/v1alpha1",
        kind: "IPAllocation",
        metadata: {
          name: "{id}",
          uid: UID,
          resourceVersion: VERSION,
          generation: 1,
          creationTimestamp: TIME,
        },
        spec: { address: "10.0.0.5/24" },
        status: { state: "Bound" },
      }),
      get(`${ALLOCATIONS}/{id}`, 200, { metadata: { uid: UID }, status: { state: "Bound" } }),
    ],
  },
  {
    title: "a second object of a name is refused, which is the lock of every allocation",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      post(ALLOCATIONS, allocation("{id}", { spec: { address: "10.0.0.6/24" } }), 409, {
        kind: "Status",
        apiVersion: "v1",
        status: "Failure",
        reason: "AlreadyExists",
        message: 'ipallocations.ipam.holdfast.dev "{id}" already exists',
        details: { name: "{id}", ...GROUP_KIND },
        code: 409,
      }),
      get(`${ALLOCATIONS}/{id}`, 200, (said) => said.first),
    ],
  },
  {
    title: "a client's UID, creation time, generation and deletion time are ignored",
    steps: [
      post(
        ALLOCATIONS,
        allocation("{id}", {
          metadata: {
            uid: "mine",
            generation: 7,
            creationTimestamp: "2001-01-01T00:00:00Z",
            deletionTimestamp: "2001-01-01T00:00:00Z",
            deletionGracePeriodSeconds: 5,
          },
        }),
        201,
        {
          metadata: {
            uid: UID,
            generation: 1,
            creationTimestamp: expect.not.stringContaining("2001"),
            deletionTimestamp: undefined,
            deletionGracePeriodSeconds: undefined,
          },
        },
      ),
    ],
  },
  {
    title: "a new object with a resourceVersion is an internal error, which no client takes for an answer",
    steps: [
      post(
        ALLOCATIONS,
        allocation("{id}", { metadata: { resourceVersion: "5" } }),
        "away",
        "resourceVersion should not be set on objects to be created",
        { deadlineMs: 300 },
      ),
    ],
  },
  {
    title: "a name is generated from generateName, and an object without either is refused",
    steps: [
      post(ALLOCATIONS, { ...allocation(""), metadata: { generateName: "{id}-" } }, 201, {
        metadata: { name: expect.stringMatching(/-[b-z0-9]{5}$/), generateName: "{id}-" },
      }),
      post(ALLOCATIONS, { ...allocation(""), metadata: {} }, 422, {
        reason: "Invalid",
        details: { causes: [{ reason: "FieldValueRequired", field: "metadata.name" }] },
      }),
    ],
  },
  {
    title: "invalid names and labels are refused",
    steps: [
      post(ALLOCATIONS, allocation("{id}_A"), 422, {
        reason: "Invalid",
        details: { name: "{id}_A", causes: [{ reason: "FieldValueInvalid", field: "metadata.name" }] },
      }),
      post(ALLOCATIONS, allocation("{id}", { metadata: { labels: { talk: "a/b" } } }), 422, {
        reason: "Invalid",
        details: { causes: [{ reason: "FieldValueInvalid", field: "metadata.labels" }] },
      }),
      post(ALLOCATIONS, allocation("{id}", { metadata: { labels: { talk: "x".repeat(64) } } }), 422, {
        reason: "Invalid",
        details: { causes: [{ field: "metadata.labels" }] },
      }),
      get(`${ALLOCATIONS}/{id}`, 404),
    ],
  },
  {
    title: "a POST drops a status that is a subresource, and keeps one that is not",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("c", { status: { ips: ["10.0.0.1/24"] } }), 201, { status: undefined }),
      post(ALLOCATIONS, allocation("{id}"), 201, { status: { state: "Bound" } }),
      post(PODS, { ...pod("p"), status: { phase: "Running" } }, 201, { status: { phase: "Pending" } }),
      post("/api/v1/nodes", { metadata: { name: "{id}" }, status: { nodeInfo: { bootID: "b" } } }, 201, {
        status: { nodeInfo: { bootID: "b" } },
      }),
    ],
  },
  {
    title: "an object of a namespace needs that namespace to exist",
    steps: [
      post(CLAIMS, claim("c"), 404, {
        reason: "NotFound",
        message: 'namespaces "{id}" not found',
        details: { name: "{id}", kind: "namespaces" },
      }),
      post(NAMESPACES, namespace(), 201, {
        status: { phase: "Active" },
        spec: { finalizers: ["kubernetes"] },
      }),
      post(CLAIMS, claim("c", { metadata: { namespace: "another" } }), 400, { reason: "BadRequest" }),
      post(CLAIMS, claim("c"), 201, { metadata: { namespace: "{id}" } }),
      post(CONFIG_MAPS, configMap("m"), 201, { metadata: { namespace: "{id}", generation: undefined } }),
    ],
  },
  {
    title: "an object of another kind, and a custom object without apiVersion and kind, are refused",
    steps: [
      post(ALLOCATIONS, { ...allocation("{id}"), kind: "IPNetwork" }, 422, {
        reason: "Invalid",
        details: { kind: "IPNetwork", causes: [{ reason: "FieldValueInvalid", field: "kind" }] },
      }),
      post(ALLOCATIONS, { metadata: { name: "{id}" } }, 400, { reason: "BadRequest" }),
      post(NAMESPACES, { metadata: { name: "{id}" } }, 201, { kind: "Namespace", apiVersion: "v1" }),
    ],
  },
  {
    title: "a dry run writes nothing",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, { metadata: { name: "{id}" } }, { query: { dryRun: "All" } }),
      get(`${ALLOCATIONS}/{id}`, 404, { reason: "NotFound" }),
    ],
  },
];
