import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";

const directory = mkdtempSync(join(tmpdir(), "holdfast-kubeconfig-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

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
  const { headers } = await connection.authHeaders(0);
  expect(headers).toEqual({ Authorization: "Bearer secret", "Impersonate-User": "somebody" });
});

test("the token file that it names is read again after a 401, once for all who saw it", async () => {
  writeFileSync(join(directory, "token"), "old\n");
  const connection = loadKubeConfig(write({ server: "http://127.0.0.1:1" }, { tokenFile: "token" }));
  const { headers, generation } = await connection.authHeaders(0);
  expect(headers).toEqual({ Authorization: "Bearer old" });
  writeFileSync(join(directory, "token"), "new\n");
  expect((await connection.authHeaders(0)).headers).toEqual(headers);
  expect(await connection.renew(generation, 1_000)).toBe(true);
  const renewed = await connection.authHeaders(0);
  expect(renewed.headers).toEqual({ Authorization: "Bearer new" });
  expect(await connection.renew(generation, 1_000)).toBe(true);
  expect(await connection.renew(renewed.generation, 1_500)).toBe(false);
});

test("a name and password are sent as basic authentication", async () => {
  const file = write({ server: "https://127.0.0.1:1" }, { username: "me", password: "ä" });
  const { headers } = await loadKubeConfig(file).authHeaders(0);
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
  expect(() => serverOf([join(directory, "missing"), join(directory, "none")])).toThrow(
    "none of these files is there",
  );
});
