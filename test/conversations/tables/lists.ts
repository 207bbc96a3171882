import { expect } from "vitest";
import { type Conversation, get, list, merge, operate, post, remove, type Said } from "../steps.ts";
import {
  ALLOCATIONS,
  allocation,
  CLAIMS,
  CONFIG_MAPS,
  claim,
  configMap,
  NAMESPACES,
  namespace,
  PODS,
  pod,
  versionOf,
} from "./objects.ts";

const OURS = { labelSelector: "talk={id}" };
const claims = (...names: readonly string[]) => names.map((name) => post(CLAIMS, claim(name), 201));
const names = (...wanted: readonly string[]) => ({
  items: wanted.map((name) => ({ metadata: expect.objectContaining({ name }) })),
});
const nextOf = (name: string) => (said: Said) => ({ limit: "2", continue: said[name].metadata.continue });

export const LISTS: readonly Conversation[] = [
  {
    title: "a list is ordered by name, and has its kind and version",
    steps: [
      post(NAMESPACES, namespace(), 201),
      ...claims("b", "a", "c"),
      get(CLAIMS, 200, {
        kind: "IPAMClaimList",
        apiVersion: "k8s.cni.cncf.io/v1alpha1",
        metadata: { resourceVersion: expect.stringMatching(/^\d+$/) },
        ...names("a", "b", "c"),
      }),
    ],
  },
  {
    title: "custom objects of a list have apiVersion and kind, built-in objects do not",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("c"), 201),
      post(CONFIG_MAPS, configMap("m"), 201),
      get(CLAIMS, 200, { items: [{ kind: "IPAMClaim", apiVersion: "k8s.cni.cncf.io/v1alpha1" }] }),
      get(CONFIG_MAPS, 200, { kind: "ConfigMapList", apiVersion: "v1" }),
      list(CONFIG_MAPS, ["m"]),
      list(CONFIG_MAPS, ["m"], { metadataOnly: true }),
      list(CLAIMS, ["c"], { metadataOnly: true }),
      get(`${CONFIG_MAPS}/m`, 200, { kind: "ConfigMap", apiVersion: "v1" }),
    ],
  },
  {
    title: "all pages show one version, whatever is written between them",
    steps: [
      post(NAMESPACES, namespace(), 201),
      ...claims("a", "b", "c", "d", "e"),
      get(
        CLAIMS,
        200,
        { metadata: { remainingItemCount: 3 }, ...names("a", "b") },
        { as: "one", query: { limit: "2" } },
      ),
      remove(`${CLAIMS}/d`, undefined, 200),
      post(CLAIMS, claim("cc"), 201),
      merge(`${CLAIMS}/c`, { spec: { interface: "net9" } }, 200),
      get(
        CLAIMS,
        200,
        (said: Said) => ({
          metadata: { resourceVersion: said.one.metadata.resourceVersion, remainingItemCount: 1 },
          items: [{ metadata: { name: "c" }, spec: { interface: "net1" } }, { metadata: { name: "d" } }],
        }),
        { as: "two", query: nextOf("one") },
      ),
      get(
        CLAIMS,
        200,
        (said: Said) => ({
          metadata: {
            resourceVersion: said.one.metadata.resourceVersion,
            continue: "",
            remainingItemCount: undefined,
          },
          ...names("e"),
        }),
        { query: nextOf("two") },
      ),
      list(CLAIMS, ["a", "b", "c", "cc", "e"], { query: { limit: "2" } }),
    ],
  },
  {
    title: "a page that ends with the last object has no continue token",
    steps: [
      post(NAMESPACES, namespace(), 201),
      ...claims("a", "b"),
      get(CLAIMS, 200, { metadata: { continue: "" }, ...names("a", "b") }, { query: { limit: "2" } }),
    ],
  },
  {
    title: "the pages of a selector are full",
    steps: [
      post(NAMESPACES, namespace(), 201),
      ...["a", "b", "c", "d", "e", "f"].map((name, index) =>
        post(CLAIMS, claim(name, { metadata: { labels: { odd: `${index % 2}` } } }), 201),
      ),
      get(
        CLAIMS,
        200,
        { metadata: { remainingItemCount: undefined }, ...names("b", "d") },
        {
          as: "one",
          query: { limit: "2", labelSelector: "odd=1" },
        },
      ),
      get(
        CLAIMS,
        200,
        { metadata: { continue: "" }, ...names("f") },
        {
          query: (said: Said) => ({
            limit: "2",
            labelSelector: "odd=1",
            continue: said.one.metadata.continue,
          }),
        },
      ),
    ],
  },
  {
    title: "a page of a compacted version is refused, and the list is started again",
    steps: [
      post(NAMESPACES, namespace(), 201),
      ...claims("a", "b", "c"),
      get(CLAIMS, 200, names("a"), { as: "one", query: { limit: "1" } }),
      post(CLAIMS, claim("d"), 201),
      operate("compact"),
      get(
        CLAIMS,
        410,
        { reason: "Expired", code: 410, metadata: { continue: expect.any(String) } },
        {
          as: "gone",
          query: (said: Said) => ({ limit: "1", continue: said.one.metadata.continue }),
        },
      ),
      get(CLAIMS, 200, names("b", "c", "d"), {
        query: (said: Said) => ({ limit: "5", continue: said.gone.metadata.continue }),
      }),
      get(
        CLAIMS,
        410,
        { reason: "Expired" },
        {
          query: (said: Said) => ({ limit: "1", resourceVersion: said.one.metadata.resourceVersion }),
        },
      ),
      get(CLAIMS, 400, { reason: "BadRequest" }, { query: { limit: "1", continue: "nonsense" } }),
      get(
        CLAIMS,
        400,
        { reason: "BadRequest" },
        {
          query: (said: Said) => ({ limit: "1", continue: said.one.metadata.continue, resourceVersion: "5" }),
        },
      ),
    ],
  },
  {
    title: "a list of any version comes in one piece, whatever its limit",
    steps: [
      post(NAMESPACES, namespace(), 201),
      ...claims("a", "b", "c"),
      list(CLAIMS, ["a", "b", "c"], { query: { resourceVersion: "0" } }),
      get(
        CLAIMS,
        200,
        { metadata: { continue: "" }, items: [{}, {}, {}] },
        { query: { resourceVersion: "0", limit: "1" } },
      ),
      list(CLAIMS, ["a", "b", "c"], { query: { resourceVersion: "0" }, metadataOnly: true }),
    ],
  },
  {
    title: "a list that is not to be older than a version waits for it, and fails when it does not come",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("a"), 201, {}, { as: "a" }),
      list(CLAIMS, ["a"], { query: (said: Said) => ({ resourceVersion: versionOf("a")(said) }) }),
      get(CLAIMS, "away", "Too large resource version: 900000000, current:", {
        query: { resourceVersion: "900000000" },
        deadlineMs: 3_900,
      }),
    ],
  },
  {
    title: "a list at an exact version has a version and a limit",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("a"), 201, {}, { as: "a" }),
      post(CLAIMS, claim("b"), 201),
      get(CLAIMS, 200, (said: Said) => ({ metadata: { resourceVersion: versionOf("a")(said) }, ...names("a") }), {
        query: (said: Said) => ({ resourceVersion: versionOf("a")(said), limit: "10" }),
      }),
    ],
  },
  {
    title: "a label selector selects",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("a", { metadata: { labels: { x: "1", y: "2" } } }), 201),
      post(CLAIMS, claim("b", { metadata: { labels: { x: "2" } } }), 201),
      post(CLAIMS, claim("c"), 201),
      ...(
        [
          ["x=1", ["a"]],
          ["x==1", ["a"]],
          ["x!=1", ["b", "c"]],
          ["x in (1,2)", ["a", "b"]],
          ["x in (1,2),y=2", ["a"]],
          ["x notin (1)", ["b", "c"]],
          ["x", ["a", "b"]],
          ["!x", ["c"]],
          ["y", ["a"]],
        ] as const
      ).flatMap(([labelSelector, wanted]) => [
        list(CLAIMS, wanted, { query: { labelSelector } }),
        list(CLAIMS, wanted, { query: { labelSelector, resourceVersion: "0" } }),
      ]),
      get(CLAIMS, 400, { reason: "BadRequest" }, { query: { labelSelector: "x=/" } }),
    ],
  },
  {
    title: "a field selector selects",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(PODS, pod("a", { spec: { nodeName: "{id}-n" } }), 201),
      post(PODS, pod("b"), 201),
      post(CLAIMS, claim("c"), 201),
      list("/api/v1/pods", ["a"], { query: { fieldSelector: "spec.nodeName={id}-n" } }),
      list(PODS, ["b"], { query: { fieldSelector: "spec.nodeName!={id}-n" } }),
      list(PODS, ["b"], { query: { fieldSelector: "metadata.name=b" } }),
      list(PODS, ["b"], { query: { fieldSelector: "metadata.name=b", resourceVersion: "0" } }),
      list(PODS, [], { query: { fieldSelector: "metadata.name=b,spec.nodeName={id}-n" } }),
      list(PODS, ["a", "b"], { query: { fieldSelector: "status.phase=Pending" } }),
      list(CLAIMS, ["c"], { query: { fieldSelector: "metadata.name=c" } }),
      get(CLAIMS, 400, { reason: "BadRequest" }, { query: { fieldSelector: "spec.network=blue" } }),
      get(PODS, 400, { reason: "BadRequest" }, { query: { fieldSelector: "spec.hostname=x" } }),
    ],
  },
  {
    title: "a list over all namespaces has the objects of each",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(NAMESPACES, namespace("{id}-2"), 201),
      post(CLAIMS, claim("a", { metadata: { labels: { talk: "{id}" } } }), 201),
      post(CLAIMS.replace("{id}", "{id}-2"), claim("a", { metadata: { labels: { talk: "{id}" } } }), 201),
      list("/apis/k8s.cni.cncf.io/v1alpha1/ipamclaims", ["a", "a"], { query: OURS }),
      list(CLAIMS, ["a"], { query: OURS }),
      post(ALLOCATIONS, allocation("{id}"), 201),
      list(ALLOCATIONS, ["{id}"], { query: OURS }),
    ],
  },
];
