/** An API server that has too much to do says when to come back (priority and fairness: 429 with Retry-After). */
import { expect, test } from "vitest";
import { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../../harness/kube-fake/client/fake-kube-api.ts";
import type { Fate } from "../../harness/kube-fake/client/link.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";

const CLIENTS = 200;
const RETRY_AFTER_MS = 2_000;
const REFUSED: Fate = { status: 429, retryAfterSeconds: RETRY_AFTER_MS / 1_000 };
const NODES = "/api/v1/nodes";

/** `askedMs`: when each attempt was sent, ms. */
function clients(refusals: number) {
  const time = new VirtualTime(1);
  const server = new ApiServer({ clock: time.clock() });
  return Array.from({ length: CLIENTS }, () => {
    const clock = time.clock();
    const askedMs: number[] = [];
    const fate = () => (askedMs.push(clock.monotonicMs()) > refusals ? undefined : REFUSED);
    return { time, askedMs, api: new FakeKubeApi({ clock, server: () => server, link: { fate } }) };
  });
}

const WAYS: readonly [string, (api: FakeKubeApi) => Promise<unknown>][] = [
  ["a request", (api) => api.send({ method: "GET", path: NODES, priority: "add", deadlineMs: 60_000 })],
  ["a list", (api) => api.list({ path: NODES, each: () => {} })],
];

test.each(WAYS)(
  "those whose attempt at %s was refused wait as long as the server asks, and do not come back together",
  async (_what, ask) => {
    const all = clients(1);
    const [{ time }] = all as [(typeof all)[number]];
    await time.run(Promise.all(all.map(({ api }) => ask(api))));
    const waits = all.map(({ askedMs: [first = 0, second = 0] }) => second - first);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(RETRY_AFTER_MS);
    expect(new Set(waits.map(Math.round)).size).toBeGreaterThan(15);
  },
);

test("a list is not given up before the time that the last refusal asks for: its caller may begin anew at once", async () => {
  const [{ time, api, askedMs }] = clients(Number.POSITIVE_INFINITY) as [ReturnType<typeof clients>[number]];
  const given = api.list({ path: NODES, each: () => {} });
  await expect(time.run(given)).rejects.toThrow("cannot list /api/v1/nodes: 429");
  expect(time.nowMs - (askedMs.at(-1) ?? 0)).toBeGreaterThanOrEqual(RETRY_AFTER_MS);
});
