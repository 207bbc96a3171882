import { expect } from "vitest";
import { type Conversation, end, fault, get, hear, list, merge, operate, post, put, remove, watch } from "../steps.ts";
import { ALLOCATIONS, allocation, CLAIMS, changed, NAMESPACES, namespace, versionOf } from "./objects.ts";

const ONE = `${ALLOCATIONS}/{id}`;
const OURS = { labelSelector: "talk={id}" };

export const TROUBLES: readonly Conversation[] = [
  {
    title: "a request whose answer is lost is repeated, and meets what it did before",
    steps: [
      fault("lost after"),
      post(ALLOCATIONS, allocation("{id}"), 409, { reason: "AlreadyExists" }),
      get(ONE, 200, {}, { as: "one" }),
      fault("lost after"),
      put(
        ONE,
        changed("one", () => ({ status: { state: "Cooling" } })),
        409,
        { reason: "Conflict" },
      ),
      fault("lost after"),
      remove(ONE, undefined, 404, { reason: "NotFound" }),
    ],
  },
  {
    title: "a request that is lost on its way is repeated",
    steps: [
      fault("lost before"),
      post(ALLOCATIONS, allocation("{id}"), 201),
      fault("lost before"),
      list(ALLOCATIONS, ["{id}"], { query: OURS }),
    ],
  },
  {
    title: "a request to a server that is overloaded or failing is repeated",
    steps: [
      fault({ status: 429, retryAfterSeconds: 1 }),
      post(ALLOCATIONS, allocation("{id}"), 201),
      fault({ status: 503 }),
      get(ONE, 200),
      fault({ status: 500 }),
      list(ALLOCATIONS, ["{id}"], { query: OURS }),
      // It has just been failing, so that its refusals are not believed.
      fault({ status: 403 }),
      merge(ONE, { status: { node: "n" } }, 200),
      // Without Retry-After the wait is random and may end before the deadline.
      fault({ status: 503, retryAfterSeconds: 1 }),
      get(ONE, "away", "503 not now", { deadlineMs: 40 }),
    ],
  },
  {
    title: "a refused watch ends with the server's status and message",
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      fault({ status: 429, retryAfterSeconds: 3 }),
      watch("w", ALLOCATIONS, versionOf("one"), { query: OURS }),
      end("w", { kind: "failed", status: 429, retryAfterMs: 3_000 }, false),
      fault({ status: 503, retryAfterSeconds: 3 }),
      watch("v", ALLOCATIONS, versionOf("one"), { query: OURS }),
      end("v", { kind: "failed", status: 503, retryAfterMs: 1_000 }, false),
    ],
  },
  {
    title: "a watch that would begin with what is there is refused by a server without WatchList",
    minors: { last: 26 },
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      watch("w", ALLOCATIONS, versionOf("one"), {
        query: { ...OURS, sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan" },
      }),
      end(
        "w",
        {
          kind: "failed",
          status: 422,
          problem: expect.stringContaining(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch",
          ),
        },
        false,
      ),
    ],
  },
  {
    title: "a forbidden request is refused with user, verb and resource",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { who: "holdfast-node" }),
      remove(
        ONE,
        undefined,
        403,
        {
          reason: "Forbidden",
          message:
            'ipallocations.ipam.holdfast.dev "{id}" is forbidden: User "system:serviceaccount:holdfast-system:holdfast-node" cannot delete resource "ipallocations" in API group "ipam.holdfast.dev" at the cluster scope',
          details: { name: "{id}", group: "ipam.holdfast.dev", kind: "ipallocations" },
          code: 403,
        },
        { who: "holdfast-node" },
      ),
      get("/api/v1/namespaces/{id}/secrets", 403, { reason: "Forbidden" }, { who: "holdfast-node" }),
      get(`${CLAIMS}/c`, 404, { details: { name: "c" } }, { who: "holdfast-node" }),
      remove(`${CLAIMS}/c`, undefined, 403, { details: { name: "c" } }, { who: "holdfast-node" }),
      merge(`${CLAIMS}/c`, {}, 403, { details: { name: "c" } }, { who: "holdfast-node" }),
      merge(`${CLAIMS}/c/status`, {}, 404, { details: { name: "c" } }, { who: "holdfast-node" }),
      list(
        "/api/v1/secrets",
        {
          away: 'secrets is forbidden: User "system:serviceaccount:holdfast-system:holdfast-node" cannot list resource "secrets" in API group "" at the cluster scope',
        },
        { who: "holdfast-node" },
      ),
      get("/apis/none.holdfast.dev/v1/widgets/x", 403, { reason: "Forbidden" }, { who: "holdfast-node" }),
      get(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipallocations.ipam.holdfast.dev",
        200,
        {},
        { who: "holdfast-node" },
      ),
      get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/other", 403, {}, { who: "holdfast-node" }),
    ],
  },
  {
    title: "a restarted server has ended its watches, and has no events from before",
    steps: [
      post(ALLOCATIONS, allocation("{id}-0"), 201, {}, { as: "zero" }),
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      watch("w", ALLOCATIONS, versionOf("one"), { query: OURS }),
      operate("restart"),
      end("w", { kind: expect.stringMatching(/^(closed|failed)$/) }),
      watch("old", ALLOCATIONS, versionOf("zero"), { query: OURS }),
      end("old", {
        kind: "expired",
        problem: expect.stringMatching(/^too old resource version: \d+ \(\d+\)$/),
      }),
      list(ALLOCATIONS, ["{id}", "{id}-0"], { query: { ...OURS, resourceVersion: "0" }, as: "list" }),
      watch("v", ALLOCATIONS, versionOf("list"), { query: OURS }),
      merge(ONE, { status: { node: "n" } }, 200),
      hear("v", ["MODIFIED", { status: { node: "n" } }]),
    ],
  },
  ...(["restore", "restore newer"] as const).map((act) => ({
    title: `a restored etcd has exactly the objects of its backup, with ${act === "restore" ? "older" : "newer"} versions`,
    hasOtherWriters: true,
    steps: [
      post(ALLOCATIONS, allocation("{id}"), 201, {}, { as: "one" }),
      operate("save"),
      merge(ONE, { status: { node: "n" } }, 200, {}, { as: "lost" }),
      post(ALLOCATIONS, allocation("{id}-2"), 201),
      operate(act),
      get(ONE, 200, (said) => said.one),
      get(`${ALLOCATIONS}/{id}-2`, 404, { reason: "NotFound" }),
      list(ALLOCATIONS, ["{id}"], { query: { ...OURS, resourceVersion: "0" } }),
      put(ONE, (said) => said.lost, 409, { reason: "Conflict" }),
      put(
        ONE,
        changed("one", () => ({ status: { state: "Cooling" } })),
        200,
      ),
    ],
  })),
];
