import { expect } from "vitest";
import { type Conversation, get, merge, patch, post, put, remove } from "../steps.ts";
import {
  ALLOCATIONS,
  allocation,
  CONFIG_MAPS,
  changed,
  configMap,
  GROUP_KIND,
  NAMESPACES,
  namespace,
  PODS,
  pod,
} from "./objects.ts";

const ONE = `${ALLOCATIONS}/{id}`;
const FINALIZER = "ipam.holdfast.dev/bound";
const held = allocation("{id}", { metadata: { finalizers: [FINALIZER] } });
const TIME = expect.stringMatching(/^\d{4}-/);

export const DELETING: readonly Conversation[] = [
  {
    title: "an object without finalizers is gone at once",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      remove(ONE, undefined, 200, (said) => ({
        kind: "Status",
        apiVersion: "v1",
        status: "Success",
        details: { name: "{id}", ...GROUP_KIND, uid: said.first.metadata.uid },
      })),
      get(ONE, 404, { reason: "NotFound" }),
      remove(ONE, undefined, 404, { reason: "NotFound" }),
      post(ALLOCATIONS, allocation("{id}"), 201, (said) => ({
        metadata: { generation: 1, uid: expect.not.stringMatching(said.first.metadata.uid) },
      })),
    ],
  },
  {
    title: "a deletion may have preconditions on UID and version",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      merge(ONE, { status: { node: "n" } }, 200, {}, { as: "second" }),
      remove(ONE, { preconditions: { uid: "another" } }, 409, {
        reason: "Conflict",
        details: { name: "{id}" },
      }),
      remove(
        ONE,
        (said) => ({
          preconditions: {
            uid: said.first.metadata.uid,
            resourceVersion: said.first.metadata.resourceVersion,
          },
        }),
        409,
        {
          reason: "Conflict",
        },
      ),
      remove(
        ONE,
        (said) => ({
          preconditions: {
            uid: said.second.metadata.uid,
            resourceVersion: said.second.metadata.resourceVersion,
          },
        }),
        200,
        {
          status: "Success",
        },
      ),
      get(ONE, 404),
    ],
  },
  {
    title: "a finalizer keeps an object that is being deleted until it is removed",
    steps: [
      post(ALLOCATIONS, held, 201, {}, { as: "first" }),
      remove(
        ONE,
        undefined,
        200,
        (said) => ({
          kind: "IPAllocation",
          metadata: {
            uid: said.first.metadata.uid,
            generation: 2,
            deletionTimestamp: TIME,
            deletionGracePeriodSeconds: 0,
            finalizers: [FINALIZER],
          },
        }),
        { as: "marked" },
      ),
      remove(ONE, undefined, 200, (said) => ({
        metadata: { resourceVersion: said.marked.metadata.resourceVersion, generation: 2 },
      })),
      post(ALLOCATIONS, held, 409, { reason: "AlreadyExists" }),
      put(
        ONE,
        changed("marked", () => ({ status: { state: "Cooling" } })),
        200,
        { metadata: { deletionTimestamp: TIME } },
        { as: "cooled" },
      ),
      put(
        ONE,
        changed("cooled", ({ metadata }) => ({ metadata: { ...metadata, finalizers: [] } })),
        200,
        { kind: "IPAllocation" },
      ),
      get(ONE, 404, { reason: "NotFound" }),
    ],
  },
  {
    title: "a deletion cannot be undone, and no finalizer can be added during it",
    steps: [
      post(ALLOCATIONS, held, 201),
      remove(ONE, undefined, 200),
      merge(ONE, { metadata: { deletionTimestamp: null, deletionGracePeriodSeconds: null } }, 200, {
        metadata: { deletionTimestamp: TIME },
      }),
      merge(ONE, { metadata: { finalizers: [FINALIZER, "holdfast.dev/more"] } }, 422, {
        reason: "Invalid",
        details: {
          causes: [{ reason: "FieldValueForbidden", field: "metadata.finalizers" }, { field: "metadata.finalizers" }],
        },
      }),
      patch(ONE, [{ op: "remove", path: "/metadata/finalizers" }], 200),
      get(ONE, 404),
    ],
  },
  {
    title: "a pod on a node has its grace period, and is gone when its kubelet deletes it",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("p", { spec: { nodeName: "n", terminationGracePeriodSeconds: 40 } }), 201, {}, { as: "pod" }),
      remove(`${PODS}/p`, undefined, 200, {
        kind: "Pod",
        metadata: { deletionTimestamp: TIME, deletionGracePeriodSeconds: 40 },
      }),
      remove(`${PODS}/p`, { gracePeriodSeconds: 50 }, 200, { metadata: { deletionGracePeriodSeconds: 40 } }),
      remove(`${PODS}/p`, { gracePeriodSeconds: 10 }, 200, { metadata: { deletionGracePeriodSeconds: 10 } }),
      get(`${PODS}/p`, 200, { metadata: { deletionGracePeriodSeconds: 10 } }),
      remove(`${PODS}/p`, { gracePeriodSeconds: 0, preconditions: { uid: "another" } }, 409, {
        reason: "Conflict",
      }),
      remove(`${PODS}/p`, (said) => ({ gracePeriodSeconds: 0, preconditions: { uid: said.pod.metadata.uid } }), 200, {
        kind: "Pod",
      }),
      get(`${PODS}/p`, 404, { reason: "NotFound" }),
    ],
  },
  {
    title: "a pod without a node, and one that has ended, are gone at once",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("p"), 201),
      remove(`${PODS}/p`, undefined, 200, { kind: "Pod" }),
      get(`${PODS}/p`, 404),
      post(PODS, pod("q", { spec: { nodeName: "n" } }), 201),
      merge(`${PODS}/q/status`, { status: { phase: "Succeeded" } }, 200),
      remove(`${PODS}/q`, undefined, 200),
      get(`${PODS}/q`, 404),
    ],
  },
  {
    title: "a finalizer keeps a pod after its grace period",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("p", { metadata: { finalizers: ["holdfast.dev/a"] } }), 201),
      remove(`${PODS}/p`, { gracePeriodSeconds: 0 }, 200, { metadata: { deletionGracePeriodSeconds: 0 } }),
      get(`${PODS}/p`, 200, { metadata: { deletionTimestamp: TIME } }),
      merge(`${PODS}/p`, { metadata: { finalizers: null } }, 200),
      get(`${PODS}/p`, 404),
    ],
  },
  {
    title: "the propagation policy of a deletion is kept as a finalizer",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CONFIG_MAPS, configMap("m", { metadata: { finalizers: ["holdfast.dev/a"] } }), 201),
      remove(`${CONFIG_MAPS}/m`, { propagationPolicy: "Background" }, 200, {
        metadata: { finalizers: ["holdfast.dev/a"] },
      }),
      post(CONFIG_MAPS, configMap("n", { metadata: { finalizers: ["holdfast.dev/a"] } }), 201),
      remove(`${CONFIG_MAPS}/n`, undefined, 200, { metadata: { finalizers: ["holdfast.dev/a"] } }),
      merge(`${CONFIG_MAPS}/m`, { metadata: { finalizers: null } }, 200),
      merge(`${CONFIG_MAPS}/n`, { metadata: { finalizers: null } }, 200),
    ],
  },
];
