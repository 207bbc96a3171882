import { expect, test } from "vitest";
import { RefusalError } from "../../../ipam/refusals.ts";
import { isAbsent, knownObject, permittedObject, readingOf, writeOutcomeOf } from "../../../kube/answers.ts";
import { ApiAway, type KubeAnswer, type KubeApi, type KubeRequest } from "../../../kube/kube-api.ts";
import { ObjectClient } from "../../../kube/object-client.ts";
import { systemClock } from "../../../platform/time.ts";

const COLLECTION = "/apis/example.dev/v1/namespaces/shop/things";
const PATH = `${COLLECTION}/web-0`;

/** Answers as kube-apiserver gives them. */
const ANSWERS = {
  object: [200, { metadata: { name: "web-0" } }],
  created: [201, { metadata: { name: "web-0" } }],
  "no such object": [404, { reason: "NotFound", message: "not found", details: { name: "web-0" } }],
  "no such namespace": [404, { reason: "NotFound", message: "not found", details: { name: "shop" } }],
  "no such group": [404, { kind: "Status", code: 404, message: "404 page not found" }],
  "no such resource": [
    404,
    { reason: "NotFound", message: "the server could not find the requested resource", details: {} },
  ],
  "a proxy's own 404": [404, null],
  "name exists": [409, { reason: "AlreadyExists", details: { name: "web-0" } }],
  "other version": [409, { reason: "Conflict", details: { name: "web-0" } }],
  "no right": [403, { reason: "Forbidden", message: "no", details: { name: "web-0" } }],
  invalid: [422, { reason: "Invalid", message: "no", details: { name: "web-0" } }],
  "bad request": [400, { reason: "BadRequest", message: "no" }],
  "too large": [413, { message: "no" }],
} as const satisfies Record<string, readonly [number, unknown]>;

function answerOf(name: keyof typeof ANSWERS): KubeAnswer {
  const [status, body] = ANSWERS[name];
  return { status, body, serverMs: 7 };
}

test.each<[keyof typeof ANSWERS, string, string]>([
  ["object", "present", "done"],
  ["no such object", "absent", "absent"],
  ["no such namespace", "not-served", "refused"],
  ["no such group", "not-served", "refused"],
  ["no such resource", "not-served", "refused"],
  ["a proxy's own 404", "not-served", "refused"],
  ["name exists", "refused", "conflict"],
  ["other version", "refused", "conflict"],
  ["no right", "refused", "refused"],
  ["invalid", "refused", "refused"],
  ["bad request", "refused", "refused"],
  ["too large", "refused", "refused"],
])("an answer %s counts as %s for a read and %s for a write", (name, read, written) => {
  const answer = answerOf(name);
  expect(readingOf(answer, PATH).kind).toBe(read);
  expect(writeOutcomeOf(answer, PATH).kind).toBe(written);
  // The status is the same object's.
  expect(writeOutcomeOf(answer, `${PATH}/status`).kind).toBe(written);
});

test("a 404 to a create is a refusal, because it is about the namespace or the kind", () => {
  const absent = { status: 404, body: { reason: "NotFound", details: { name: "web-0" } }, serverMs: null };
  expect(writeOutcomeOf(absent, COLLECTION).kind).toBe("refused");
  expect(writeOutcomeOf(answerOf("created"), COLLECTION).kind).toBe("done");
});

test("a 404's name is compared with the unescaped name of the path", () => {
  const body = { reason: "NotFound", details: { name: "a b/c" } };
  expect(isAbsent({ status: 404, body }, `${COLLECTION}/a%20b%2Fc`)).toBe(true);
  expect(isAbsent({ status: 404, body }, `${COLLECTION}/a%20b`)).toBe(false);
  expect(isAbsent({ status: 404, body: { details: { name: "web-0" } } }, PATH)).toBe(false);
  expect(isAbsent({ status: 403, body: { ...body, details: { name: "web-0" } } }, PATH)).toBe(false);
});

test("any answer but present and absent is ApiAway to some callers and a refusal to others", () => {
  const present = readingOf(answerOf("object"), PATH);
  expect(present).toMatchObject({ serverMs: 7 });
  expect(knownObject(present, PATH)).toEqual(ANSWERS.object[1]);
  expect(permittedObject(present, "read it")).toEqual(ANSWERS.object[1]);
  const absent = readingOf(answerOf("no such object"), PATH);
  expect([knownObject(absent, PATH), permittedObject(absent, "read it")]).toEqual([null, null]);
  for (const name of ["no such resource", "no right"] as const) {
    const reading = readingOf(answerOf(name), PATH);
    const [status, { message }] = ANSWERS[name];
    expect(() => knownObject(reading, PATH)).toThrow(new ApiAway(`GET ${PATH}: ${status} ${message}`));
    expect(() => permittedObject(reading, "read it")).toThrow(RefusalError);
    expect(() => permittedObject(reading, "read it")).toThrow(`${status} ${message}`);
  }
});

/** Answers each request the same way. */
function serverOf(send: (request: KubeRequest) => KubeAnswer): { api: KubeApi; asked: KubeRequest[] } {
  const asked: KubeRequest[] = [];
  const api = {
    clock: systemClock,
    send: async (request: KubeRequest) => {
      asked.push(request);
      return send(request);
    },
  };
  return { api: api as unknown as KubeApi, asked };
}

test("no definite answer (429, 5xx, a lost one) throws ApiAway, and look returns it as a value", async () => {
  const { api } = serverOf(() => {
    throw new ApiAway("503");
  });
  const objects = new ObjectClient(api);
  for (const ask of [
    () => objects.get(PATH),
    () => objects.find(PATH),
    () => objects.findPermitted(PATH, "read it"),
    () => objects.create(COLLECTION, {}),
    () => objects.replace(PATH, {}),
    () => objects.patchStatus(PATH, {}),
    () => objects.delete(PATH, { uid: "1", resourceVersion: "1" }),
  ])
    await expect(ask()).rejects.toThrow(ApiAway);
  expect(await objects.tryGet(PATH)).toEqual({ kind: "away", problem: "503" });
});

test("an error in the client is thrown, and is not taken for an absent object", async () => {
  const { api } = serverOf(() => {
    throw new TypeError("a defect");
  });
  await expect(new ObjectClient(api).tryGet(PATH)).rejects.toThrow(TypeError);
});

test("each operation is one request", async () => {
  const { api, asked } = serverOf(() => answerOf("object"));
  const objects = new ObjectClient(api, "add");
  const object = { metadata: { resourceVersion: "1" } };
  const preconditions = { uid: "1", resourceVersion: "1" };
  await objects.get(PATH, 5);
  await objects.create(COLLECTION, object, 5);
  await objects.replace(PATH, object, 5);
  await objects.patch(PATH, object, 5);
  await objects.patchStatus(PATH, object, 5);
  await objects.delete(PATH, preconditions, 5);
  const common = { priority: "add", deadlineMs: 5 };
  expect(asked).toEqual([
    { method: "GET", path: PATH, ...common },
    { method: "POST", path: COLLECTION, body: object, ...common },
    { method: "PUT", path: PATH, body: object, ...common },
    { method: "PATCH", patch: "merge", path: PATH, body: object, ...common },
    { method: "PATCH", patch: "merge", path: `${PATH}/status`, body: object, ...common },
    { method: "DELETE", path: PATH, body: { preconditions }, ...common },
  ]);
});
