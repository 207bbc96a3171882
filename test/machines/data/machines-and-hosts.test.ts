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

const conditionOf = (object: Any, type: string) =>
  object.status?.conditions?.find((one: Any) => one.type === type);
const ready = (name: string) => conditionOf(here.readMachine(name), "Metal3DataReady");
const referenced = (name: string) => conditionOf(here.readMachine(name), "HostDataReferenced");

describe("Secrets that the user names", () => {
  test("replace the rendered ones part by part", async () => {
    here.start();
    here.host("m");
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
    here.machine("m", { template: null, spec: { metaData: { name: "mine", namespace: "shop" } } });
    await here.settle();
    expect(ready("m")).toMatchObject({ status: "True", reason: "SecretsSetExternally" });
    expect(here.readHost("m").spec).toMatchObject({ metaData: { name: "mine", namespace: "shop" } });
    expect(here.all(PATHS.claims)).toEqual([]);
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
