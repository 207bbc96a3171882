import { expect } from "vitest";
import { type Conversation, get, type Json, list, merge, post, remove, type Said } from "../steps.ts";
import { CLAIMS, CONFIG_MAPS, claim, configMap, DEFINITIONS, NAMESPACES, namespace, PODS, pod } from "./objects.ts";

const ownedBy =
  (name: string, more: Json = {}) =>
  (said: Said): Json => ({
    ...claim("c"),
    metadata: { name: "c", ownerReferences: [referenceTo(said[name], more)] },
  });

const referenceTo = ({ apiVersion, kind, metadata }: Json, more: Json = {}): Json => ({
  apiVersion,
  kind,
  name: metadata.name,
  uid: metadata.uid,
  ...more,
});

/**
 * The garbage collector has seen the claims that were written before: it deletes one whose owner never was. It takes
 * the dependents that it knows, and a claim may reach it later than the deletion of the claim's owner.
 */
const COLLECTOR_KNOWS_THE_CLAIMS: Conversation["steps"] = [
  post(
    CLAIMS,
    {
      ...claim("witness"),
      metadata: {
        name: "witness",
        ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "never-was", uid: "never-was" }],
      },
    },
    201,
  ),
  get(`${CLAIMS}/witness`, 404, { reason: "NotFound" }, { intime: true }),
];

const WIDGETS = "/apis/{id}.holdfast.dev/v1/widgets";
const WIDGET = { apiVersion: "{id}.holdfast.dev/v1", kind: "Widget" };
const definition = {
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
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};

export const CLEANING: readonly Conversation[] = [
  {
    title: "an object whose owner is gone is deleted",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CONFIG_MAPS, configMap("owner"), 201, {}, { as: "owner" }),
      post(CLAIMS, ownedBy("owner"), 201),
      remove(`${CONFIG_MAPS}/owner`, undefined, 200),
      get(`${CLAIMS}/c`, 404, { reason: "NotFound" }, { intime: true }),
    ],
  },
  {
    title: "an owner of the same name with another UID does not count",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CONFIG_MAPS, configMap("owner"), 201, {}, { as: "first" }),
      remove(`${CONFIG_MAPS}/owner`, undefined, 200),
      post(CONFIG_MAPS, configMap("owner"), 201),
      post(CLAIMS, ownedBy("first"), 201),
      get(`${CLAIMS}/c`, 404, { reason: "NotFound" }, { intime: true }),
    ],
  },
  {
    title: "one of two owners keeps an object, and the reference to the other is removed",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CONFIG_MAPS, configMap("one"), 201, {}, { as: "one" }),
      post(CONFIG_MAPS, configMap("two"), 201, {}, { as: "two" }),
      post(
        CLAIMS,
        (said) => ({
          ...claim("c"),
          metadata: { name: "c", ownerReferences: [referenceTo(said.one), referenceTo(said.two)] },
        }),
        201,
      ),
      remove(`${CONFIG_MAPS}/one`, undefined, 200),
      get(`${CLAIMS}/c`, 200, { metadata: { ownerReferences: [{ name: "two" }] } }, { intime: true }),
      remove(`${CONFIG_MAPS}/two`, undefined, 200),
      get(`${CLAIMS}/c`, 404, { reason: "NotFound" }, { intime: true }),
    ],
  },
  {
    title: "a foreground deletion waits for the dependents that block it",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CONFIG_MAPS, configMap("owner"), 201, {}, { as: "owner" }),
      post(
        CLAIMS,
        (said) => {
          const object = ownedBy("owner", { blockOwnerDeletion: true })(said);
          return { ...object, metadata: { ...object.metadata, finalizers: ["holdfast.dev/a"] } };
        },
        201,
      ),
      ...COLLECTOR_KNOWS_THE_CLAIMS,
      remove(`${CONFIG_MAPS}/owner`, { propagationPolicy: "Foreground" }, 200, {
        metadata: { finalizers: ["foregroundDeletion"] },
      }),
      get(`${CLAIMS}/c`, 200, { metadata: { deletionTimestamp: expect.any(String) } }, { intime: true }),
      get(`${CONFIG_MAPS}/owner`, 200),
      merge(`${CLAIMS}/c`, { metadata: { finalizers: null } }, 200),
      get(`${CONFIG_MAPS}/owner`, 404, { reason: "NotFound" }, { intime: true }),
    ],
  },
  {
    title: "an orphaning deletion leaves the dependents behind",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CONFIG_MAPS, configMap("owner"), 201, {}, { as: "owner" }),
      post(CLAIMS, ownedBy("owner"), 201),
      ...COLLECTOR_KNOWS_THE_CLAIMS,
      remove(`${CONFIG_MAPS}/owner`, { propagationPolicy: "Orphan" }, 200, {
        metadata: { finalizers: ["orphan"] },
      }),
      get(`${CONFIG_MAPS}/owner`, 404, { reason: "NotFound" }, { intime: true }),
      get(`${CLAIMS}/c`, 200, { metadata: { ownerReferences: undefined } }),
    ],
  },
  {
    title: "a namespace that is being deleted takes no new objects, and is gone when it is empty",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("c", { metadata: { finalizers: ["holdfast.dev/a"] } }), 201),
      post(CONFIG_MAPS, configMap("m"), 201),
      remove(`${NAMESPACES}/{id}`, undefined, 200, {
        kind: "Namespace",
        metadata: { deletionTimestamp: expect.any(String) },
        status: { phase: "Terminating" },
      }),
      post(CLAIMS, claim("d"), 403, {
        reason: "Forbidden",
        message:
          'ipamclaims.k8s.cni.cncf.io "d" is forbidden: unable to create new content in namespace {id} because it is being terminated',
        details: { name: "d", causes: [{ reason: "NamespaceTerminating", field: "metadata.namespace" }] },
      }),
      get(`${CONFIG_MAPS}/m`, 404, {}, { intime: true }),
      get(`${CLAIMS}/c`, 200, { metadata: { deletionTimestamp: expect.any(String) } }, { intime: true }),
      get(`${NAMESPACES}/{id}`, 200, { status: { phase: "Terminating" } }),
      merge(`${CLAIMS}/c`, { metadata: { finalizers: null } }, 200),
      get(`${NAMESPACES}/{id}`, 404, { reason: "NotFound" }, { intime: true }),
      get(`${CLAIMS}/c`, 404, { details: { name: "c" } }),
    ],
  },
  {
    title: "a namespace's deletion waits for the grace period of its pods",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("p", { spec: { nodeName: "{id}-n" } }), 201),
      remove(`${NAMESPACES}/{id}`, undefined, 200),
      get(`${PODS}/p`, 200, { metadata: { deletionTimestamp: expect.any(String) } }, { intime: true }),
      remove(`${PODS}/p`, { gracePeriodSeconds: 0 }, 200),
      get(`${NAMESPACES}/{id}`, 404, { reason: "NotFound" }, { intime: true }),
    ],
  },
  {
    title: "a definition serves its resource, and its deletion deletes the objects",
    steps: [
      list(WIDGETS, "missing"),
      post(DEFINITIONS, definition, 201),
      get(WIDGETS, 200, { kind: "WidgetList", items: [] }, { intime: true }),
      post(WIDGETS, { ...WIDGET, metadata: { name: "one" } }, 201),
      remove(`${DEFINITIONS}/widgets.{id}.holdfast.dev`, undefined, 200, {
        kind: "CustomResourceDefinition",
      }),
      get(`${DEFINITIONS}/widgets.{id}.holdfast.dev`, 404, { reason: "NotFound" }, { intime: true }),
      get(`${WIDGETS}/one`, 404, { reason: undefined, details: undefined }, { intime: true }),
      post(DEFINITIONS, definition, 201),
      get(WIDGETS, 200, { items: [] }, { intime: true }),
    ],
  },
  {
    title: "a definition that is being deleted stays while its objects have finalizers, and takes no new objects",
    steps: [
      post(DEFINITIONS, definition, 201),
      get(WIDGETS, 200, {}, { intime: true }),
      post(WIDGETS, { ...WIDGET, metadata: { name: "one", finalizers: ["holdfast.dev/a"] } }, 201),
      remove(`${DEFINITIONS}/widgets.{id}.holdfast.dev`, undefined, 200),
      get(`${WIDGETS}/one`, 200, { metadata: { deletionTimestamp: expect.any(String) } }, { intime: true }),
      get(`${DEFINITIONS}/widgets.{id}.holdfast.dev`, 200, {
        metadata: { deletionTimestamp: expect.any(String) },
      }),
      post(WIDGETS, { ...WIDGET, metadata: { name: "two" } }, 405, { reason: "MethodNotAllowed" }, { intime: true }),
      merge(`${WIDGETS}/one`, { metadata: { finalizers: null } }, 200),
      get(`${DEFINITIONS}/widgets.{id}.holdfast.dev`, 404, { reason: "NotFound" }, { intime: true }),
    ],
  },
];
