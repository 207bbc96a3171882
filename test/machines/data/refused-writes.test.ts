import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ApiAway, type KubeRequest } from "../../../kube/kube-api.ts";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const TEMPLATE = {
  metaData: { strings: [{ key: "rack", value: "r1" }] },
  networkData: { services: { dns: ["192.0.2.53"] } },
};
const SETTLED_LONG_MS = 60_000;

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", TEMPLATE);
});
afterEach(() => here.stop());

const conditionOf = (object: Any, type: string) => object.status?.conditions?.find((one: Any) => one.type === type);

/** Requests of a method whose path ends so are cut off, at most `times`. */
function cut(method: string, end: string, times = Number.POSITIVE_INFINITY): void {
  let left = times;
  here.api.before = (request) => {
    if (request.method !== method || !request.path.endsWith(end) || left === 0) return;
    left -= 1;
    throw new ApiAway("cut off");
  };
}

/** Requests of a method whose path has the text are answered so, as an admission webhook does. */
function refuse(method: string, text: string, answer: { status: number; message: string }): void {
  const send = here.api.send.bind(here.api);
  here.api.send = async (request: KubeRequest) => {
    if (request.method !== method || !request.path.includes(text)) return send(request);
    const { status, message } = answer;
    return { status, body: { kind: "Status", message }, serverMs: null } as Any;
  };
}

describe("one object that cannot be written", () => {
  test("does not keep the indexes of other templates from being shown, and is shown later itself", async () => {
    const names = ["t", "u", "v"];
    for (const name of names.slice(1)) here.template(name, TEMPLATE);
    cut("PATCH", "metal3datatemplates/t/status", 2);
    here.start();
    for (const name of names) here.claim(`of-${name}`, { template: name });
    await here.settle();
    for (const name of names)
      expect(here.readTemplate(name).status?.indexes, name).toEqual([{ name: `of-${name}`, index: 0 }]);
  });

  test("does not keep other data whose claim is gone from being deleted", async () => {
    here.start();
    for (const name of ["a", "b", "c"]) here.claim(name);
    await here.settle();
    const { a } = here.indexes();
    cut("DELETE", `metal3datas/t-${a}`);
    for (const name of ["a", "b", "c"]) here.remove(PATHS.claims, name);
    await here.settle(SETTLED_LONG_MS);
    expect(here.indexes()).toEqual({ a });
  });

  test("does not keep other hosts from forgetting their machine", async () => {
    here.start();
    for (const name of ["a", "b", "c"]) {
      here.host(name);
      here.machine(name);
    }
    await here.settle();
    cut("PATCH", "baremetalhosts/a");
    for (const name of ["a", "b", "c"]) here.remove(PATHS.machines, name);
    await here.settle(SETTLED_LONG_MS);
    expect(["a", "b", "c"].map((name) => here.readHost(name).spec.metaData?.name)).toEqual([
      "a-metadata",
      undefined,
      undefined,
    ]);
  });
});

describe("a refusal", () => {
  test("of the host by admission, with the status of a changed host, is shown in the machine", async () => {
    refuse("PATCH", "baremetalhosts", { status: 422, message: "spec.metaData is not allowed here" });
    here.start();
    here.host("m");
    here.machine("m");
    await here.settle();
    expect(conditionOf(here.readMachine("m"), "HostDataReferenced")).toMatchObject({
      status: "False",
      reason: "HostNotWritten",
      message: expect.stringContaining("spec.metaData is not allowed here"),
    });
    expect(conditionOf(here.readMachine("m"), "Metal3DataReady")).toMatchObject({ status: "True" });
  });

  test("of a Secret for a quota does not send the operator to the roles", async () => {
    const quota = 'secrets "m-metadata" is forbidden: exceeded quota: q, requested: count/secrets=1';
    refuse("POST", "/secrets", { status: 403, message: quota });
    here.start();
    here.host("m");
    here.machine("m");
    await here.settle();
    const said = conditionOf(here.readData("t-0"), "Ready");
    expect(said).toMatchObject({ reason: "SecretRefused", message: expect.stringContaining(quota) });
    expect(said.message).not.toContain("ClusterRole");
  });

  test("of a Secret for a missing right names the role", async () => {
    const message =
      'secrets is forbidden: User "x" cannot create resource "secrets" in API group "" in the namespace "shop"';
    refuse("POST", "/secrets", { status: 403, message });
    here.start();
    here.host("m");
    here.machine("m");
    await here.settle();
    expect(conditionOf(here.readData("t-0"), "Ready")).toMatchObject({
      reason: "SecretsForbidden",
      message: expect.stringContaining("holdfast-machine-data-secrets"),
    });
  });
});

test("neither a host in another namespace nor the host of that name here is written", async () => {
  here.start();
  here.host("h");
  here.machine("m", { host: null, annotations: { "metal3.io/BareMetalHost": "other/h" } });
  await here.settle();
  expect(here.readHost("h").spec).toEqual({ bootMACAddress: "02:00:00:00:00:ff" });
  expect(conditionOf(here.readData("t-0"), "Ready").message).toContain("other/h");
});

test("a machine whose name leaves no room for those of its Secrets says so, and claims nothing", async () => {
  const [short, long] = ["m".repeat(241), "m".repeat(242)];
  here.start();
  here.host("h");
  here.host("i");
  here.machine(short, { host: "h" });
  here.machine(long, { host: "i" });
  await here.settle();
  expect(here.readHost("h").spec.networkData.name).toBe(`${short}-networkdata`);
  expect(conditionOf(here.readMachine(long), "Metal3DataReady")).toMatchObject({
    status: "False",
    message: expect.stringContaining("242 characters"),
  });
  expect(here.readClaim(long)).toBeUndefined();
});

test("a template of too many levels says so, and others are served", async () => {
  let deep: Any = 1;
  for (let level = 0; level < 200; level += 1) deep = { a: deep };
  const bonds = [{ id: "b", bondMode: "802.3ad", macAddress: {}, parameters: [{ name: "x", value: deep }] }];
  here.template("deep", { networkData: { links: { bonds } } });
  here.start();
  here.host("m");
  here.machine("m");
  await here.settle();
  expect(conditionOf(here.readTemplate("deep"), "Ready")).toMatchObject({
    reason: "TemplateInvalid",
    message: expect.stringContaining("parameters[0].value: expected at most 64 levels"),
  });
  expect(conditionOf(here.readMachine("m"), "Metal3DataReady")).toMatchObject({ status: "True" });
});

test("who owns the kinds is looked up once for everybody who asks at the same time", async () => {
  const seen: string[] = [];
  here.api.before = ({ method, path }) => {
    if (method === "GET" && path.includes("customresourcedefinitions/metal3")) seen.push(path);
  };
  for (let i = 0; i < 20; i += 1) {
    here.host(`m${i}`);
    here.machine(`m${i}`);
  }
  here.start();
  await here.settle(10_000);
  // Three definitions, at most every other second.
  expect(seen.length).toBeLessThanOrEqual(3 * 6);
});
