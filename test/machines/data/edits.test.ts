import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ApiAway } from "../../../kube/kube-api.ts";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const editionOf = (value: string) => ({
  metaData: { strings: [{ key: "rack", value }] },
  networkData: { services: { dns: [value === "r1" ? "192.0.2.1" : "192.0.2.2"] } },
});

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", editionOf("r1"));
  here.host("m");
  here.machine("m");
});
afterEach(() => here.stop());

const conditionOf = (object: Any, type: string) => object.status?.conditions?.find((one: Any) => one.type === type);

function editTemplate(): void {
  here.change(PATHS.templates, "t", (template) => {
    template.spec = editionOf("r2");
  });
}

/** As `kubectl edit` does: the server counts the generation on. */
function editData(edit: (data: Any) => void): void {
  here.change(PATHS.datas, "t-0", (data) => {
    edit(data);
    data.metadata.generation = (data.metadata.generation ?? 1) + 1;
  });
}

describe("the Secrets of a machine are of one edition of its template", () => {
  test("also where the template is edited between the two creates", async () => {
    let isCut = true;
    here.api.before = ({ method, path, body }: Any) => {
      if (isCut && method === "POST" && path.endsWith("/secrets") && body.metadata.name === "m-networkdata")
        throw new ApiAway("cut off");
    };
    here.start();
    await here.settle();
    expect(here.secret("m-metadata", "metaData")).toContain("rack: r1");
    editTemplate();
    isCut = false;
    await here.settle();
    expect(here.secret("m-networkdata", "networkData")).toBeUndefined();
    expect(conditionOf(here.readData("t-0"), "Ready")).toMatchObject({
      status: "False",
      reason: "TemplateEdited",
      message: expect.stringContaining("delete this object"),
    });
    // What the message says to do, and what the garbage collector does then.
    here.remove(PATHS.datas, "t-0");
    here.remove(PATHS.secrets, "m-metadata");
    await here.settle();
    expect(here.secret("m-metadata", "metaData")).toContain("rack: r2");
    expect(here.secret("m-networkdata", "networkData")).toContain("192.0.2.2");
    expect(here.readMachine("m").status.renderedData.name).toBe("t-0");
  });

  test("also where the data object is edited after the template", async () => {
    here.start();
    await here.settle();
    editTemplate();
    await here.settle();
    here.remove(PATHS.secrets, "m-metadata");
    editData(({ spec }) => {
      spec.template.namespace = "";
    });
    await here.settle();
    expect(here.secret("m-metadata", "metaData")).toBeUndefined();
    expect(here.readData("t-0").status.ready).toBe(true);
    expect(here.reasonsOf("t")).toContain("TemplateEdited");
  });
});

describe("objects that were rendered for a machine stay when their source is edited", () => {
  /** Status of the data object and what machine and host name, after an edit. */
  function expectKept(reason: string): void {
    const { ready, errorMessage } = here.readData("t-0").status;
    expect({ ready, errorMessage }).toEqual({ ready: true, errorMessage: undefined });
    expect(conditionOf(here.readData("t-0"), "Ready")).toMatchObject({ status: "True" });
    expect(conditionOf(here.readData("t-0"), "InputsValid")).toMatchObject({ status: "False", reason });
    expect(here.readMachine("m").status).toMatchObject({
      renderedData: { name: "t-0" },
      metaData: { name: "m-metadata" },
    });
    expect(here.readHost("m").spec.metaData.name).toBe("m-metadata");
  }

  test("the index of its data object", async () => {
    here.start();
    await here.settle();
    editData(({ spec }) => {
      spec.index = 7;
    });
    await here.settle();
    expectKept("NameContradictsIndex");
    await here.stop();
    editData(({ spec }) => {
      spec.index = 0;
    });
    // Mended while no controller ran.
    here.start();
    await here.settle();
    expect(conditionOf(here.readData("t-0"), "InputsValid")).toBeUndefined();
    expect(here.readData("t-0").status.ready).toBe(true);
  });

  test("the template that the machine names, when the data object is edited too", async () => {
    here.start();
    await here.settle();
    here.change(PATHS.machines, "m", ({ spec }) => {
      spec.dataTemplate.name = "other";
    });
    editData(({ metadata }) => {
      metadata.labels = { edited: "yes" };
    });
    await here.settle();
    expectKept("MachineHasOtherTemplate");
  });
});

describe("a data object without a host", () => {
  const secret = (name: string, key: string) =>
    here.api.put("/api/v1/namespaces/shop/secrets", {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name, namespace: "shop" },
      data: { [key]: "eA==" },
    });

  beforeEach(() => here.remove(PATHS.hosts, "m"));

  test("is ready where all its Secrets are there, which stay as they are", async () => {
    secret("m-metadata", "metaData");
    secret("m-networkdata", "networkData");
    here.start();
    await here.settle();
    expect(here.readData("t-0").status.ready).toBe(true);
    expect(conditionOf(here.readData("t-0"), "Ready")).toMatchObject({ reason: "SecretsFound" });
    expect(conditionOf(here.readMachine("m"), "Metal3DataReady")).toMatchObject({ status: "True" });
    expect(here.secret("m-metadata", "metaData")).toBe("x");
  });

  test("waits where one is missing, makes none, and seldom looks again", async () => {
    secret("m-metadata", "metaData");
    const asked: string[] = [];
    here.api.before = ({ method, path, body }: Any) => {
      if (method === "POST" && path.endsWith("/secrets")) asked.push(body.metadata.name);
    };
    here.start();
    await here.settle(60_000);
    expect(here.readData("t-0").status.ready).toBe(false);
    expect(conditionOf(here.readData("t-0"), "Ready")).toMatchObject({ reason: "WaitingForHost" });
    expect(here.secret("m-networkdata", "networkData")).toBeUndefined();
    expect(asked).toEqual(["m-metadata", "m-networkdata"]);
  });
});
