import { expect } from "vitest";
import {
  type Conversation,
  end,
  get,
  hear,
  hearOf,
  list,
  merge,
  operate,
  post,
  put,
  remove,
  type Said,
  watch,
} from "../steps.ts";
import {
  ALLOCATIONS,
  allocation,
  CLAIMS,
  CONFIG_MAPS,
  changed,
  claim,
  configMap,
  NAMESPACES,
  namespace,
  PODS,
  pod,
  versionOf,
} from "./objects.ts";

const ONE = `${ALLOCATIONS}/{id}`;
const OURS = { labelSelector: "talk={id}" };
const named = (name: string, more: object = {}) => ({ metadata: { name, ...more } });
const bookmarks = { allowWatchBookmarks: "true" };
const as = (name: string) => ({ as: name });
const at = (name: string) => (said: Said) => ({ metadata: { resourceVersion: versionOf(name)(said) } });

const bindingTo = (node: string) => ({
  apiVersion: "v1",
  kind: "Binding",
  metadata: { name: "p" },
  target: { kind: "Node", name: node },
});

export const WATCHES: readonly Conversation[] = [
  {
    title: "a watch shows the writes since its version, and then each new write",
    steps: [
      post(ALLOCATIONS, allocation("{id}-0"), 201, {}, { as: "zero" }),
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      watch("w", ALLOCATIONS, versionOf("zero"), { query: OURS }),
      hearOf("w", (said) => [["ADDED", said.one]]),
      merge(ONE, { status: { node: "n" } }, 200, {}, { as: "two" }),
      remove(ONE, undefined, 200),
      hearOf("w", (said) => [
        ["MODIFIED", said.two],
        ["DELETED", { metadata: { name: "{id}", uid: said.two.metadata.uid }, status: { node: "n" } }],
      ]),
      put(`${ALLOCATIONS}/{id}-0`, (said) => said.zero, 200, at("zero")),
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "again" }),
      hearOf("w", (said) => [["ADDED", said.again]]),
    ],
  },
  {
    title: "a pod that is bound appears to whoever watches the pods of its node, and cannot be bound again",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("p"), 201, {}, { as: "made" }),
      watch("w", PODS, versionOf("made"), { query: { fieldSelector: "spec.nodeName=n" } }),
      post(`${PODS}/p/binding`, bindingTo("n"), 201, { kind: "Status", status: "Success" }),
      hear("w", ["ADDED", { metadata: { name: "p" }, spec: { nodeName: "n" } }]),
      get(`${PODS}/p`, 200, {
        spec: { nodeName: "n" },
        status: { phase: "Pending", conditions: [{ type: "PodScheduled", status: "True" }] },
      }),
      post(`${PODS}/p/binding`, bindingTo("m"), 409, {
        reason: "Conflict",
        message: 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
      }),
      remove(`${PODS}/p`, undefined, 200),
      post(`${PODS}/p/binding`, bindingTo("n"), 409, { reason: "Conflict" }),
      remove(`${PODS}/p`, { gracePeriodSeconds: 0 }, 200),
      post(`${PODS}/p/binding`, bindingTo("n"), 404, { reason: "NotFound", details: { name: "p", kind: "pods" } }),
      hear("w", ["MODIFIED", named("p")], ["MODIFIED", named("p")], ["DELETED", named("p")]),
    ],
  },
  {
    title: "a deletion has a version of its own",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      watch("w", ALLOCATIONS, versionOf("one"), { query: OURS }),
      remove(ONE, undefined, 200),
      hearOf("w", (said) => [
        ["DELETED", { metadata: { resourceVersion: expect.not.stringMatching(`^${versionOf("one")(said)}$`) } }],
      ]),
    ],
  },
  {
    title: "a deletion that waits for a finalizer is a MODIFIED event, and DELETED comes with the last finalizer",
    steps: [
      post(
        ALLOCATIONS,
        allocation("{id}", { metadata: { finalizers: ["ipam.holdfast.dev/bound"] } }),
        201,
        {},
        { as: "one" },
      ),
      watch("w", ALLOCATIONS, versionOf("one"), { query: OURS }),
      remove(ONE, undefined, 200, {}, { as: "marked" }),
      put(
        ONE,
        changed("marked", ({ metadata }) => ({
          metadata: { ...metadata, finalizers: [] },
          status: { state: "Cooling" },
        })),
        200,
      ),
      hear(
        "w",
        ["MODIFIED", named("{id}", { deletionTimestamp: expect.any(String) })],
        [
          "DELETED",
          { metadata: { name: "{id}", finalizers: ["ipam.holdfast.dev/bound"] }, status: { state: "Bound" } },
        ],
      ),
    ],
  },
  {
    title: "the deletion of a pod is a MODIFIED event first",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("p", { spec: { nodeName: "{id}-n" } }), 201, {}, { as: "pod" }),
      watch("w", PODS, versionOf("pod")),
      remove(`${PODS}/p`, undefined, 200),
      remove(`${PODS}/p`, { gracePeriodSeconds: 0 }, 200),
      hear(
        "w",
        ["MODIFIED", named("p", { deletionGracePeriodSeconds: 30 })],
        ["MODIFIED", named("p", { deletionGracePeriodSeconds: 0 })],
        ["DELETED", { kind: "Pod", apiVersion: "v1", ...named("p") }],
      ),
    ],
  },
  {
    title: "an object that begins to match a selector is ADDED, and one that no longer matches is DELETED",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      watch("w", ALLOCATIONS, versionOf("one"), { query: { labelSelector: "talk={id},shown=yes" } }),
      merge(ONE, { metadata: { labels: { shown: "no" } } }, 200),
      merge(ONE, { metadata: { labels: { shown: "yes" } } }, 200),
      merge(ONE, { status: { node: "n" } }, 200),
      merge(ONE, { metadata: { labels: { shown: "no" } } }, 200, {}, { as: "hidden" }),
      hearOf("w", (said) => [
        ["ADDED", { metadata: { labels: { shown: "yes" } } }],
        ["MODIFIED", { status: { node: "n" } }],
        ["DELETED", { metadata: { labels: { shown: "yes" }, resourceVersion: versionOf("hidden")(said) } }],
      ]),
      remove(ONE, undefined, 200),
    ],
  },
  {
    title: "a watch may be of one name, of one namespace, and of metadata only",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(NAMESPACES, namespace("{id}-2"), 201, {}, { as: "before" }),
      watch("name", CLAIMS, versionOf("before"), { query: { fieldSelector: "metadata.name=b" } }),
      watch("space", CLAIMS, versionOf("before"), { metadataOnly: true }),
      watch("maps", CONFIG_MAPS, versionOf("before")),
      post(CLAIMS, claim("a"), 201),
      post(CLAIMS.replace("{id}", "{id}-2"), claim("b"), 201),
      post(CLAIMS, claim("b"), 201),
      post(CONFIG_MAPS, configMap("m"), 201),
      hear("name", ["ADDED", { kind: "IPAMClaim", ...named("b", { namespace: "{id}" }) }]),
      hear(
        "space",
        ["ADDED", { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", spec: undefined, ...named("a") }],
        ["ADDED", { kind: "PartialObjectMetadata", spec: undefined, ...named("b") }],
      ),
      hear("maps", ["ADDED", { kind: "ConfigMap", apiVersion: "v1", ...named("m") }]),
    ],
  },
  {
    title: "a watch from version 0 shows all existing objects first",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("a"), 201, {}, as("a")),
      watch("w", CLAIMS, "0"),
      hearOf("w", (said) => [["ADDED", said.a]]),
      post(CLAIMS, claim("b"), 201),
      hear("w", ["ADDED", named("b")]),
    ],
  },
  {
    title: "a version older than the server's watch cache is refused in the stream",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201),
      watch("w", ALLOCATIONS, "1"),
      end("w", { kind: "expired", problem: expect.stringMatching(/^too old resource version: 1 \(\d+\)$/) }),
    ],
  },
  {
    title: "a compaction of etcd does not shorten the server's watch cache",
    steps: [
      post(ALLOCATIONS, allocation("{id}-0"), 201, {}, { as: "zero" }),
      post(ALLOCATIONS, allocation("{id}"), 201),
      operate("compact"),
      watch("w", ALLOCATIONS, versionOf("zero"), { query: OURS }),
      hear("w", ["ADDED", named("{id}")]),
    ],
  },
  {
    title: "a watch from a future version shows nothing until that version comes",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201),
      watch("w", ALLOCATIONS, "900000000", { query: OURS }),
      merge(ONE, { status: { node: "n" } }, 200),
      post(ALLOCATIONS, allocation("{id}-2"), 201, {}, { as: "two" }),
      watch("now", ALLOCATIONS, "0", { query: { fieldSelector: "metadata.name={id}-2" } }),
      hear("now", ["ADDED", named("{id}-2")]),
    ],
  },
  {
    title: "a watch ends when its time is up, after a bookmark of the last event",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("a"), 201, {}, as("a")),
      watch("w", CLAIMS, versionOf("a"), { query: { ...bookmarks, timeoutSeconds: "6" } }),
      watch("plain", CLAIMS, versionOf("a"), { query: { timeoutSeconds: "6" } }),
      post(CLAIMS, claim("b"), 201, {}, as("b")),
      hear("w", ["ADDED", named("b")]),
      hear("plain", ["ADDED", named("b")]),
      hearOf("w", (said) => [
        [
          "BOOKMARK",
          {
            kind: "IPAMClaim",
            apiVersion: "k8s.cni.cncf.io/v1alpha1",
            metadata: { resourceVersion: versionOf("b")(said) },
          },
        ],
      ]),
      end("w", { kind: "closed" }),
      end("plain", { kind: "closed" }),
    ],
  },
  {
    title: "the next watch continues where one that the server ended was",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      watch("w", ALLOCATIONS, versionOf("one"), { query: OURS }),
      operate("close watches"),
      end("w", { kind: "closed" }),
      merge(ONE, { status: { node: "n" } }, 200),
      watch("v", ALLOCATIONS, versionOf("one"), { query: OURS }),
      hear("v", ["MODIFIED", { status: { node: "n" } }]),
    ],
  },
  {
    title: "a list from etcd can be followed by a watch from its version",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201),
      list(ALLOCATIONS, ["{id}"], { query: OURS, as: "list" }),
      watch("w", ALLOCATIONS, versionOf("list"), { query: OURS }),
      merge(ONE, { status: { node: "n" } }, 200),
      hear("w", ["MODIFIED", { status: { node: "n" } }]),
      get(ONE, 200),
    ],
  },
];
