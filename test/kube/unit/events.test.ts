import { expect, test } from "vitest";
import { EventWriter } from "../../../kube/events.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { ManualClock } from "../../harness/manual-clock.ts";
import { pause } from "../../harness/wait.ts";

const POD = { apiVersion: "v1", kind: "Pod", namespace: "shop", name: "web", uid: "p1" };
const MINUTE_MS = 60_000;

function eventWriter() {
  const clock = new ManualClock();
  clock.wallOffsetMs = Date.UTC(2026, 0, 1) + 123 - clock.nowMs;
  const api = new KubeInMemory(clock);
  const events = new EventWriter({ api, component: "holdfast-test", host: "n1" });
  return { api, clock, events };
}

/** What was written so far. */
async function written(api: KubeInMemory) {
  await pause(5);
  return [...api.objects].map(([path, object]) => ({ path, ...object }));
}

test("an object has one event per reason and message in five minutes", async () => {
  const { api, clock, events } = eventWriter();
  events.warn(POD, "ClaimAbsent", "it is not there");
  events.warn(POD, "ClaimAbsent", "it is not there");
  events.warn(POD, "Other", "also");
  events.warn({ ...POD, uid: "p2" }, "ClaimAbsent", "nor is this one's");
  expect(await written(api)).toHaveLength(3);
  clock.nowMs += 5 * MINUTE_MS;
  events.warn(POD, "ClaimAbsent", "it is not there");
  const all = await written(api);
  expect(all).toHaveLength(4);
  expect(all[0]).toMatchObject({
    kind: "Event",
    type: "Warning",
    reason: "ClaimAbsent",
    involvedObject: POD,
    source: { component: "holdfast-test", host: "n1" },
    firstTimestamp: "2026-01-01T00:00:00Z",
  });
  expect(all[0]?.path).toMatch(/^\/api\/v1\/namespaces\/shop\/events\/web\./);
});

test("each change of an object has its event, and a message that differs at every retry is no flood", async () => {
  const { api, clock, events } = eventWriter();
  for (const address of ["10.0.0.5", "10.0.0.6", "10.0.0.7"])
    events.inform(POD, "AddressChanged", `${address}, as the VM asks for`);
  expect((await written(api)).map(({ message }) => message)).toEqual([
    "10.0.0.5, as the VM asks for",
    "10.0.0.6, as the VM asks for",
    "10.0.0.7, as the VM asks for",
  ]);
  for (let retry = 0; retry < 1_000; retry++) {
    events.warn(POD, "AddressTaken", `tried ${retry} times`);
    if (retry % 20 === 0) await written(api);
    clock.nowMs += 10;
  }
  expect((await written(api)).filter(({ reason }) => reason === "AddressTaken")).toHaveLength(10);
  clock.nowMs += 5 * MINUTE_MS;
  events.warn(POD, "AddressTaken", "tried 1000 times");
  expect((await written(api)).filter(({ reason }) => reason === "AddressTaken")).toHaveLength(11);
});

test("what is the same by its reporter's word is told once, whatever else the message counts", async () => {
  const { api, events } = eventWriter();
  for (const cooling of [1, 2, 3]) events.warn(POD, "SubnetExhausted", `it is full; ${cooling} cooling`, "it is full");
  events.warn(POD, "SubnetExhausted", "another one is full", "another one is full");
  expect((await written(api)).map(({ message }) => message)).toEqual(["it is full; 1 cooling", "another one is full"]);
});

test("two processes that report the same of an object in the same second both have their event", async () => {
  const { api, events } = eventWriter();
  const other = new EventWriter({ api, component: "holdfast-test", host: "n2" });
  events.warn(POD, "ClaimAbsent", "it is not there");
  other.warn(POD, "ClaimAbsent", "it is not there");
  expect((await written(api)).map(({ source }) => source.host).sort()).toEqual(["n1", "n2"]);
});

test("an object without a namespace has its events in the default one", async () => {
  const { api, events } = eventWriter();
  events.warn({ apiVersion: "v1", kind: "Node", name: "n1", uid: "n" }, "Gone", "gone");
  expect((await written(api))[0]?.path).toMatch(/^\/api\/v1\/namespaces\/default\/events\/n1\./);
});

test("long messages are cut, never inside a character", async () => {
  const { api, events } = eventWriter();
  events.warn(POD, "Long", "😀".repeat(1_000));
  const [event] = await written(api);
  expect(event?.message.length).toBeLessThanOrEqual(1_024);
  expect(event?.message.isWellFormed?.() ?? true).toBe(true);
});

test("events that the server does not take are dropped, and memory stays bounded", async () => {
  const { api, events } = eventWriter();
  api.away = true;
  for (let i = 0; i < 20_000; i++) events.warn({ ...POD, uid: `p${i}` }, "Away", "away");
  expect(await written(api)).toHaveLength(0);
  api.away = false;
  events.warn({ ...POD, uid: "last" }, "Back", "back");
  expect(await written(api)).toHaveLength(1);
});
