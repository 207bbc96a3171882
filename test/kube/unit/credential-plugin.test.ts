/**
 * A credential plug-in that does what it should not. See test/kube/credentials.test.ts for one that does what it
 * should.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { runPlugin } from "../../../kube/http/exec-plugin.ts";
import { loadKubeConfig } from "../../../kube/http/kube-config.ts";
import { systemClock } from "../../../platform/time.ts";
import { kubeconfigWith } from "../../harness/credentials/seen.ts";
import { ManualClock } from "../../harness/manual-clock.ts";
import { until } from "../../harness/wait.ts";

const SECRET = "not-for-the-log";
const V1 = "client.authentication.k8s.io/v1";
const directory = mkdtempSync(join(tmpdir(), "holdfast-plugin-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let count = 0;

/** A script, and a kubeconfig beside it that names it. */
function scripted(script: string, more: object = {}): { readonly file: string; readonly command: string } {
  count += 1;
  const command = join(directory, `plugin-${count}`);
  writeFileSync(command, `#!/bin/sh\n${script}\n`);
  chmodSync(command, 0o700);
  const exec = {
    apiVersion: V1,
    command,
    args: ["--password", SECRET],
    env: null,
    interactiveMode: "Never",
    ...more,
  };
  const path = join(directory, `${count}.kubeconfig`);
  return { command, file: kubeconfigWith({ exec }, { path, server: "https://127.0.0.1:1", ca: "" }) };
}

const credential = (status: object | null, apiVersion = V1) =>
  `printf '%s\\n' '${JSON.stringify({ apiVersion, kind: "ExecCredential", ...(status ? { status } : {}) })}'`;

const CASES: readonly [what: string, script: string, says: RegExp, more?: object][] = [
  ["fails", `echo "token ${SECRET}" >&2; echo ${SECRET}; exit 7`, /ended with exit code 7; run it yourself to see why/],
  ["is killed", "kill -9 $$", /was ended by SIGKILL; run it/],
  ["prints nothing", "true", /printed no JSON; run it/],
  ["prints text", `echo ${SECRET}`, /printed no JSON; run it/],
  ["prints half of an object", `echo '{"status":{"token":"${SECRET}"'`, /printed no JSON; run it/],
  ["prints null", "echo null", /printed no ExecCredential; run it/],
  ["prints another object", `echo '{"kind":"Secret","token":"${SECRET}"}'`, /printed no ExecCredential; run it/],
  ["prints no status", credential(null), /printed no status.token; run it/],
  ["prints no token", credential({ password: SECRET }), /printed no status.token; run it/],
  ["prints a token that is no text", credential({ token: [SECRET] }), /printed no status.token; run it/],
  [
    "prints an older version",
    credential({ token: SECRET }, "client.authentication.k8s.io/v1beta1"),
    /another apiVersion than the client.authentication.k8s.io\/v1 of the kubeconfig; correct users\[\].user.exec.apiVersion/,
  ],
  [
    "prints a token that has ended",
    credential({ token: SECRET, expirationTimestamp: "2020-01-02T03:04:05Z" }),
    /printed a token that ended at 2020-01-02T03:04:05Z; log in again, or set this machine's clock/,
  ],
  [
    "prints no time",
    credential({ token: SECRET, expirationTimestamp: SECRET }),
    /printed a status.expirationTimestamp that is no time; correct the plug-in/,
  ],
  [
    "prints a client certificate",
    credential({ clientCertificateData: "PEM", clientKeyData: SECRET }),
    /printed a client certificate, which is not supported; let it print a token/,
  ],
  [
    "prints a token of two lines",
    credential({ token: `${SECRET}\n${SECRET}` }),
    /printed a status.token that fits into no header/,
  ],
  ["prints for ever", `exec yes ${SECRET}`, /printed more than 262144 bytes; run it/],
  [
    "wants a terminal",
    credential({ token: SECRET }),
    /wants a terminal .*; use IfAvailable or Never/,
    { interactiveMode: "Always" },
  ],
  ["gets an argument that is none", "", /cannot be started: ERR_INVALID_ARG_VALUE/, { args: [`${SECRET}\0`] }],
  ["gets no list of variables", "", /cannot be started: not valid; /, { env: { password: SECRET } }],
  [
    "is not there",
    "",
    /cannot be started: ENOENT; install it, or correct users\[\].user.exec of the kubeconfig/,
    { command: "/none" },
  ],
];

describe("the error names the command, what went wrong and the remedy, and nothing that was said to it or by it", () => {
  test.each(CASES)("a plug-in that %s", async (_, script, says, more = {}) => {
    const { file, command } = scripted(script, more);
    const error: Error = await Promise.resolve(loadKubeConfig(file).authHeaders(systemClock)).then(
      (given) => expect.fail(JSON.stringify(given)),
      (reason) => reason,
    );
    expect(error.message).toContain(`the credential plug-in ${"command" in more ? more.command : command} `);
    expect(error.message).toMatch(says);
    expect(`${error.message} ${error.stack} ${error.cause}`).not.toContain(SECRET);
  });
});

test("one that hangs is killed after its time, with what it started", async () => {
  const child = join(directory, "child");
  const { command } = scripted(`sleep 600 & echo $! > ${child}; wait`);
  const run = runPlugin({ apiVersion: V1, command }, null, systemClock, 2_000);
  await expect(run).rejects.toThrow(`the credential plug-in ${command} gave no answer for 2 s and was killed; run it`);
  const pid = readFileSync(child, "utf8").trim();
  // Whoever inherits it may take its time to bury it.
  const isAlive = () => existsSync(`/proc/${pid}`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  await until(() => !isAlive(), "the end of its child");
});

test("what it leaves behind with its output open does not keep its answer from being read", async () => {
  const { command } = scripted(`${credential({ token: "t\n" })}; sleep 15 & exit 0`);
  const token = await runPlugin({ apiVersion: V1, command }, null, systemClock, 10_000);
  expect(token).toEqual({ value: "t", endMs: null });
});

test("without free descriptors it is not started, and the process goes on", () => {
  const { command } = scripted(credential({ token: "t" }));
  const program = `
    import { openSync } from "node:fs";
    import { runPlugin } from "${join(process.cwd(), "kube/http/exec-plugin.ts")}";
    import { systemClock } from "${join(process.cwd(), "platform/time.ts")}";
    try { for (;;) openSync("/dev/null"); } catch {}
    const run = runPlugin({ command: ${JSON.stringify(command)}, args: ["${SECRET}"] }, null, systemClock);
    await run.catch((error) => console.log(error.message));
    console.log("goes on");`;
  const script = 'ulimit -n 64; exec "$@"';
  const words = ["-c", script, "sh", process.execPath, "--input-type=module", "-e", program];
  const { stdout, stderr } = spawnSync("sh", words, { encoding: "utf8" });
  expect(stdout).toMatch(/cannot be started: EMFILE; install it.*\ngoes on\n$/);
  expect(stderr.replaceAll(program, "")).not.toContain(SECRET);
});

test("a command that is interrupted takes it along", async () => {
  const pidFile = join(directory, "interrupted");
  const { command } = scripted(`echo $$ > ${pidFile}; exec sleep 600`);
  const program = `
    import { runPlugin } from "${join(process.cwd(), "kube/http/exec-plugin.ts")}";
    import { systemClock } from "${join(process.cwd(), "platform/time.ts")}";
    setInterval(() => {}, 1_000);
    await runPlugin({ command: ${JSON.stringify(command)} }, null, systemClock);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "ignore" });
  const ended = once(child, "exit");
  await until(() => existsSync(pidFile) && readFileSync(pidFile, "utf8").endsWith("\n"), "its start");
  child.kill("SIGTERM");
  expect(await ended).toEqual([null, "SIGTERM"]);
  const pid = readFileSync(pidFile, "utf8").trim();
  const isAlive = () => existsSync(`/proc/${pid}`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  await until(() => !isAlive(), "its end");
});

test("it is told what client-go tells plug-ins, and nothing on its standard input", async () => {
  const said = join(directory, "said");
  const script = `cat > ${said}; echo "$KUBERNETES_EXEC_INFO $MORE" >> ${said}; ${credential({ token: "t" })}`;
  const { file } = scripted(script, { env: [{ name: "MORE", value: "more" }], provideClusterInfo: true });
  const { headers } = await loadKubeConfig(file).authHeaders(systemClock);
  expect(headers).toEqual({ Authorization: "Bearer t" });
  const [info = "", more] = readFileSync(said, "utf8").trim().split(" ");
  expect(more).toBe("more");
  expect(JSON.parse(info)).toEqual({
    apiVersion: V1,
    kind: "ExecCredential",
    spec: { interactive: false, cluster: { server: "https://127.0.0.1:1" } },
  });
});

test("a path is one from the kubeconfig's directory, and a token of the kubeconfig comes before", async () => {
  const { file } = scripted(credential({ token: "t" }), { command: `./plugin-${count + 1}` });
  expect((await loadKubeConfig(file).authHeaders(systemClock)).headers).toEqual({
    Authorization: "Bearer t",
  });
  const both = { token: "of the file", exec: { apiVersion: V1, command: "/none" } };
  kubeconfigWith(both, { path: file, server: "https://127.0.0.1:1", ca: "" });
  const { headers } = await loadKubeConfig(file).authHeaders(systemClock);
  expect(headers).toEqual({ Authorization: "Bearer of the file" });
});

test("after a failure the kubeconfig is read and the plug-in run again, but not for everybody who asks", async () => {
  const runs = join(directory, "runs");
  const { file, command } = scripted(`echo >> ${runs}; exit 1`);
  const clock = new ManualClock();
  const connection = loadKubeConfig(file);
  const ask = async () => connection.authHeaders(clock);
  for (let times = 0; times < 20; times += 1) await expect(ask()).rejects.toThrow("exit code 1");
  expect(readFileSync(runs, "utf8")).toBe("\n");
  clock.nowMs += 2_000;
  await expect(ask()).rejects.toThrow(command);
  expect(readFileSync(runs, "utf8")).toBe("\n\n");
  kubeconfigWith({ token: "corrected" }, { path: file, server: "https://127.0.0.1:1", ca: "" });
  clock.nowMs += 2_000;
  expect((await ask()).headers).toEqual({ Authorization: "Bearer corrected" });
});

test.each(["gcp", "azure", "made-up"])("an auth-provider %s is refused with what came in its place", (name) => {
  const path = join(directory, `${name}.kubeconfig`);
  const config = { "access-token": SECRET, "cmd-path": "/bin/true" };
  const user = { "auth-provider": { name, config } };
  kubeconfigWith(user, { path, server: "https://127.0.0.1:1", ca: "" });
  expect(() => loadKubeConfig(path)).toThrow(
    `kubeconfig ${path} cannot be used: its user's auth-provider ${name} is not supported; write a user with exec`,
  );
});
