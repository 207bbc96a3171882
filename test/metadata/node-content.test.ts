import { expect, test } from "vitest";
import type { ContentAnswer } from "../../identity/content.ts";
import { IdentityAway } from "../../identity/source.ts";
import { NodeContents } from "../../metadata/tenant/node-content.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { identity } from "../metadata-server/fake-identity.ts";

const [one] = identity().interfaces as [ReturnType<typeof identity>["interfaces"][number]];
const UID = "0b5c9e1e-7a51-4f0e-8f43-0c7d1d8bb001";
const guest = (uid = UID) => {
  const owner = { ...one.owner, kind: "claim" as const, uid };
  return { ...identity(), interfaces: [{ ...one, owner }] };
};

function contents(answer: () => ContentAnswer | null) {
  const clock = new ManualClock();
  const said: string[] = [];
  let asked = 0;
  const source = {
    async contentOf() {
      asked += 1;
      return answer();
    },
  };
  const log = { warn: (_subject: object, message: string) => void said.push(message) };
  return { of: new NodeContents({ source, log, clock }), clock, said, asked: () => asked };
}

function answerOf(text: string, uid = UID): ContentAnswer {
  const annotations = { "metadata.holdfast.dev/user-data": "secret/web" };
  const data = { "user-data": Buffer.from(text).toString("base64") };
  return {
    claims: [{ uid, namespace: "default", name: "web", annotations }],
    objects: [{ kind: "Secret", name: "web", data }],
  };
}

test("content is read once for the requests of a second, also by those that come together, and then again", async () => {
  let text = "one";
  const { of, clock, asked } = contents(() => answerOf(text));
  const all = await Promise.all(Array.from({ length: 28 }, () => of.of(guest())));
  expect(all.every(({ userData }) => userData?.toString() === "one")).toBe(true);
  expect(asked()).toBe(1);
  text = "two";
  clock.nowMs += 999;
  expect((await of.of(guest())).userData?.toString()).toBe("one");
  clock.nowMs += 1;
  expect((await of.of(guest())).userData?.toString()).toBe("two");
  expect(asked()).toBe(2);
});

test("the same container with another claim never gets the former claim's content", async () => {
  let uid = UID;
  const { of } = contents(() => answerOf(uid, uid));
  expect((await of.of(guest(UID))).userData?.toString()).toBe(UID);
  uid = UID.replace("001", "002");
  expect((await of.of(guest(uid))).userData?.toString()).toBe(uid);
});

test("a container that ended between the two questions gets an error to retry, not empty content", async () => {
  let isThere = false;
  const { of } = contents(() => (isThere ? answerOf("one") : { claims: [], objects: [] }));
  await expect(of.of(guest())).rejects.toThrow(IdentityAway);
  isThere = true;
  expect((await of.of(guest())).userData?.toString()).toBe("one");
});

test("a daemon that keeps no content, and a guest without a claim, have none", async () => {
  const old = contents(() => null);
  expect(await old.of.of(guest())).toMatchObject({ userData: null, publicKeys: [], hostname: null });
  const plain = contents(() => answerOf("one"));
  const container = { ...one.owner, kind: "container" as const };
  expect(await plain.of.of({ ...identity(), interfaces: [{ ...one, owner: container }] })).toMatchObject({
    userData: null,
  });
  expect(plain.asked()).toBe(0);
});

test("the tenant of a VM without Kubernetes is what its claim says, if a header can carry it", async () => {
  const tenantOf = async (tenant: string) => {
    const answer = answerOf("one");
    const claims = answer.claims.map((claim) => ({
      ...claim,
      annotations: { ...claim.annotations, "metadata.holdfast.dev/tenant-id": tenant },
    }));
    const { of, said } = contents(() => ({ ...answer, claims }));
    return { tenantId: (await of.of(guest())).tenantId, said };
  };
  expect(await tenantOf("project-7")).toEqual({ tenantId: "project-7", said: [] });
  expect(await tenantOf("a, b")).toEqual({ tenantId: null, said: ["content is missing"] });
});
