import { afterAll, beforeAll, expect, test } from "vitest";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import { Reflector, type ReflectorOptions } from "../../kube/reflector.ts";
import { systemClock } from "../../platform/time.ts";
import { until } from "../harness/wait.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { World } from "../harness/world/world.ts";

const CONFIG_MAPS = "/api/v1/configmaps";
const OBJECTS = 2_000;

let world: World;
let cluster: Cluster;
let api: HttpKubeApi;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  ({ cluster } = world);
  api = new HttpKubeApi(loadKubeConfig(cluster.kubeconfig("admin")), systemClock);
});
afterAll(async () => {
  api?.close();
  await world?.stop();
});

interface Observed {
  readonly reflector: Reflector<Reflected>;
  /** `+name`, `~name`, `-name`, "in touch" in the order of the calls. */
  readonly told: string[];
}

function reflect(path: string, options: Partial<ReflectorOptions<Reflected>> = {}): Observed {
  const told: string[] = [];
  const reflector = new Reflector<Reflected>({
    api,
    path,
    metadataOnly: true,
    project: ({ kind, metadata, data }) => {
      // What a server sends that knows no PartialObjectMetadata; all of ours do.
      if (kind !== "PartialObjectMetadata" || data !== undefined) throw new Error("not only metadata");
      return { key: metadata.name, uid: metadata.uid, resourceVersion: metadata.resourceVersion };
    },
    onUpsert: ({ key }, previous) => told.push(`${previous ? "~" : "+"}${key}`),
    onDelete: ({ key }) => told.push(`-${key}`),
    log: {
      info: (message: unknown) => void (String(message).endsWith("in touch again") && told.push("in touch")),
      warn: () => {},
    },
    timings: { retryMsMin: 50, retryMsMax: 500, missingMs: 100 },
    ...options,
  });
  reflector.start();
  return { reflector, told };
}

async function send(method: "POST" | "DELETE" | "PATCH", path: string, body?: unknown): Promise<void> {
  const merge = method === "PATCH" ? ({ patch: "merge" } as const) : {};
  const deadlineMs = performance.now() + 60_000;
  const answer = await api.send({ method, path, body, ...merge, priority: "housekeeping", deadlineMs });
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
}

async function newNamespace(name: string): Promise<void> {
  await send("POST", "/api/v1/namespaces", { metadata: { name } });
}

const create = (namespace: string, name: string) =>
  send("POST", namespacedPath(CONFIG_MAPS, namespace), {
    metadata: { name },
    data: { text: "x".repeat(300) },
  });
const remove = (namespace: string, name: string) => send("DELETE", namespacedPath(CONFIG_MAPS, namespace, name));
const change = (namespace: string, name: string) =>
  send("PATCH", namespacedPath(CONFIG_MAPS, namespace, name), { metadata: { labels: { is: "changed" } } });

test("thousands of objects are listed in pages or at once, and followed", async () => {
  await newNamespace("many");
  const names = Array.from({ length: OBJECTS }, (_, index) => `c${index}`);
  await Promise.all(names.map((name) => create("many", name)));
  const path = namespacedPath(CONFIG_MAPS, "many");
  const observed = [reflect(path), reflect(path, { query: { resourceVersion: "0" } })];
  try {
    for (const { reflector, told } of observed) {
      expect(await reflector.waitSynced()).toBe(true);
      await until(async () => told.length === OBJECTS, "all objects");
      expect([...reflector.items.keys()].sort()).toEqual([...names].sort());
      told.length = 0;
    }
    const uid = observed[0]?.reflector.items.get("c1")?.uid;
    await Promise.all([remove("many", "c0"), remove("many", "c1"), change("many", "c2"), create("many", "new")]);
    await create("many", "c1");
    for (const { reflector, told } of observed) {
      await until(async () => told.includes("+c1"), "the last change");
      expect([...told].sort()).toEqual(["+c1", "+new", "-c0", "-c1", "~c2"]);
      expect(told.indexOf("-c1")).toBeLessThan(told.indexOf("+c1"));
      expect(reflector.items.get("c1")?.uid).not.toBe(uid);
      expect(reflector.items.size).toBe(OBJECTS);
    }
  } finally {
    for (const { reflector } of observed) await reflector.stop();
  }
});

test("a definition that is installed later is picked up", async () => {
  const { reflector, told } = reflect("/apis/test.holdfast.dev/v1/widgets");
  try {
    expect(await reflector.waitSynced()).toBe(true);
    expect([reflector.synced, reflector.missing]).toEqual([false, true]);
    await cluster.apply([widgets()]);
    await send("POST", "/apis/test.holdfast.dev/v1/widgets", {
      apiVersion: "test.holdfast.dev/v1",
      kind: "Widget",
      metadata: { name: "first" },
    });
    await until(async () => told.includes("+first"), "the first widget");
    expect([reflector.synced, reflector.missing]).toEqual([true, false]);
    await send("DELETE", "/apis/test.holdfast.dev/v1/widgets/first");
    await until(async () => told.includes("-first"), "its deletion");
  } finally {
    await reflector.stop();
  }
});

test("an API server that is killed and comes back loses nothing", async () => {
  await newNamespace("restarted");
  for (const name of ["gone", "anew", "same"]) await create("restarted", name);
  const path = namespacedPath(CONFIG_MAPS, "restarted");
  const { reflector, told } = reflect(path);
  try {
    await until(async () => told.length === 3, "the objects");
    told.length = 0;
    await cluster.stopApiServer();
    const restarted = cluster.startApiServer();
    // These wait inside `send` until the server is there again.
    await Promise.all([remove("restarted", "gone"), remove("restarted", "anew")]);
    await create("restarted", "anew");
    await restarted;
    await until(async () => told.includes("+anew") && told.includes("in touch"), "what happened");
    expect(told.filter((one) => one !== "in touch").sort()).toEqual(["+anew", "-anew", "-gone"]);
    expect([...reflector.items.keys()].sort()).toEqual(["anew", "same"]);
    await create("restarted", "later");
    await until(async () => told.includes("+later"), "a later change");
  } finally {
    await reflector.stop();
  }
});

test("after a restore of etcd the reflector has its objects, although resource versions repeat", async () => {
  await newNamespace("restored");
  for (const name of ["gone", "same"]) await create("restored", name);
  const saved = await world.server.saveEtcd();
  const path = namespacedPath(CONFIG_MAPS, "restored");
  const { reflector, told } = reflect(path);
  try {
    await until(async () => told.length === 2, "the objects");
    await remove("restored", "gone");
    await create("restored", "lost");
    await until(async () => told.includes("+lost"), "the last change");
    await world.server.restoreEtcd(saved);
    for (let i = 0; i < 10; i += 1) await create("restored", `new${i}`);
    const present = ["gone", ...Array.from({ length: 10 }, (_, index) => `new${index}`), "same"];
    await until(async () => `${[...reflector.items.keys()].sort()}` === `${present}`, "what there is", 30_000);
  } finally {
    await reflector.stop();
  }
});

function widgets(): object {
  const schema = { openAPIV3Schema: { type: "object" } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.test.holdfast.dev" },
    spec: {
      group: "test.holdfast.dev",
      scope: "Cluster",
      names: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  };
}
