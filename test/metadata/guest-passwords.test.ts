import { Buffer } from "node:buffer";
import { beforeEach, expect, test } from "vitest";
import { ApiAway, type KubeAnswer, type KubeApi, type KubeRequest } from "../../kube/kube-api.ts";
import { keepGuestPassword } from "../../metadata/tenant/guest-passwords.ts";
import { systemClock } from "../../platform/time.ts";

/** One ConfigMap behind a client that forgets answers on request. */
class OneConfigMap {
  readonly clock = systemClock;
  // biome-ignore lint/suspicious/noExplicitAny: an object as the API has it
  object: any;
  /** Answers to give in place of the real one, after a write was done. */
  readonly afterWrite: KubeAnswer[] = [];
  writes = 0;

  send(request: KubeRequest): Promise<KubeAnswer> {
    if (request.method === "GET") return Promise.resolve(answer(this.object === null ? 404 : 200, this.object));
    // biome-ignore lint/suspicious/noExplicitAny: as above
    const { metadata, binaryData, data = {} } = request.body as any;
    if (metadata.resourceVersion !== this.object.metadata.resourceVersion)
      return Promise.resolve(answer(409, { message: "conflict" }));
    this.writes += 1;
    const kept = Object.entries({ ...this.object.data, ...data }).filter(([, value]) => value !== null);
    this.object = {
      metadata: { ...this.object.metadata, resourceVersion: `${this.writes + 1}` },
      data: Object.fromEntries(kept),
      binaryData: { ...this.object.binaryData, ...binaryData },
    };
    return Promise.resolve(this.afterWrite.shift() ?? answer(200, this.object));
  }
}

const answer = (status: number, body: unknown): KubeAnswer => ({ status, body, serverMs: null });
const LABELS = { "metadata.holdfast.dev/serve": "true" };
const password = Buffer.from([0, 255, 10]);
let map: OneConfigMap;
beforeEach(() => {
  map = new OneConfigMap();
  map.object = { metadata: { resourceVersion: "1", labels: LABELS } };
});
const keep = (key = "vm-1", bytes = password) =>
  keepGuestPassword(map as unknown as KubeApi, { namespace: "shop", key, password: bytes });

test("the first password is kept byte for byte, a second one is refused, and another VM's is separate", async () => {
  expect(await keep()).toEqual({ kind: "kept" });
  expect(await keep("vm-1", Buffer.from("other"))).toEqual({ kind: "taken" });
  expect(await keep()).toEqual({ kind: "taken" });
  expect(await keep("vm-2")).toEqual({ kind: "kept" });
  expect(map.object.binaryData).toEqual({
    "vm-1": password.toString("base64"),
    "vm-2": password.toString("base64"),
  });
});

test("a conflict of a repeated write is a success when the password is already there", async () => {
  map.afterWrite.push(answer(409, { message: "the client repeated what had been done" }));
  expect(await keep()).toEqual({ kind: "kept" });
  expect(map.writes).toBe(1);
});

test("an operator clears a password by emptying it, in either field", async () => {
  map.object.data = { "vm-1": "" };
  expect(await keep()).toEqual({ kind: "kept" });
  expect(map.object.data).toEqual({});
  map.object.binaryData["vm-1"] = "";
  expect(await keep()).toEqual({ kind: "kept" });
  map.object.data = { "vm-3": "set by hand" };
  expect(await keep("vm-3")).toEqual({ kind: "taken" });
});

test("a password is refused with the reason where there is no ConfigMap, label, right or room", async () => {
  map.afterWrite.push(answer(422, { message: "too long" }));
  expect(await keep()).toEqual({ kind: "refused", problem: "it cannot be written: 422 too long" });
  map.object.metadata.labels = {};
  expect(await keep("vm-2")).toMatchObject({ problem: expect.stringContaining("no label") });
  map.object = null;
  expect(await keep("vm-2")).toMatchObject({ kind: "refused", problem: "it cannot be read: 404" });
});

test("an unreachable API is not a refusal", async () => {
  map.send = () => Promise.reject(new ApiAway("away"));
  await expect(keep()).rejects.toThrow(ApiAway);
});
