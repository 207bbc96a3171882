import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const TEMPLATE = {
  metaData: { strings: [{ key: "rack", value: "r1" }] },
  networkData: { services: { dns: ["192.0.2.53"] } },
};

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", TEMPLATE);
});
afterEach(() => here.stop());

const conditionOf = (object: Any, type: string) => object.status?.conditions?.find((one: Any) => one.type === type);
const ready = (name: string) => conditionOf(here.readMachine(name), "Metal3DataReady");
const referenced = (name: string) => conditionOf(here.readMachine(name), "HostDataReferenced");

describe("Secrets that the user names", () => {
  test("replace the rendered ones part by part", async () => {
    here.start();
    here.host("m");
    here.putSecrets("mine");
    here.machine("m", { spec: { networkData: { name: "mine" } } });
    await here.settle();
    expect(here.readMachine("m").status).toMatchObject({
      metaData: { name: "m-metadata", namespace: "shop" },
      networkData: { name: "mine", namespace: "shop" },
    });
    expect(here.readHost("m").spec).toMatchObject({
      metaData: { name: "m-metadata" },
      networkData: { name: "mine" },
    });
  });

  test("need no template", async () => {
    here.start();
    here.host("m");
    here.putSecrets("mine");
    here.machine("m", { template: null, spec: { metaData: { name: "mine", namespace: "shop" } } });
    await here.settle();
    expect(ready("m")).toMatchObject({ status: "True", reason: "SecretsSetExternally" });
    expect(here.readHost("m").spec).toMatchObject({ metaData: { name: "mine", namespace: "shop" } });
    expect(here.all(PATHS.claims)).toEqual([]);
  });

  test.each([null, "t"])(
    "are waited for, with template %s: neither machine nor host names them before",
    async (template) => {
      here.start();
      here.host("m");
      here.machine("m", { template, spec: { metaData: { name: "nowhere" } } });
      await here.settle(8_000);
      expect(ready("m")).toMatchObject({
        status: "False",
        reason: "WaitingForSecret",
        message: "Secret shop/nowhere, which spec.metaData names, does not exist: create it, or omit spec.metaData",
      });
      expect(here.readMachine("m").status.metaData).toBeUndefined();
      expect(here.readHost("m").spec.metaData).toBeUndefined();
      expect(here.all(PATHS.secrets).map(({ metadata }) => metadata.name)).not.toContain("nowhere");
      here.putSecrets("nowhere");
      await here.settle(20_000);
      expect(ready("m")).toMatchObject({ status: "True" });
      expect(here.readHost("m").spec.metaData).toMatchObject({ name: "nowhere" });
      // It is not looked for any more.
      here.remove(PATHS.secrets, "nowhere");
      await here.settle(20_000);
      expect(ready("m")).toMatchObject({ status: "True" });
    },
  );

  test("are taken as there where the server does not tell", async () => {
    here.start();
    here.host("m");
    here.api.admit = ({ resource }: Any) => (resource?.resource === "secrets" ? "no quota is left" : null);
    here.machine("m", { template: null, spec: { metaData: { name: "mine" } } });
    await here.settle();
    expect(ready("m")).toMatchObject({ status: "True", reason: "SecretsSetExternally" });
  });

  test("of user-data are repeated in the status, and nothing is done with them", async () => {
    here.start();
    here.host("m");
    here.machine("m", { spec: { userData: { name: "user" } } });
    here.machine("n", { template: null, spec: { userData: { name: "user", namespace: "shop" } } });
    await here.settle();
    for (const name of ["m", "n"])
      expect(here.readMachine(name).status.userData).toEqual({ name: "user", namespace: "shop" });
    expect(here.readHost("m").spec.userData).toBeUndefined();
    here.change(PATHS.machines, "m", (machine) => {
      delete machine.spec.userData;
    });
    await here.settle();
    expect(here.readMachine("m").status.userData).toBeUndefined();
  });

  test("are refused in another namespace", async () => {
    here.start();
    here.host("m");
    here.machine("m", { spec: { metaData: { name: "mine", namespace: "other" } } });
    await here.settle();
    expect(ready("m")).toMatchObject({ status: "False", reason: "SecretInOtherNamespace" });
    expect(here.readHost("m").spec.metaData).toBeUndefined();
  });

  test("a machine that names neither template nor Secret is not written", async () => {
    here.start();
    here.machine("m", { template: null });
    await here.settle();
    expect(here.readMachine("m").status).toBeUndefined();
  });
});

describe("a host", () => {
  test("that names another Secret is left as it is, and the machine says so", async () => {
    here.start();
    here.host("m", { spec: { networkData: { name: "by-hand", namespace: "shop" } } });
    here.machine("m");
    await here.settle();
    expect(here.readHost("m").spec).toMatchObject({ networkData: { name: "by-hand" } });
    // Not half of it either: two machines' data must not mix.
    expect(here.readHost("m").spec.metaData).toBeUndefined();
    expect(referenced("m")).toMatchObject({ status: "False", reason: "HostNamesOtherSecret" });
    here.change(PATHS.hosts, "m", (host) => {
      delete host.spec.networkData;
    });
    await here.settle();
    expect(here.readHost("m").spec).toMatchObject({
      metaData: { name: "m-metadata" },
      networkData: { name: "m-networkdata" },
    });
    expect(referenced("m")).toMatchObject({ status: "True" });
  });

  test("that names the machine's Secrets already is not written", async () => {
    here.start();
    const spec = {
      metaData: { name: "m-metadata", namespace: "shop" },
      networkData: { name: "m-networkdata" },
    };
    here.host("m", { spec });
    here.machine("m");
    await here.settle();
    expect(referenced("m")).toMatchObject({ status: "True" });
    expect(here.api.writes.filter(({ path }) => path.includes("baremetalhosts"))).toEqual([]);
  });

  test("is written at the version that was seen: a change in between is not overwritten", async () => {
    here.start();
    here.host("m");
    let raced = false;
    here.api.before = ({ method, path }) => {
      if (raced || method !== "PATCH" || !path.includes("baremetalhosts")) return;
      raced = true;
      here.change(PATHS.hosts, "m", (host) => {
        host.spec.networkData = { name: "by-hand", namespace: "shop" };
      });
    };
    here.machine("m");
    await here.settle();
    expect(raced).toBe(true);
    expect(here.readHost("m").spec.networkData).toEqual({ name: "by-hand", namespace: "shop" });
    expect(here.readHost("m").spec.metaData).toBeUndefined();
  });

  test("forgets the Secrets of a machine that is gone, and only those", async () => {
    here.start({ graceSeconds: 5 });
    for (const name of ["m", "n"]) {
      here.host(name);
      here.machine(name);
    }
    await here.settle();
    here.change(PATHS.hosts, "n", (host) => {
      host.spec.networkData = { name: "by-hand", namespace: "shop" };
    });
    here.remove(PATHS.machines, "m");
    here.remove(PATHS.machines, "n");
    await here.settle(3_000);
    expect(here.readHost("m").spec.metaData).toBeDefined();
    await here.settle();
    expect(here.readHost("m").spec).toEqual({ bootMACAddress: "02:00:00:00:00:ff" });
    expect(here.readHost("n").spec).toEqual({
      bootMACAddress: "02:00:00:00:00:ff",
      networkData: { name: "by-hand", namespace: "shop" },
    });
    // The next machine finds it free.
    here.machine("k", { host: "m" });
    await here.settle();
    expect(here.readHost("m").spec.metaData).toMatchObject({ name: "k-metadata" });
  });
});

describe("the Secrets that a host names are replaced", () => {
  const hostWrites = () =>
    here.api.writes
      .filter(({ path }) => path.includes("baremetalhosts"))
      .map(({ body }: Any) => body.filter(({ op }: Any) => op !== "test").map(({ path }: Any) => path));

  test("when the machine names another Secret of its own, or none any more", async () => {
    here.start();
    here.template("u", { metaData: {} });
    here.host("m");
    here.putSecrets("mine", "ours");
    here.machine("m", { template: "u", spec: { metaData: { name: "mine" }, networkData: { name: "ours" } } });
    await here.settle();
    expect(here.readHost("m").spec).toMatchObject({
      metaData: { name: "mine" },
      networkData: { name: "ours" },
    });
    here.change(PATHS.machines, "m", ({ spec }) => {
      delete spec.metaData;
      delete spec.networkData;
    });
    await here.settle();
    expect(here.readHost("m").spec.metaData).toEqual({ name: "m-metadata", namespace: "shop" });
    expect(here.readHost("m").spec.networkData).toBeUndefined();
    expect(referenced("m")).toMatchObject({ status: "True" });
  });

  test("but not if they were edited by hand since", async () => {
    here.start();
    here.host("m");
    here.putSecrets("mine");
    here.machine("m", { spec: { metaData: { name: "mine" } } });
    await here.settle();
    here.change(PATHS.hosts, "m", ({ spec }) => {
      spec.metaData = { name: "by-hand", namespace: "shop" };
    });
    here.change(PATHS.machines, "m", ({ spec }) => {
      delete spec.metaData;
    });
    await here.settle();
    expect(here.readHost("m").spec.metaData).toEqual({ name: "by-hand", namespace: "shop" });
    expect(referenced("m")).toMatchObject({ status: "False", reason: "HostNamesOtherSecret" });
  });

  test("by its mark alone where a machine comes again under its name: the references stay all the time", async () => {
    here.start({ graceSeconds: 5 });
    here.host("m");
    here.machine("m");
    await here.settle();
    for (const [collection, name] of [
      [PATHS.machines, "m"],
      [PATHS.claims, "m"],
      [PATHS.datas, "t-0"],
      [PATHS.secrets, "m-metadata"],
      [PATHS.secrets, "m-networkdata"],
    ] as const)
      here.remove(collection, name);
    const before = hostWrites().length;
    const { metadata } = here.machine("m");
    await here.settle(60_000);
    expect(hostWrites().slice(before)).toEqual([["/metadata/annotations/metadata.holdfast.dev~1machine-data"]]);
    // And are taken back once that one is gone too.
    expect(JSON.stringify(here.readHost("m").metadata.annotations)).toContain(metadata.uid);
    here.remove(PATHS.machines, "m");
    await here.settle();
    expect(here.readHost("m").spec.metaData).toBeUndefined();
  });

  test("by none if the machine of that name wants no data", async () => {
    here.start({ graceSeconds: 5 });
    here.host("m");
    here.machine("m");
    await here.settle();
    here.remove(PATHS.machines, "m");
    here.machine("m", { template: null });
    await here.settle();
    expect(here.readHost("m").spec.metaData).toBeUndefined();
  });
});

test("a machine of v1beta1 has its conditions in the form of that version", async () => {
  const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  here.editDefinition("metal3machines", ({ spec }) => {
    spec.versions[0].name = "v1beta1";
    spec.versions[0].schema.openAPIV3Schema = {
      type: "object",
      properties: { spec: anything, status: anything },
    };
  });
  const collection = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/shop/metal3machines";
  const metadata = { name: "m", namespace: "shop", annotations: { "metal3.io/BareMetalHost": "shop/m" } };
  const others = [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }];
  here.api.put(collection, {
    apiVersion: "infrastructure.cluster.x-k8s.io/v1beta1",
    kind: "Metal3Machine",
    metadata,
    spec: { dataTemplate: { name: "t" } },
    status: { conditions: others },
  });
  here.start();
  await here.settle();
  const conditions = () => here.api.at(`${collection}/m`).status.conditions;
  expect(conditions()).toEqual([
    ...others,
    {
      type: "Metal3DataReady",
      status: "False",
      severity: "Info",
      reason: "WaitingForMetal3Data",
      message: expect.stringContaining("does not exist"),
      lastTransitionTime: expect.any(String),
    },
  ]);
  here.host("m");
  await here.settle();
  // An empty message is refused in this form, and so is a severity of what is True.
  expect(conditions()).toEqual([
    ...others,
    {
      type: "Metal3DataReady",
      status: "True",
      reason: "Metal3DataSecretsReady",
      lastTransitionTime: expect.any(String),
    },
    {
      type: "HostDataReferenced",
      status: "True",
      reason: "HostNamesSecrets",
      lastTransitionTime: expect.any(String),
    },
  ]);
  expect(here.readClaim("m").metadata.ownerReferences[0].apiVersion).toBe("infrastructure.cluster.x-k8s.io/v1beta1");
});

test("a machine that is created again under its name waits until the claim of the former one is gone", async () => {
  here.start({ graceSeconds: 5 });
  here.host("m");
  here.machine("m");
  await here.settle();
  here.remove(PATHS.machines, "m");
  const { metadata } = here.machine("m");
  await here.settle(10_000);
  expect(ready("m")).toMatchObject({
    status: "False",
    message: expect.stringContaining("another Metal3Machine"),
  });
  expect(here.readMachine("m").status.renderedData).toBeUndefined();
  // As the garbage collector does.
  here.remove(PATHS.claims, "m");
  here.remove(PATHS.datas, "t-0");
  here.remove(PATHS.secrets, "m-metadata");
  await here.settle();
  expect(here.readClaim("m").metadata.ownerReferences[0].uid).toBe(metadata.uid);
  expect(here.readMachine("m").status.renderedData.name).toBe("t-0");
  expect(ready("m")).toMatchObject({ status: "True" });
});
