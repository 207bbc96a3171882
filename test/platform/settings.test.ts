import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { loadControllerSettings } from "../../controller/settings.ts";
import { loadDaemonSettings } from "../../daemon/settings.ts";
import { loadNetSettings } from "../../guests/settings.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { PROCESSES, type Process } from "../../platform/settings/processes.ts";
import { type Setting, variableOf } from "../../platform/settings/setting.ts";

const LOADERS = [
  ["daemon", loadDaemonSettings],
  ["controller", loadControllerSettings],
  ["metadata", loadMetadataSettings],
  ["metadata-net", loadNetSettings],
] as const;

const directory = mkdtempSync(join(tmpdir(), "holdfast-settings-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Something that the setting of this kind is never refused for. */
function example(setting: Setting): string {
  if (setting.type === "number") return String(setting.max);
  if (setting.type === "choice") return setting.values[0] as string;
  if (setting.type === "address") return "127.0.0.1:80";
  return setting.type === "group" ? "0" : "/tmp/x";
}

/** A value of every setting of all processes, as the environment gives it. */
const EVERYTHING: Readonly<Record<string, string>> = Object.fromEntries(
  Object.values<Process>(PROCESSES).flatMap(({ settings }) =>
    Object.entries(settings).map(([name, setting]) => [variableOf(name), example(setting)]),
  ),
);

describe.each(LOADERS)("%s", (name, load) => {
  const { settings }: Process = PROCESSES[name];

  test("it starts without any setting, and reads every variable of its own", () => {
    expect(() => load({}, {})).not.toThrow();
    const own = Object.entries(settings)
      .filter(([key]) => !["novaUrl", "haproxyUser", "haproxyGroup"].includes(key))
      .map(([key, setting]) => [variableOf(key), example(setting)]);
    expect(() => load({}, Object.fromEntries(own))).not.toThrow();
  });

  test("variables of other processes are ignored, whatever their value", () => {
    const others = Object.keys(EVERYTHING).filter(
      (variable) => !Object.keys(settings).map(variableOf).includes(variable),
    );
    const nonsense = Object.fromEntries(others.map((variable) => [variable, "\u0000"]));
    const { identity: _random, ...before } = load({}, {}) as { identity?: unknown };
    expect(load({}, { ...nonsense, ...(name === "daemon" ? {} : { HOLDFAST_CONFIG: "/nonexistent" }) })).toMatchObject(
      before,
    );
  });

  test("a variable that no process knows is refused, and this process's variables are listed", () => {
    expect(() => load({}, { HOLDFAST_LOGLEVEL: "debug" })).toThrow(
      `environment: unknown setting HOLDFAST_LOGLEVEL; known are ${Object.keys(settings).map(variableOf).join(", ")}`,
    );
    for (const [variable, value] of Object.entries(EVERYTHING))
      expect(() => load({}, { [`${variable}X`]: value }), variable).toThrow(`unknown setting ${variable}X`);
  });

  test("variables of tests, of the plugin and of Kubernetes are ignored", () => {
    const env = {
      HOLDFAST_SHIM_CONF: "/etc/shim.conf",
      HOLDFAST_KILL_POINT: "x",
      HOLDFAST_TEST_SEED: "1",
      HOLDFAST_SERVICE_HOST: "10.0.0.1",
      HOLDFAST_CONTROLLER_PORT_9808_TCP_ADDR: "10.0.0.1",
    };
    expect(() => load({}, env)).not.toThrow();
  });

  test("an unknown flag is refused, and the known flags are listed", () => {
    expect(() => load({ nonsense: "1" }, {})).toThrow(
      `command line: unknown setting nonsense; known are ${Object.keys(settings).join(", ")}`,
    );
  });

  test.each(["nowhere", "127.0.0.1:70000"])(
    "a wrong metricsAddress %s is refused with where it was given and what is expected",
    (address) => {
      const expected = `metricsAddress is "${address}": expected host:port, with a port up to 65535, or off`;
      expect(() => load({ metricsAddress: address }, {})).toThrow(`command line: ${expected}`);
      expect(() => load({}, { HOLDFAST_METRICS_ADDRESS: address })).toThrow(`environment: ${expected}`);
    },
  );

  test('metricsAddress is an address or "off", and a flag wins over a variable', () => {
    const env = { HOLDFAST_METRICS_ADDRESS: "off" };
    expect(load({}, env).metricsAddress).toBeNull();
    expect(load({ metricsAddress: "[::1]:65535" }, env).metricsAddress).toEqual({
      host: "::1",
      port: 65_535,
    });
  });

  test("an unknown log level is refused", () => {
    expect(() => load({ logLevel: "loud" }, {})).toThrow(
      'command line: logLevel is "loud": expected debug, info, warn, error or silent',
    );
  });
});

describe("the cluster", () => {
  const POD = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };

  test("in-cluster selects the pod's own cluster in every process that takes a kubeconfig", () => {
    const flags = { kubeconfig: "in-cluster" };
    expect(loadDaemonSettings(flags, {}).kubernetes).toEqual({ kubeconfig: null });
    expect(loadMetadataSettings(flags, {}).kubernetes).toEqual({ kubeconfig: null });
    expect(loadControllerSettings(flags, {}).kubeconfig).toBeNull();
  });

  test("without a kubeconfig, a node's processes use the cluster of their pod, or none outside a pod", () => {
    for (const load of [loadDaemonSettings, loadMetadataSettings]) {
      expect(load({}, POD).kubernetes).toEqual({ kubeconfig: null });
      expect(load({}, {}).kubernetes).toBeNull();
      expect(load({ kubeconfig: "/k" }, POD).kubernetes).toEqual({ kubeconfig: "/k" });
    }
  });
});

describe("the daemon's file", () => {
  const written = (text: string) => {
    const config = join(directory, "daemon.yaml");
    writeFileSync(config, text);
    return config;
  };

  test("flags win over variables, which win over the file", () => {
    const config = written("node: file\nspool: /file\nstate: /file\n");
    const settings = loadDaemonSettings(
      { config, node: "flag" },
      { HOLDFAST_NODE: "variable", HOLDFAST_SPOOL: "/variable" },
    );
    expect(settings).toMatchObject({ node: "flag", spool: "/variable", state: "/file" });
  });

  test("HOLDFAST_CONFIG names the file, and --config wins over it", () => {
    const config = written("node: named\n");
    expect(loadDaemonSettings({}, { HOLDFAST_CONFIG: config }).node).toBe("named");
    expect(loadDaemonSettings({ config }, { HOLDFAST_CONFIG: "/nonexistent" }).node).toBe("named");
    expect(() => loadDaemonSettings({}, { HOLDFAST_CONFIG: "/nonexistent" })).toThrow(
      "/nonexistent cannot be read: ENOENT",
    );
  });

  test.each([
    ["addDeadlineMs: soon", 'addDeadlineMs is "soon": expected a whole number from 100 to 50000'],
    ["witnessGraceSeconds: 0", "witnessGraceSeconds is 0: expected a whole number from 1 to 86400"],
    ["node:", "node is null: expected a string that is not empty"],
    ["node: 5", "node is 5: expected a string that is not empty"],
    ["hostLocalDirs: [a]", 'hostLocalDirs is ["a"]: expected absolute paths, with commas between them'],
    ["metadata: true", "metadata is true: expected on or off"],
    ["colour: blue", "unknown setting colour; known are state, socket, "],
    ["config: /other", "unknown setting config"],
    ["- a", 'expected a mapping of settings, such as "logLevel: debug"'],
    ["a: [", "cannot be read: "],
  ])("%s is refused, and the file is named", (text, says) => {
    const config = written(text);
    expect(() => loadDaemonSettings({ config }, {})).toThrow(says);
    expect(() => loadDaemonSettings({ config }, {})).toThrow(config);
  });

  test("a list is a list in the file, and separated by commas elsewhere", () => {
    const paths = ["/etc/a", "/etc/b"];
    const config = written(`resolvConfPaths: ["${paths.join('", "')}"]\n`);
    expect(loadDaemonSettings({ config }, {}).resolvConfPaths).toEqual(paths);
    expect(loadDaemonSettings({ resolvConfPaths: "/etc/a, /etc/b" }, {}).resolvConfPaths).toEqual(paths);
  });

  test("a socket group is a name or a number, an unknown group is refused, and without one only the daemon's user has access", () => {
    expect(loadDaemonSettings({ config: written("identityGroup: 65532\n") }, {}).identityGroup).toBe(65_532);
    expect(loadDaemonSettings({ identityGroup: "root" }, {}).identityGroup).toBe(0);
    expect(loadDaemonSettings({ identityGroup: "" }, {}).identityGroup).toBeNull();
    expect(() => loadDaemonSettings({}, { HOLDFAST_IDENTITY_GROUP: "no-such-group" })).toThrow(
      'environment: identityGroup is "no-such-group": there is no such group in /etc/group; add it',
    );
  });

  test("the identity socket is beside the daemon's socket, elsewhere, or off", () => {
    const socketOf = (flags: object) => loadDaemonSettings({ socket: "/run/x/h.sock", ...flags }, {}).identitySocket;
    expect(socketOf({})).toBe("/run/x/identity.sock");
    expect(socketOf({ identitySocket: "/i.sock" })).toBe("/i.sock");
    for (const identitySocket of ["off", ""]) expect(socketOf({ identitySocket })).toBeNull();
  });
});
