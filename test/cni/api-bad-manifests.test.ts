import { describe, expect } from "vitest";
import { expectSound, network, processTest, restart, tableTest as test } from "./fixtures.ts";
import { claim, nad } from "./manifests.ts";

/** `POST /v1/apply` answers for each object by itself: what is wrong with it by key and value, the others go on. */

describe("a manifest is refused", () => {
  const OBJECTS: [string, unknown, string, string][] = [
    ["null", null, "REQUEST_INVALID", "object is null"],
    ["a text", "vm1", "REQUEST_INVALID", 'object is "vm1"'],
    ["a list", [], "REQUEST_INVALID", "object is []"],
    ["nothing", {}, "REQUEST_INVALID", "apiVersion, kind is "],
    ["another kind", { apiVersion: "v1", kind: "Pod", metadata: { name: "web-0" } }, "REQUEST_INVALID", "v1 Pod"],
    [
      "another version",
      { ...claim("vm1"), apiVersion: "k8s.cni.cncf.io/v2" },
      "REQUEST_INVALID",
      "k8s.cni.cncf.io/v2 IPAMClaim",
    ],
    ["no metadata", { ...claim("vm1"), metadata: undefined }, "REQUEST_INVALID", "metadata is absent"],
    ["no name", claim("vm1", {}, { metadata: {} }), "REQUEST_INVALID", "metadata.name is absent"],
    ["a name that no object can have", claim("VM_1"), "REQUEST_INVALID", 'metadata.name is "VM_1"'],
    ["a name that is a number", claim("vm1", {}, { metadata: { name: 7 } }), "REQUEST_INVALID", "metadata.name is 7"],
    [
      "a namespace that no object can have",
      claim("vm1", {}, { metadata: { name: "vm1", namespace: "../x" } }),
      "REQUEST_INVALID",
      'metadata.namespace is "../x"',
    ],
    [
      "owners that are nothing",
      claim("vm1", {}, { metadata: { name: "vm1", ownerReferences: [null] } }),
      "REQUEST_INVALID",
      "metadata.ownerReferences is [null]",
    ],
    [
      "owners that are no list",
      claim("vm1", {}, { metadata: { name: "vm1", ownerReferences: "tower" } }),
      "REQUEST_INVALID",
      'metadata.ownerReferences is "tower"',
    ],
    ["no spec", { ...claim("vm1"), spec: undefined }, "REQUEST_INVALID", "spec is absent"],
    ["no network", claim("vm1", { network: undefined }), "REQUEST_INVALID", "spec.network is absent"],
    ["a network that is a number", claim("vm1", { network: 7 }), "REQUEST_INVALID", "spec.network is 7"],
    ["a name that no network has", claim("vm1", { network: "b/l ue" }), "REQUEST_INVALID", 'spec.network is "b/l ue"'],
    ["an interface that is a number", claim("vm1", { interface: 7 }), "REQUEST_INVALID", "spec.interface is 7"],
    ["an unknown key", claim("vm1", { colour: "blue" }), "REQUEST_INVALID", 'spec.colour is "blue"'],
    ["a status that is a text", claim("vm1", {}, { status: "fine" }), "REQUEST_INVALID", 'status is "fine"'],
    ["a definition without config", { ...nad("n", {}), spec: {} }, "REQUEST_INVALID", "spec.config is absent"],
    [
      "a definition that is an object",
      { ...nad("n", {}), spec: { config: network("blue") } },
      "REQUEST_INVALID",
      "spec.config is {",
    ],
    [
      "a definition that is no JSON",
      { ...nad("n", {}), spec: { config: "{" } },
      "CONFIG_UNREADABLE",
      "cannot be read as JSON",
    ],
    [
      "a definition of another plugin",
      nad("n", network("blue", { type: "whereabouts" })),
      "CONFIG_INVALID",
      "ipam.type",
    ],
    [
      "a definition with a fault",
      nad("n", network("blue", { gateway: "10.10.0.0" })),
      "CONFIG_INVALID",
      'ipam.gateway is "10.10.0.0"',
    ],
    [
      "a definition without ranges",
      nad("n", { ...network("blue"), ipam: { type: "holdfast-ipam" } }),
      "NETWORK_UNDEFINED",
      "network blue has no ranges",
    ],
    [
      "a list without a plugin of ours",
      nad("n", { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "tuning" }] }),
      "CONFIG_INVALID",
      "plugins",
    ],
  ];
  test.for(OBJECTS)("%s", async ([, object, code, message], { daemon }) => {
    const answer = await daemon.post("/v1/apply", { objects: [object] });
    expect(answer.status).toBe(200);
    const [result] = answer.json().results;
    expect(result.error, JSON.stringify(result)).toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
    expect((await daemon.get("/v1/claims")).json()).toEqual({ items: [] });
    await expectSound(daemon);
  });

  test.for([
    ["__proto__", "objects[1].metadata.__proto__"],
    ["\\u005f_proto__", "objects[1].metadata.__proto__"],
    ["constructor", "objects[1].metadata.constructor.prototype"],
  ])("for a key %s, which would alter objects in JavaScript, by its path", async ([name, path], { daemon }) => {
    const body = `{"objects":[${JSON.stringify(claim("vm1"))},{"metadata":{"${name}":{"prototype":{"polluted":1}}}}]}`;
    const answer = await daemon.post("/v1/apply", body);
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({
      code: "REQUEST_INVALID",
      message: `${path} is refused: no object has a key of that name, which would alter objects in JavaScript: remove it`,
    });
    expect((await daemon.get("/v1/claims")).json()).toEqual({ items: [] });
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  test("of two definitions of one network that differ the older counts, and both are named", async ({ daemon }) => {
    const objects = [
      nad("one", network("two-of")),
      nad("two", network("two-of", { subnets: "192.0.2.0/24" })),
      nad("same", network("two-of")),
    ];
    const { results } = (await daemon.post("/v1/apply", { objects })).json();
    expect(results).toMatchObject([
      { action: "created" },
      {
        error: {
          code: "DEFINITION_CONFLICT",
          message: "default/two defines network two-of differently from default/one, which counts",
        },
      },
      { action: "created" },
    ]);
  });

  processTest("a definition without a name has its object's, which a refusal says", async ({ daemon }) => {
    const bare = { ...network("macvlan-conf"), ipam: { type: "holdfast-ipam" } };
    const unnamed = { ...network("blue"), name: undefined };
    const other = nad("macvlan-conf", { ...network("blue", { subnets: "192.0.2.0/24" }), name: undefined });
    const elsewhere = { ...other, metadata: { name: "macvlan-conf", namespace: "second" } };
    const objects = [nad("macvlan-conf", unnamed), elsewhere];
    const { results } = (await daemon.post("/v1/apply", { objects })).json();
    const origin = " (its spec.config has no name, so its network has the object's name)";
    expect(results).toMatchObject([
      { action: "created" },
      {
        error: {
          message: `second/macvlan-conf${origin} defines network macvlan-conf differently from default/macvlan-conf${origin}, which counts`,
        },
      },
    ]);
    expect((await daemon.cni("ADD", "c1", { config: bare })).code).toBe(0);
    await restart(daemon, "SIGKILL");
    expect((await daemon.cni("ADD", "c2", { config: bare })).code).toBe(0);
  });

  test("deleting an object that does not exist is an error", async ({ daemon }) => {
    const objects = [claim("ghost"), nad("ghost", network("blue")), { kind: "Pod" }, null];
    const { results } = (await daemon.post("/v1/delete", { objects })).json();
    expect(results.map((one: { error: { code: string } }) => one.error.code)).toEqual([
      "NOT_FOUND",
      "NOT_FOUND",
      "REQUEST_INVALID",
      "REQUEST_INVALID",
    ]);
  });
});
