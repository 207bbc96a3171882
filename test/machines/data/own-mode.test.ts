import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { OwnModeHere, ownerOf, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const TEMPLATE = {
  metaData: { strings: [{ key: "rack", value: "r1" }], indexes: [{ key: "number", prefix: "n-" }] },
  networkData: {
    links: { ethernets: [{ id: "eth0", type: "phy", macAddress: { fromHostInterface: "eth0" } }] },
  },
};
const NO_NIC = { metaData: { strings: [{ key: "rack", value: "r1" }] } };
const POOLED = { metaData: { ipAddressesFromPool: [{ key: "address", name: "p" }] } };

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
});
afterEach(() => here.stop());

const conditionOf = (object: Any, type = "Ready") => object.status?.conditions?.find((one: Any) => one.type === type);
/** Of a data object: `reason: message`. */
const said = (name: string) => {
  const { reason, message } = conditionOf(here.readData(name)) ?? {};
  return `${reason}: ${message}`;
};

describe("a machine that names a template", () => {
  test("gets a claim, an index, two Secrets and a status, and its host names the Secrets", async () => {
    here.start();
    here.template("t", TEMPLATE);
    here.host("m");
    const machine = here.machine("m", { labels: { "cluster.x-k8s.io/cluster-name": "c" } });
    await here.settle();
    expect(here.warnings).toEqual([]);
    expect(here.readClaim("m")).toMatchObject({
      metadata: {
        labels: { "cluster.x-k8s.io/cluster-name": "c" },
        ownerReferences: [{ ...ownerOf("Metal3Machine", machine), controller: true }],
      },
      spec: { template: { name: "t", namespace: "shop" } },
      status: { renderedData: { name: "t-0", namespace: "shop" } },
    });
    expect(here.readData("t-0")).toMatchObject({
      metadata: {
        labels: { "cluster.x-k8s.io/cluster-name": "c" },
        ownerReferences: [
          { ...ownerOf("Metal3DataClaim", here.readClaim("m")), controller: true },
          ownerOf("Metal3Machine", machine),
        ],
      },
      spec: {
        index: 0,
        claim: { name: "m", namespace: "shop" },
        template: { name: "t", namespace: "shop" },
        metaData: { name: "m-metadata", namespace: "shop" },
        networkData: { name: "m-networkdata", namespace: "shop" },
      },
      status: { ready: true },
    });
    expect(here.secret("m-metadata", "metaData")).toBe("number: n-0\nproviderid: shop/m/m\nrack: r1\n");
    expect(here.secret("m-networkdata", "networkData")).toContain('ethernet_mac_address: "02:00:00:00:00:01"');
    expect(here.api.at("/api/v1/namespaces/shop/secrets/m-metadata")).toMatchObject({
      type: "infrastructure.cluster.x-k8s.io/secret",
      metadata: {
        labels: { "cluster.x-k8s.io/cluster-name": "c" },
        ownerReferences: [{ ...ownerOf("Metal3Data", here.readData("t-0")), controller: true }],
      },
    });
    const secrets = { metaData: { name: "m-metadata" }, networkData: { name: "m-networkdata" } };
    expect(here.readMachine("m").status).toMatchObject({ renderedData: { name: "t-0" }, ...secrets });
    expect(conditionOf(here.readMachine("m"), "Metal3DataReady")).toMatchObject({
      status: "True",
      reason: "Metal3DataSecretsReady",
    });
    expect(here.readHost("m").spec).toMatchObject(secrets);
    expect(here.readTemplate("t").status.indexes).toEqual([{ name: "m", index: 0 }]);
  });

  test("once complete causes no requests but the creates that check its Secrets", async () => {
    here.start();
    here.template("t", TEMPLATE);
    here.host("m");
    here.machine("m");
    await here.settle();
    const before = here.api.writes.length;
    let creates = 0;
    here.api.before = ({ method, path }) => {
      if (method === "POST" && path.endsWith("/secrets")) creates += 1;
    };
    await here.settle(10_000);
    expect(here.api.writes.slice(before).map(({ path }) => path)).toEqual([]);
    expect(creates).toBeGreaterThan(0);
    expect(creates).toBeLessThanOrEqual(50);
  });

  test("waits for its host, and for the host's inspection", async () => {
    here.start();
    here.template("t", TEMPLATE);
    here.machine("m", { host: null });
    await here.settle();
    expect(said("t-0")).toBe("WaitingForHost: no BareMetalHost is chosen for Metal3Machine shop/m");
    here.change(PATHS.machines, "m", (machine) => {
      machine.metadata.annotations = { "metal3.io/BareMetalHost": "shop/h" };
    });
    await here.settle();
    expect(said("t-0")).toBe("WaitingForHost: BareMetalHost shop/h does not exist");
    here.host("h", { nics: null });
    await here.settle();
    expect(said("t-0")).toMatch(/^WaitingForHost: .*NICs list not populated/);
    expect(here.readData("t-0").status.errorMessage).toBeUndefined();
    here.change(PATHS.hosts, "h", (host) => {
      host.status = { hardware: { nics: [{ name: "eth0", mac: "02:00:00:00:00:07" }] } };
    });
    await here.settle();
    expect(here.readData("t-0").status).toMatchObject({ ready: true });
    expect(here.secret("m-networkdata", "networkData")).toContain("02:00:00:00:00:07");
    // What was rendered stays.
    here.change(PATHS.hosts, "h", (host) => {
      host.status = { hardware: { nics: [{ name: "eth0", mac: "02:00:00:00:00:08" }] } };
    });
    await here.settle();
    expect(here.secret("m-networkdata", "networkData")).toContain("02:00:00:00:00:07");
  });

  test("waits for its template, which may come later", async () => {
    here.start();
    here.host("m");
    here.machine("m");
    await here.settle();
    expect(conditionOf(here.readClaim("m"))).toMatchObject({ reason: "WaitingForTemplate" });
    expect(conditionOf(here.readMachine("m"), "Metal3DataReady")).toMatchObject({
      status: "False",
      reason: "WaitingForMetal3Data",
    });
    here.template("t", NO_NIC);
    await here.settle();
    expect(here.readData("t-0").status.ready).toBe(true);
    expect(conditionOf(here.readClaim("m"))).toBeUndefined();
  });

  test("reports an error of its data object, and is rendered once the cause is gone", async () => {
    here.start();
    here.template("t", TEMPLATE);
    here.host("m", { nics: [{ name: "eth9", mac: "02:00:00:00:00:09" }] });
    here.machine("m");
    await here.settle();
    const { status } = here.readData("t-0");
    expect(status.errorMessage).toContain("NIC name not found eth0");
    expect(status.ready).toBe(false);
    expect(here.reasonsOf("t-0")).toEqual(["RenderingFailed"]);
    here.change(PATHS.hosts, "m", (host) => {
      host.status = { hardware: { nics: [{ name: "eth0", mac: "02:00:00:00:00:09" }] } };
    });
    await here.settle();
    expect(here.readData("t-0").status).toMatchObject({ ready: true });
    expect(here.readData("t-0").status.errorMessage).toBeUndefined();
  });

  test("is left alone while it, its claim, its data or its template is paused", async () => {
    here.start();
    const paused = { annotations: { "cluster.x-k8s.io/paused": "" } };
    here.template("t", NO_NIC);
    here.host("m");
    here.machine("m", { annotations: { "cluster.x-k8s.io/paused": "true" } });
    here.claim("c", { metadata: paused });
    here.data("t-7", { index: 7, claim: "d", metadata: paused });
    await here.settle();
    expect(here.api.writes.filter(({ path }) => !path.includes("metal3datatemplates"))).toEqual([]);
    here.change(PATHS.templates, "t", (template) => {
      template.metadata.annotations = { "cluster.x-k8s.io/paused": "" };
    });
    here.change(PATHS.machines, "m", (machine) => {
      delete machine.metadata.annotations["cluster.x-k8s.io/paused"];
    });
    await here.settle();
    expect(here.readClaim("m").status?.renderedData).toBeUndefined();
    here.change(PATHS.templates, "t", (template) => {
      template.metadata.annotations = {};
    });
    await here.settle();
    expect(here.readClaim("m").status.renderedData.name).toBe("t-0");
  });
});

describe("Secrets", () => {
  test("that are deleted by hand are recreated in turn, at most five a second", async () => {
    here.start();
    here.template("t", TEMPLATE);
    for (let i = 0; i < 20; i++) {
      here.host(`m${i}`);
      here.machine(`m${i}`);
    }
    await here.settle();
    let creates = 0;
    here.api.before = ({ method, path }) => {
      if (method === "POST" && path.endsWith("/secrets")) creates += 1;
    };
    for (let i = 0; i < 20; i++) here.remove(PATHS.secrets, `m${i}-metadata`);
    const seconds = 30;
    await here.settle(seconds * 1_000);
    expect(creates).toBeLessThanOrEqual(seconds * 5);
    expect(Array.from({ length: 20 }, (_, i) => here.secret(`m${i}-metadata`, "metaData"))).not.toContain(undefined);
  });

  test("of another owner under the same name are not changed", async () => {
    here.start();
    const collection = "/api/v1/namespaces/shop/secrets";
    here.api.put(collection, {
      metadata: { name: "m-metadata", namespace: "shop" },
      data: { value: "b3du" },
    });
    here.template("t", NO_NIC);
    here.host("m");
    here.machine("m");
    await here.settle();
    expect(here.api.at(`${collection}/m-metadata`).data).toEqual({ value: "b3du" });
    expect(here.readData("t-0").status.ready).toBe(true);
  });

  test("of a former object that vanish later are recreated at once", async () => {
    here.start();
    here.template("t", NO_NIC);
    here.host("m");
    here.machine("m");
    await here.settle();
    // Many others, so that it would be long before its turn comes.
    for (let i = 0; i < 200; i++) {
      here.host(`n${i}`);
      here.machine(`n${i}`);
    }
    await here.settle();
    here.remove(PATHS.datas, "t-0");
    await here.settle(3_000);
    expect(here.readData("t-0").status.ready).toBe(true);
    here.remove(PATHS.secrets, "m-metadata");
    await here.settle(7_000);
    expect(here.secret("m-metadata", "metaData")).toContain("rack: r1");
  });

  test("are neither changed nor recreated when the template is edited, and new machines get the new text", async () => {
    here.start();
    here.template("t", NO_NIC);
    here.host("m");
    here.machine("m");
    await here.settle();
    here.change(PATHS.templates, "t", (template) => {
      template.spec = { metaData: { strings: [{ key: "rack", value: "r2" }] } };
    });
    here.host("n");
    here.machine("n");
    await here.settle();
    expect(here.secret("m-metadata", "metaData")).toContain("rack: r1");
    expect(here.secret("n-metadata", "metaData")).toContain("rack: r2");
    expect(here.reasonsOf("t")).toContain("TemplateEdited");
    here.remove(PATHS.secrets, "m-metadata");
    here.remove(PATHS.secrets, "n-metadata");
    await here.settle();
    expect(here.secret("m-metadata", "metaData")).toBeUndefined();
    expect(here.secret("n-metadata", "metaData")).toContain("rack: r2");
  });

  test("that are too large are refused with the size that one holds", async () => {
    here.start();
    const strings = Array.from({ length: 512 }, (_, i) => ({ key: `k${i}`, value: "x".repeat(512) }));
    const labels = Array.from({ length: 512 }, (_, i) => ({
      key: `l${i}`,
      object: "baremetalhost",
      annotation: "big",
    }));
    here.template("t", { metaData: { strings, fromAnnotations: labels } });
    here.host("m");
    here.change(PATHS.hosts, "m", (host) => {
      host.metadata.annotations = { big: "y".repeat(4_000) };
    });
    here.machine("m");
    await here.settle();
    expect(here.readData("t-0").status.errorMessage).toMatch(/metaData has more than the 1048576 bytes/);
    expect(here.secret("m-metadata", "metaData")).toBeUndefined();
  });
});

describe("pools", () => {
  test("are claimed once for each machine, and answered before anything is rendered", async () => {
    here.serveClaims();
    here.start();
    here.template("t", POOLED);
    here.host("m");
    here.machine("m", { labels: { "cluster.x-k8s.io/cluster-name": "c" } });
    await here.settle();
    expect(said("t-0")).toBe("WaitingForAddress: IPAddressClaim shop/t-0-p has no address yet");
    expect(here.addressClaim("t-0-p")).toMatchObject({
      metadata: {
        labels: { "cluster.x-k8s.io/cluster-name": "c" },
        ownerReferences: [{ ...ownerOf("Metal3Data", here.readData("t-0")), controller: true }],
      },
      // Metal3's own pools are not served: the AddressPool of the name is meant.
      spec: { poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "p" } },
    });
    here.answer("t-0-p", "10.0.0.9");
    await here.settle();
    expect(here.secret("m-metadata", "metaData")).toBe("address: 10.0.0.9\nproviderid: shop/m/m\n");
  });

  test("wait while another object has the claim's name", async () => {
    here.serveClaims();
    here.start();
    here.api.put(PATHS.addressClaims.replace("/ipaddressclaims", "/namespaces/shop/ipaddressclaims"), {
      apiVersion: "ipam.cluster.x-k8s.io/v1beta2",
      kind: "IPAddressClaim",
      metadata: {
        name: "t-0-p",
        namespace: "shop",
        ownerReferences: [{ apiVersion: "g/v1", kind: "Metal3Data", name: "t-0", uid: "former" }],
      },
      spec: { poolRef: { apiGroup: "g", kind: "K", name: "p" } },
      status: { addressRef: { name: "t-0-p" } },
    });
    here.template("t", POOLED);
    here.host("m");
    here.machine("m");
    await here.settle();
    expect(said("t-0")).toMatch(/^WaitingForAddress: .*belongs to another object/);
    here.remove(PATHS.addressClaims, "t-0-p");
    await here.settle();
    expect(said("t-0")).toBe("WaitingForAddress: IPAddressClaim shop/t-0-p has no address yet");
  });
});
