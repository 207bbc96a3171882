import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { loadKubeConfig } from "../../../kube/http/kube-config.ts";
import { ManualClock } from "../../harness/manual-clock.ts";

const directory = mkdtempSync(join(tmpdir(), "holdfast-kubeconfig-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const clock = new ManualClock();
let files = 0;

function write(cluster: object, user: object): string {
  files += 1;
  const path = join(directory, `${files}.kubeconfig`);
  const content = {
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  writeFileSync(path, JSON.stringify(content));
  return path;
}

test("address, certificates and token come from the file", async () => {
  writeFileSync(join(directory, "client.crt"), "CERT");
  const file = write(
    {
      server: "https://[fd00::1]:6443/k8s/",
      "certificate-authority-data": Buffer.from("CA").toString("base64"),
      "tls-server-name": "kubernetes",
    },
    { token: "secret", "client-certificate": "client.crt", as: "somebody" },
  );
  const connection = loadKubeConfig(file);
  expect(connection.server.href).toBe("https://[fd00::1]:6443/k8s");
  expect(connection.tls).toEqual({
    ca: Buffer.from("CA"),
    cert: Buffer.from("CERT"),
    servername: "kubernetes",
  });
  const { headers } = await connection.authHeaders(clock);
  expect(headers).toEqual({ Authorization: "Bearer secret", "Impersonate-User": "somebody" });
});

test("the token file that it names is read again after a 401, once for all who saw it", async () => {
  writeFileSync(join(directory, "token"), "old\n");
  const connection = loadKubeConfig(write({ server: "http://127.0.0.1:1" }, { tokenFile: "token" }));
  const { headers, generation } = await connection.authHeaders(clock);
  expect(headers).toEqual({ Authorization: "Bearer old" });
  writeFileSync(join(directory, "token"), "new\n");
  expect((await connection.authHeaders(clock)).headers).toEqual(headers);
  expect(await connection.renew(generation, 1_000)).toBe(true);
  const renewed = await connection.authHeaders(clock);
  expect(renewed.headers).toEqual({ Authorization: "Bearer new" });
  expect(await connection.renew(generation, 1_000)).toBe(true);
  expect(await connection.renew(renewed.generation, 1_500)).toBe(false);
});

test("a name and password are sent as basic authentication", async () => {
  const file = write({ server: "https://127.0.0.1:1" }, { username: "me", password: "ä" });
  const { headers } = await loadKubeConfig(file).authHeaders(clock);
  expect(headers).toEqual({ Authorization: `Basic ${Buffer.from("me:ä").toString("base64")}` });
});

test("a file that cannot be used is refused with its name and what to do", () => {
  const notYaml = join(directory, "broken.kubeconfig");
  writeFileSync(notYaml, "clusters: [");
  const empty = join(directory, "empty.kubeconfig");
  writeFileSync(empty, "{}");
  const blank = join(directory, "blank.kubeconfig");
  writeFileSync(blank, "");
  const cases = [
    notYaml,
    empty,
    blank,
    join(directory, "missing.kubeconfig"),
    write({ server: "unix:///nowhere" }, {}),
    write({ server: "https://127.0.0.1:1", "certificate-authority": "missing.crt" }, {}),
    write({ server: "https://127.0.0.1:1", "proxy-url": "http://127.0.0.1:2" }, {}),
  ];
  for (const file of cases) {
    expect(() => loadKubeConfig(file), file).toThrow(file);
    expect(() => loadKubeConfig(file), file).toThrow("kubectl config view");
  }
});

test("without a file and outside a pod the error names the missing setting", () => {
  expect(() => loadKubeConfig(null)).toThrow(/kubeconfig/);
});

test("of several files the first that has an entry counts, missing ones count for nothing, and a context is chosen by name", () => {
  const [one, two] = ["https://one:1", "https://two:2"].map((server, at) => {
    const path = join(directory, `several-${at}`);
    const name = at === 0 ? "first" : "second";
    const content = {
      clusters: [
        { name, cluster: { server } },
        { name: "both", cluster: { server } },
      ],
      users: [{ name, user: { token: name } }],
      contexts: [
        { name, context: { cluster: name, user: name } },
        { name: "shared", context: { cluster: "both", user: name } },
      ],
      "current-context": name,
    };
    writeFileSync(path, JSON.stringify(content));
    return path;
  }) as [string, string];
  const serverOf = (files: string[], context?: string) => loadKubeConfig({ files, context }).server.host;
  expect(serverOf([join(directory, "missing"), one, two])).toBe("one:1");
  expect(serverOf([one, two], "second")).toBe("two:2");
  expect(serverOf([two, one], "shared")).toBe("two:2");
  expect(() => serverOf([one, two], "third")).toThrow("it has no context third, but first, shared, second");
  expect(() => serverOf([join(directory, "missing"), join(directory, "none")])).toThrow("none of these files is there");
});

describe("no message shows a secret of the file", () => {
  const SECRET = "not-for-the-log";
  const HEAD = `clusters: [{ name: c, cluster: { server: "https://127.0.0.1:1" } }]
contexts: [{ name: x, context: { cluster: c, user: u } }]
current-context: x
users:
- name: u
  user:
`;
  const plugin = (script: string) => `${HEAD}    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: sh
      args: ["-c", "${script}"]
      interactiveMode: Never
`;
  const FILES: readonly [what: string, text: string][] = [
    ["a line that is indented wrongly", `${HEAD}    token: ${SECRET}\n     x: y\n`],
    ["the line before one that is broken", `${HEAD}    token: ${SECRET}\n    x: [\n`],
    ["a string that does not end", `${HEAD}    token: "${SECRET}\n`],
    ["an unknown tag", `${HEAD}    token: !${SECRET} ${SECRET}\n`],
    ["an alias of nothing", `${HEAD}    token: *${SECRET}\n`],
    ["a key that is there twice", `${HEAD}    token: ${SECRET}\n    token: ${SECRET}\n`],
    ["two documents", `${HEAD}    token: ${SECRET}\n---\ntoken: ${SECRET}\n`],
    ["the token alone", SECRET],
    ["a token that is a list", `${HEAD}    token: [${SECRET}]\n    tokenFile: [${SECRET}]\n`],
    ["a token that no header may have", `${HEAD}    token: "${SECRET}\\n\\u0001${SECRET}"\n`],
    [
      "a server with a password, of another scheme",
      `${HEAD.replace("https://", `ftp://admin:${SECRET}@`)}    token: ${SECRET}\n`,
    ],
    [
      "a server with a password, that is no URL",
      `${HEAD.replace("https://", `admin:${SECRET}@ `)}    token: ${SECRET}\n`,
    ],
    ["a plug-in that prints its token", plugin(`echo ${SECRET}`)],
    ["a plug-in that prints half of an object", plugin(`echo '{ status: { token: ${SECRET}'`)],
    ["a plug-in that fails with its arguments", plugin(`: ${SECRET}; exit 3`)],
  ];
  test.each(FILES)("%s", async (_, text) => {
    const path = join(directory, `broken-${files++}.kubeconfig`);
    writeFileSync(path, text);
    const said: string[] = [];
    const warn = (warning: Error) => said.push(`${warning.stack}`);
    process.on("warning", warn);
    try {
      said.push(loadKubeConfig({ files: [path] }).server.origin);
      await loadKubeConfig(path).authHeaders(clock);
    } catch (error) {
      const { message, stack, cause } = error as Error;
      said.push(message, `${stack}`, `${(cause as Error | undefined)?.message}`);
    }
    // Warnings come later.
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", warn);
    expect(said.join("\n")).not.toContain(SECRET);
  });

  test("but the line that is wrong", () => {
    const path = join(directory, `broken-${files++}.kubeconfig`);
    writeFileSync(path, `${HEAD}    token: ${SECRET}\n     x: y\n`);
    expect(() => loadKubeConfig(path)).toThrow(`kubeconfig ${path} cannot be used: line 8 is not valid YAML`);
    writeFileSync(path, HEAD.replace("{ name: c, cluster", "{ cluster"));
    expect(() => loadKubeConfig(path)).toThrow(`kubeconfig ${path} cannot be used: clusters[0].name is missing`);
    expect(() => loadKubeConfig(join(directory, "none"))).toThrow(/ENOENT.*none/);
  });
});

test("a process stays with the context and the server that it began with", async () => {
  const path = join(directory, "contexts.kubeconfig");
  const write = (current: string, token: string, server = "http://127.0.0.1:1", names = ["a", "b"]) =>
    writeFileSync(
      path,
      JSON.stringify({
        clusters: names.map((name) => ({
          name,
          cluster: { server: name === "a" ? server : "http://127.0.0.1:2" },
        })),
        users: names.map((name) => ({ name, user: { token: `${token}-of-${name}` } })),
        contexts: names.map((name) => ({ name, context: { cluster: name, user: name } })),
        "current-context": current,
      }),
    );
  write("a", "first");
  const connection = loadKubeConfig(path);
  const { headers, generation } = await connection.authHeaders(clock);
  expect(headers).toEqual({ Authorization: "Bearer first-of-a" });
  write("b", "second");
  expect(await connection.renew(generation, 10_000)).toBe(true);
  const renewed = await connection.authHeaders(clock);
  expect(renewed.headers).toEqual({ Authorization: "Bearer second-of-a" });
  write("a", "third", "http://127.0.0.1:3");
  await expect(connection.renew(renewed.generation, 20_000)).rejects.toThrow(/its context a is another one now/);
  write("b", "fourth", "http://127.0.0.1:1", ["b"]);
  await expect(connection.renew(renewed.generation, 30_000)).rejects.toThrow(
    /it has no cluster for its current context a/,
  );
});
