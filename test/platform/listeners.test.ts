import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { connectionsMaxOf, createBoundedServer, DESCRIPTORS_KEPT } from "../../platform/listeners/bounded-server.ts";
import { LISTENERS, type ListenerName } from "../../platform/listeners/listeners.ts";
import { ReaderQueue } from "../../platform/listeners/reader-queue.ts";
import { SharedAnswer } from "../../platform/listeners/shared-answer.ts";
import { Turns } from "../../platform/listeners/turns.ts";
import { type Clock, nextTurn, sleep, systemClock } from "../../platform/time.ts";

/** Takes what it is sent when a test lets it. */
const response = () => new PassThrough() as unknown as ServerResponse;

test.each(["daemon", "metadata"])("the listeners of a %s fit into 1,024 descriptors", (process) => {
  const names = (Object.keys(LISTENERS) as (keyof typeof LISTENERS)[]).filter(
    (name) => name !== "haproxy" && (LISTENERS[name].processes as readonly string[]).includes(process),
  ) as ListenerName[];
  // The relay takes another one to the pod for each.
  const sum = (limit: number) =>
    names.reduce((total, name) => total + (name === "relay" ? 2 : 1) * connectionsMaxOf(name, limit), 0);
  expect(sum(1_024)).toBeLessThanOrEqual(1_024 - DESCRIPTORS_KEPT);
  for (const name of names)
    expect(connectionsMaxOf(name, Number.POSITIVE_INFINITY)).toBe(LISTENERS[name].connectionsMax);
});

test("readers are answered one at a time, as JSON.stringify has it", async () => {
  const queue = new ReaderQueue(systemClock);
  let atOnce = 0;
  let most = 0;
  const body = {
    items: Array.from({ length: 200 }, (_, id) => ({ id, none: undefined })),
    gone: undefined,
    continue: "x",
  };
  const work = async () => {
    atOnce += 1;
    most = Math.max(most, atOnce);
    await sleep(systemClock, 2);
    atOnce -= 1;
    return body;
  };
  const ask = async () => {
    const one = response();
    const text = await queue.run(one, work);
    one.destroy();
    return text;
  };
  const texts = await Promise.all(Array.from({ length: 20 }, ask));
  expect(new Set(texts)).toEqual(new Set([JSON.stringify(body)]));
  expect(most).toBe(1);
});

test("the next question waits for the pause, also when nobody waited at the end of the one before", async () => {
  let nowMs = 0;
  const pausesMs: number[] = [];
  const timer: Clock["timer"] = (ms, fire) => {
    pausesMs.push(ms);
    return systemClock.timer(0, fire);
  };
  const queue = new ReaderQueue({ ...systemClock, monotonicMs: () => nowMs, timer });
  const work = async () => {
    nowMs += 10;
    return { pauses: pausesMs.length };
  };
  // As requests on several connections that arrive in one turn: each is over before the next one is read.
  for (let index = 0; index < 3; index += 1) {
    expect(await queue.run(response(), work)).toBe(`{"pauses":${index}}`);
    await nextTurn(systemClock);
  }
  expect(pausesMs.slice(0, 2)).toEqual([20, 20]);
});

test("readers who do not take their answers are cut off when others wait", async () => {
  const queue = new ReaderQueue(systemClock);
  const silent = Array.from({ length: 4 }, response);
  for (const one of silent) await queue.run(one, async () => ({}));
  const next = response();
  expect(await queue.run(next, async () => ({ a: 1 }))).toBe('{"a":1}');
  expect(silent.filter((one) => one.destroyed)).toHaveLength(1);
});

test("a question that fails is told, and the next one is answered", async () => {
  const queue = new ReaderQueue(systemClock);
  const failing = queue.run(response(), async () => {
    throw new Error("away");
  });
  await expect(failing).rejects.toThrow("away");
  expect(await queue.run(response(), async () => ({}))).toBe("{}");
});

test("a question that waits for others holds up nobody, and is computed once for all who ask it", async () => {
  const queue = new ReaderQueue(systemClock);
  let begun = 0;
  let answer: () => void = () => {};
  const waiting = () => {
    begun += 1;
    return new Promise<object>((resolve) => {
      answer = () => resolve({ begun });
    });
  };
  const asked = Array.from({ length: 20 }, () => queue.runElsewhere(response(), "/v1/check", waiting));
  expect(await queue.run(response(), async () => ({ a: 1 }))).toBe('{"a":1}');
  expect(begun).toBe(1);
  answer();
  expect(await asked[0]).toBe('{"begun":1}');
});

test("whoever waits for the same answer shares it, and none is older than its question", async () => {
  let count = 0;
  const shared = new SharedAnswer(systemClock, async () => {
    const mine = ++count;
    await sleep(systemClock, 5);
    return mine;
  });
  const first = await Promise.all(Array.from({ length: 20 }, () => shared.next()));
  expect(new Set(first)).toEqual(new Set([1]));
  expect(await shared.next()).toBe(2);
});

test("short answers take turns with pauses between them, and whoever is gone takes none", async () => {
  const pauses: (() => void)[] = [];
  const timer: Clock["timer"] = (_ms, fire) => {
    pauses.push(fire);
    return systemClock.timer(60_000, () => {}).unref();
  };
  const turns = new Turns({ ...systemClock, timer });
  const responses = Array.from({ length: 4 }, response);
  const answered: number[] = [];
  for (const [index, one] of responses.entries()) void turns.next(one).then(() => answered.push(index));
  responses[1]?.destroy();
  const after = async (pause: number) => {
    pauses[pause]?.();
    await nextTurn(systemClock);
    return answered.join();
  };
  await nextTurn(systemClock);
  expect(answered).toEqual([0]);
  expect(await after(0)).toBe("0,2");
  expect(await after(1)).toBe("0,2,3");
  await after(2);
  void turns.next(response()).then(() => answered.push(4));
  expect(await after(3)).toBe("0,2,3,4");
});

test("whoever asks again before the answer is cut off: thousands of questions would come with one read", async () => {
  let asked = 0;
  const server = createBoundedServer("health", (_request, answer) => {
    asked += 1;
    void sleep(systemClock, 5).then(() => answer.end("ok"));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const question = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
  try {
    const greedy = connect(port, "127.0.0.1").on("error", () => {});
    greedy.write(question.repeat(3_000));
    await new Promise((resolve) => greedy.once("close", resolve));
    expect(asked).toBe(1);
    const patient = connect(port, "127.0.0.1");
    for (let times = 0; times < 3; times += 1) {
      patient.write(question);
      await once(patient, "data");
    }
    expect(asked).toBe(4);
    patient.destroy();
  } finally {
    server.close();
  }
});
