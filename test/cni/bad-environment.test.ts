import { describe, expect } from "vitest";
import { errorOf, expectDone, expectServing, held, network, tableTest as test } from "./fixtures.ts";
import { T } from "./wire.ts";

/** What is wrong with the environment is answered with code 4 and the variable's name; the network is not touched. */

describe("the plugin binary refuses with code 4", () => {
  const FAULTY: [string, Record<string, string>, string][] = [
    ["no CNI_COMMAND", { CNI_COMMAND: "" }, "required env variables [CNI_COMMAND] missing"],
    ["an unknown CNI_COMMAND", { CNI_COMMAND: "NOPE" }, "unknown CNI_COMMAND: NOPE"],
    ["a CNI_COMMAND in lower case", { CNI_COMMAND: "add" }, "unknown CNI_COMMAND: add"],
    ["no CNI_CONTAINERID", { CNI_CONTAINERID: "" }, "required env variables [CNI_CONTAINERID] missing"],
    [
      "nothing but the command",
      { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_PATH: "" },
      "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing",
    ],
    ["a container ID with a slash", { CNI_CONTAINERID: "../c1" }, "invalid characters in containerID"],
    ["a container ID with white space", { CNI_CONTAINERID: "c 1" }, "invalid characters in containerID"],
    ["an interface name of 16 characters", { CNI_IFNAME: "eth0123456789abc" }, "interface name is too long"],
    [
      "an interface name with a slash",
      { CNI_IFNAME: "eth/0" },
      "interface name contains / or : or whitespace characters",
    ],
    ["an interface called ..", { CNI_IFNAME: ".." }, "interface name is . or .."],
  ];
  test.for(FAULTY)("%s", async ([, env, message], { daemon }) => {
    const error = errorOf(await daemon.cni("ADD", "c1", { config: network("bad"), env }));
    expect(error).toMatchObject({ code: 4, msg: message });
    expect(await held(daemon, "bad")).toEqual([]);
    await expectServing(daemon);
  });
});

describe("CNI_ARGS", () => {
  const FAULTY: [string, string, string][] = [
    ["an unknown key", "COLOUR=blue", "CNI_ARGS: unknown keys COLOUR"],
    ["several unknown keys, all of them named", "A=1;IP=10.10.0.5;B=2", "CNI_ARGS: unknown keys A, B"],
    ["an unknown key, IgnoreUnknown off", "IgnoreUnknown=0;COLOUR=blue", "CNI_ARGS: unknown keys COLOUR"],
    ["a key in another case", "ip=10.10.0.5", "CNI_ARGS: unknown keys ip"],
    ["no =", "IP", 'CNI_ARGS: "IP" is not of the form KEY=VALUE'],
    ["no key", "=10.10.0.5", 'CNI_ARGS: "=10.10.0.5" is not of the form KEY=VALUE'],
    ["commas instead of semicolons", "IgnoreUnknown=1,IP=10.10.0.5", 'CNI_ARGS: IgnoreUnknown is "1,IP=10.10.0.5"'],
  ];
  test.for(FAULTY)("are refused with 4: %s", async ([, args, message], { daemon }) => {
    const error = errorOf(await daemon.cni("ADD", "c1", { config: network("bad"), args }));
    expect(error).toMatchObject({ code: 4, msg: expect.stringContaining(message) });
    expect(await held(daemon, "bad")).toEqual([]);
    await expectServing(daemon);
  });

  test.for([
    ["nothing", ""],
    ["semicolons too many", ";;IgnoreUnknown=1;;"],
    ["unknown keys, to be ignored", "COLOUR=blue;IgnoreUnknown=true"],
    ["a value with = in it", "IgnoreUnknown=1;LABEL=a=b"],
    ["keys without a value", "IP=;K8S_POD_UID=;IPAM_CLAIM="],
    [
      "what kubelet's runtime passes",
      "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u1",
    ],
  ])("are accepted: %s", async ([reason, args], { daemon }) => {
    const config = network(`taken-${(reason as string).replaceAll(/\W+/g, "-")}`);
    expect(await daemon.cni("ADD", "c1", { config, args: args as string })).toMatchObject({ code: 0 });
    expectDone(await daemon.cni("DEL", "c1", { config, args: args as string }));
  });
});

describe("requests that the plugin binary would not send are refused with code 4", () => {
  // Somebody else writes to the socket, or a plugin binary of another version does.
  const FAULTY: [string, unknown, string][] = [
    ["null", null, "the body of POST /cni is not an object"],
    ["a list", [], "command of POST /cni is not a string"],
    ["an empty object", {}, "command of POST /cni is not a string"],
    ["an unknown command", { command: "NOPE" }, "unknown CNI_COMMAND: NOPE"],
    ["VERSION, which the binary answers alone", { command: "VERSION" }, "unknown CNI_COMMAND: VERSION"],
    ["a container ID that is a number", { containerId: 7 }, "containerId of POST /cni is not a string"],
    ["a container ID with a slash", { containerId: "a/b" }, "invalid characters in containerID"],
    ["no container ID", { containerId: "" }, "invalid characters in containerID"],
    ["no interface", { ifname: "" }, "required env variables [CNI_IFNAME] missing"],
    ["an instant that is a text", { bootUs: "1" }, "bootUs of POST /cni is not a whole number"],
    ["an instant below zero", { bootUs: -1 }, "bootUs of POST /cni is not a whole number"],
    ["an instant beyond exact numbers", { bootUs: 2 ** 60 }, "bootUs of POST /cni is not a whole number"],
    ["no boot ID", { bootId: null }, "bootId of POST /cni is not a string"],
    ["a configuration that is an object", { config: {} }, "config of POST /cni is not a string"],
  ];
  const WHOLE = {
    command: "ADD",
    containerId: "c1",
    netns: "",
    netnsId: "",
    ifname: "eth0",
    args: "",
    bootId: "",
    bootUs: T,
    config: "{}",
  };
  test.for(FAULTY)("%s", async ([, fields, message], { daemon }) => {
    const whole = typeof fields === "object" && fields !== null && Object.keys(fields).length > 0;
    const answer = await daemon.post("/cni", whole ? { ...WHOLE, ...fields } : fields);
    expect(answer).toMatchObject({ status: 422 });
    expect(answer.json()).toMatchObject({ cniVersion: "1.1.0", code: 4, msg: message });
    await expectServing(daemon);
  });
});
