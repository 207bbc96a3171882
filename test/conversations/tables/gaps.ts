import { expect } from "vitest";
import {
  type Conversation,
  end,
  fault,
  get,
  hear,
  hearOf,
  list,
  merge,
  operate,
  patch,
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
  changed,
  claim,
  NAMESPACES,
  NETWORKS,
  namespace,
  versionOf,
} from "./objects.ts";

const ONE = `${ALLOCATIONS}/{id}`;
const OURS = { labelSelector: "talk={id}" };
const CLAIM = `${CLAIMS}/a`;
const KEEP = "test.example/keep";
const uidOf = (name: string) => (said: Said) => said[name].metadata.uid;

/** What somebody meets who was away for a while, or whose requests were sent again by somebody in between. */
export const GAPS: readonly Conversation[] = [
  {
    title: "what was deleted and created again in a gap is another object, and a watch from before shows both",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "first" }),
      list(ALLOCATIONS, ["{id}"], { query: OURS, as: "list" }),
      remove(ONE, undefined, 200),
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "second" }),
      get(ONE, 200, (said: Said) => ({ metadata: { uid: uidOf("second")(said) } })),
      watch("w", ALLOCATIONS, versionOf("list"), { query: OURS }),
      hearOf("w", (said) => [
        ["DELETED", { metadata: { uid: uidOf("first")(said) } }],
        ["ADDED", { metadata: { uid: uidOf("second")(said) } }],
      ]),
      put(
        ONE,
        changed("first", () => ({ status: { state: "Cooling" } })),
        409,
        { reason: "Conflict" },
      ),
      remove(ONE, (said: Said) => ({ preconditions: { uid: uidOf("first")(said) } }), 409, {
        reason: "Conflict",
      }),
      merge(ONE, (said: Said) => ({ metadata: { uid: uidOf("first")(said) }, status: { node: "n" } }), 422, {
        reason: "Invalid",
      }),
      patch(
        ONE,
        (said: Said) => [
          { op: "test", path: "/metadata/uid", value: uidOf("first")(said) },
          { op: "add", path: "/status/node", value: "n" },
        ],
        422,
        { reason: "Invalid" },
      ),
      get(ONE, 200, { status: { state: "Bound", node: undefined } }),
    ],
  },
  {
    title: "what was created and deleted in a gap is never listed, and a watch from before shows both",
    steps: [
      list(ALLOCATIONS, [], { query: OURS, as: "list" }),
      post(ALLOCATIONS, allocation("{id}"), 201),
      remove(ONE, undefined, 200),
      list(ALLOCATIONS, [], { query: OURS }),
      watch("w", ALLOCATIONS, versionOf("list"), { query: OURS }),
      hear("w", ["ADDED", { metadata: { name: "{id}" } }], ["DELETED", { metadata: { name: "{id}" } }]),
    ],
  },
  {
    title: "who removes the last finalizer of what is being deleted is answered with it, and it is gone",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(CLAIMS, claim("a", { metadata: { finalizers: [KEEP] } }), 201),
      remove(CLAIM, undefined, 200),
      get(CLAIM, 200, {}, { as: "ending" }),
      watch("w", CLAIMS, versionOf("ending")),
      merge(`${CLAIM}/status`, { status: { ips: ["10.0.0.9/24"] } }, 200, {
        metadata: { deletionTimestamp: expect.any(String) },
        status: { ips: ["10.0.0.9/24"] },
      }),
      merge(CLAIM, { metadata: { finalizers: null } }, 200, { metadata: { finalizers: undefined } }),
      get(CLAIM, 404, { reason: "NotFound" }),
      hear("w", ["MODIFIED", { status: { ips: ["10.0.0.9/24"] } }], ["DELETED", { metadata: { name: "a" } }]),
    ],
  },
  {
    title: "a request that somebody in between sends twice is carried out twice, and the second answer counts",
    steps: [
      fault("twice"),
      post(ALLOCATIONS, allocation("{id}"), 409, { reason: "AlreadyExists" }),
      get(ONE, 200, {}, { as: "one" }),
      fault("twice"),
      put(
        ONE,
        changed("one", () => ({ status: { state: "Cooling" } })),
        409,
        { reason: "Conflict" },
      ),
      fault("twice"),
      merge(ONE, { status: { node: "n" } }, 200, { status: { state: "Cooling", node: "n" } }),
      fault("twice"),
      remove(ONE, undefined, 404, { reason: "NotFound" }),
    ],
  },
  {
    title: "a resource of which nothing was written since the server began has no bookmarks",
    // Later servers have etcd tell them how far it is.
    minors: { last: 20 },
    steps: [
      operate("restart"),
      list(NETWORKS, [], { query: OURS, as: "list" }),
      watch("w", NETWORKS, versionOf("list"), {
        query: { allowWatchBookmarks: "true", timeoutSeconds: "5" },
      }),
      end("w", { kind: "closed" }),
    ],
  },
];
