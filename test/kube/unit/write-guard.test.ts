import { expect, test } from "vitest";
import { ApiAway, type KubeRequest } from "../../../kube/kube-api.ts";
import { withWriteGuard } from "../../../kube/write-guard.ts";
import { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../../harness/kube-fake/client/fake-kube-api.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";

const SECRETS = "/api/v1/namespaces/shop/secrets";
const BODY = { apiVersion: "v1", kind: "Secret", metadata: { name: "one", namespace: "shop" } };

/** A guarded client; the server answers 500 while it is ill. */
function guarded() {
  const time = new VirtualTime();
  const clock = time.clock();
  const server = new ApiServer({ clock });
  server.put("/api/v1/namespaces", { metadata: { name: "shop" } });
  const state = { isIll: false, leads: true, sent: 0 };
  const fate = () => {
    state.sent += 1;
    return state.isIll ? ({ status: 500 } as const) : undefined;
  };
  const client = new FakeKubeApi({ server: () => server, clock, link: { fate } });
  const api = withWriteGuard(client, () => (state.leads ? null : "this controller does not lead"));
  const send = (parts: Partial<KubeRequest>) =>
    api.send({
      ...{ method: "POST", path: SECRETS, body: BODY, priority: "housekeeping" },
      ...parts,
      deadlineMs: clock.monotonicMs() + 10_000,
    });
  return { time, state, server, send };
}

test("a write is sent only while its sender leads, a read always", async () => {
  const { time, state, send } = guarded();
  expect((await time.run(send({}))).status).toBe(201);
  state.leads = false;
  state.sent = 0;
  for (const method of ["POST", "PUT", "PATCH", "DELETE"] as const)
    await expect(time.run(send({ method })), method).rejects.toThrow("this controller does not lead");
  expect(state.sent).toBe(0);
  const read = send({ method: "GET", path: `${SECRETS}/one`, body: undefined });
  expect((await time.run(read)).status).toBe(200);
});

test("a write that is being retried is not sent again once its sender has stopped leading", async () => {
  const { time, state, server, send } = guarded();
  state.isIll = true;
  const outcome = send({}).catch((error: unknown) => error);
  await time.pass(1_000);
  expect(state.sent).toBeGreaterThan(2);
  state.leads = false;
  state.isIll = false;
  state.sent = 0;
  expect(await time.run(outcome)).toBeInstanceOf(ApiAway);
  expect([state.sent, server.at(`${SECRETS}/one`)]).toEqual([0, null]);
});

test("a reason of the request's own ends it as well", async () => {
  const { time, state, send } = guarded();
  await expect(time.run(send({ unless: () => "the API server was restored" }))).rejects.toThrow("restored");
  expect(state.sent).toBe(0);
});
