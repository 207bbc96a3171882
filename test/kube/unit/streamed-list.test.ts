import { expect, test } from "vitest";
import type { KubeTransport, WatchAttempt } from "../../../kube/client/kube-transport.ts";
import { readList } from "../../../kube/client/read-list.ts";
import type { ListedPage } from "../../../kube/kube-api.ts";
import { Reflector } from "../../../kube/reflector.ts";

import { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../../harness/kube-fake/client/fake-kube-api.ts";
import { Contact } from "../../harness/kube-fake/port.ts";
import { WorldTime } from "../../harness/world/world-time.ts";

const MAPS = "/api/v1/configmaps";
const IN_DEFAULT = "/api/v1/namespaces/default/configmaps";
const WITH_STREAMS = 34;

interface Item {
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

/** A server, a client of it, and a reflector of its ConfigMaps. */
class Setup {
  readonly time = new WorldTime();
  readonly clock = this.time.clock;
  readonly server: ApiServer;
  readonly api: FakeKubeApi;
  readonly pages: ListedPage[] = [];
  readonly reflector: Reflector<Item>;
  readonly told: string[] = [];

  constructor(minor: number, names: readonly string[]) {
    this.server = new ApiServer({ clock: this.clock, minor });
    for (const name of names) this.put(name);
    const onList = (page: ListedPage) => this.pages.push(page);
    this.api = new FakeKubeApi({ clock: this.clock, server: () => this.server, onList });
    this.reflector = new Reflector<Item>({
      api: this.api,
      path: MAPS,
      query: { resourceVersion: "0" },
      isStreamed: true,
      project: ({ metadata: { name, uid, resourceVersion } }) => ({ key: name, uid, resourceVersion }),
      onUpsert: ({ key }, previous) => this.told.push(`${previous ? "~" : "+"}${key}`),
      onDelete: ({ key }) => this.told.push(`-${key}`),
      log: { info: () => {}, warn: () => {} },
    });
  }

  put(name: string, data: object = {}): void {
    this.server.put(IN_DEFAULT, { metadata: { name, namespace: "default" }, data });
  }

  remove(name: string): void {
    this.server.remove(`${IN_DEFAULT}/${name}`);
  }

  async synced(): Promise<void> {
    this.reflector.start();
    await this.time.run(this.reflector.waitSynced());
  }

  /** How each request for a list was answered, and with how many objects. */
  get requests(): string[] {
    return this.pages.map(({ source, objects }) => `${source} ${objects}`);
  }

  stop(): Promise<void> {
    return this.time.run(this.reflector.stop());
  }
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `c${1_000 + index}`);

test("a server with WatchList sends everything as the beginning of a watch", async () => {
  const setup = new Setup(WITH_STREAMS, ["a", "b"]);
  await setup.synced();
  expect(setup.told).toEqual(["+a", "+b"]);
  expect(setup.requests).toEqual(["stream 2"]);
  expect(setup.pages[0]?.bytes).toBeGreaterThan(200);
  setup.put("a", { more: "text" });
  setup.remove("b");
  await setup.time.until(() => setup.told.length === 4, "both changes");
  expect(setup.told.slice(2)).toEqual(["~a", "-b"]);
  expect(setup.requests).toEqual(["stream 2"]);
  await setup.stop();
});

test.each([20, 30])("from a server 1.%i everything is read in pages of the store", async (minor) => {
  const names = numbered(1_200);
  const setup = new Setup(minor, names);
  await setup.synced();
  expect([...setup.reflector.items.keys()].sort()).toEqual(names);
  expect(setup.requests).toEqual(["stream 0", "quorum 500", "quorum 500", "quorum 200"]);
  await setup.stop();
});

test("a stream that breaks off does not count, and pages are read", async () => {
  const setup = new Setup(WITH_STREAMS, ["a", "b", "c"]);
  setup.api.link.eventMs = () => 10;
  setup.reflector.start();
  await setup.time.advance(25);
  setup.remove("a");
  setup.api.cutWatches();
  await setup.time.run(setup.reflector.waitSynced());
  expect(setup.told).toEqual(["+b", "+c"]);
  expect(setup.requests).toEqual(["stream 2", "quorum 2"]);
  await setup.stop();
});

test("a stream waits for a cache that lags, and shows nothing that is older than the copy", async () => {
  const setup = new Setup(WITH_STREAMS, ["a"]);
  await setup.synced();
  setup.put("b");
  await setup.time.until(() => setup.told.includes("+b"), "b");
  setup.server.restart();
  setup.server.holdCache("/configmaps");
  setup.put("c");
  setup.reflector.relist();
  await setup.time.advance(1_000);
  expect(setup.told).not.toContain("+c");
  setup.server.releaseCache("/configmaps");
  await setup.time.until(() => setup.told.includes("+c"), "c");
  expect(setup.told).toEqual(["+a", "+b", "+c"]);
  await setup.stop();
});

test("a page that breaks off is read again, and no object comes twice", async () => {
  const setup = new Setup(20, numbered(1_200));
  const { api, time, pages } = setup;
  const came: string[] = [];
  let lists = 0;
  api.link.fate = () => {
    lists += 1;
    return lists === 2 ? { cutAfter: 300 } : undefined;
  };
  // Without `restarted`: it must not begin again.
  await time.run(api.list({ path: MAPS, each: ({ metadata }) => came.push(metadata.name) }));
  expect(came).toEqual(numbered(1_200));
  expect(pages.map(({ objects }) => objects)).toEqual([500, 300, 500, 200]);
});

test("a page that fails again and again is not given up as soon as a first one", async () => {
  const setup = new Setup(20, numbered(600));
  const { api, time } = setup;
  const came: string[] = [];
  let lists = 0;
  api.link.fate = () => {
    lists += 1;
    return lists > 1 && lists <= 8 ? { lost: "before" } : undefined;
  };
  const list = () => time.run(api.list({ path: MAPS, each: ({ metadata }) => came.push(metadata.name) }));
  await list();
  expect(came).toEqual(numbered(600));
  lists = 1;
  await expect(list()).rejects.toThrow("socket hang up");
});

/** A transport whose watch brings what a script says, and whose pages are one object. */
function scripted(
  time: WorldTime,
  watch: (request: WatchAttempt) => ReturnType<KubeTransport["watch"]>,
): KubeTransport {
  const clock = time.clock;
  return {
    clock,
    contact: new Contact(clock),
    life: new AbortController().signal,
    watch,
    page: async ({ each, query }) => {
      expect(query).toEqual({ limit: "500" });
      each({ metadata: { name: "of-page" } });
      return { kind: "read", resourceVersion: "9", next: "" };
    },
    inTurn: (_request, work) => work(),
    exchange: () => expect.unreachable(),
  };
}

async function read(time: WorldTime, transport: KubeTransport) {
  const names = new Set<string>();
  const answer = await time.run(
    readList(transport, {
      path: MAPS,
      query: { resourceVersion: "0" },
      each: ({ metadata }) => names.add(metadata.name),
      restarted: () => names.clear(),
      streamed: { gone: ({ metadata }) => names.delete(metadata.name) },
    }),
  );
  return { answer, names: [...names] };
}

const named = (name: string) => ({ metadata: { name } });

test("what is deleted while the stream comes is not listed, and what comes after its end is left to the watch", async () => {
  const time = new WorldTime();
  const ends = { "k8s.io/initial-events-end": "true" };
  const transport = scripted(time, async ({ query, event, opened }) => {
    expect(query).toMatchObject({ watch: "true", sendInitialEvents: "true", resourceVersion: "0" });
    opened?.();
    event("ADDED", named("a"));
    event("ADDED", named("b"));
    event("BOOKMARK", { metadata: { resourceVersion: "6" } });
    event("MODIFIED", named("c"));
    event("DELETED", named("a"));
    event("BOOKMARK", { metadata: { resourceVersion: "7", annotations: ends } });
    event("DELETED", named("b"));
    return { kind: "closed" };
  });
  expect(await read(time, transport)).toEqual({
    answer: { kind: "listed", resourceVersion: "7" },
    names: ["b", "c"],
  });
});

test("a server that knows nothing of the end of a stream is given up when it is silent", async () => {
  const time = new WorldTime();
  const transport = scripted(time, ({ event, opened, signal }) => {
    opened?.();
    event("ADDED", named("of-stream"));
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve({ kind: "closed" })));
  });
  const startMs = transport.clock.monotonicMs();
  expect(await read(time, transport)).toEqual({
    answer: { kind: "listed", resourceVersion: "9" },
    names: ["of-page"],
  });
  expect(transport.clock.monotonicMs() - startMs).toBeGreaterThanOrEqual(30_000);
});

test("what a caller throws ends the stream and the list", async () => {
  const time = new WorldTime();
  const transport = scripted(time, async ({ event }) => {
    try {
      event("ADDED", named("a"));
    } catch (error) {
      return { kind: "nothing", problem: (error as Error).message };
    }
    return { kind: "closed" };
  });
  const each = () => {
    throw new Error("no room");
  };
  const list = readList(transport, { path: MAPS, each, streamed: { gone: () => {} } });
  await expect(time.run(list)).rejects.toThrow("no room");
});
