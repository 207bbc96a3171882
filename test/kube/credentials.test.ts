/**
 * Tokens that end while processes use them: from a credential plug-in and from an OIDC issuer, before a real API
 * server.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import { Reflector } from "../../kube/reflector.ts";
import { systemClock } from "../../platform/time.ts";
import type { ApiProxy } from "../harness/api-proxy.ts";
import { OidcIssuer } from "../harness/credentials/oidc-issuer.ts";
import { type Behaviour, Plugin } from "../harness/credentials/plugin.ts";
import { kubeconfigWith, seenOf } from "../harness/credentials/seen.ts";
import { HOLDFAST, run } from "../harness/daemon.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { pause, until, untilSaid } from "../harness/wait.ts";
import { added, addedInTheEnd, deleted } from "../harness/world/guests.ts";
import { World } from "../harness/world/world.ts";

/** Of tokens that end while a test runs, and how long whoever gives them takes. */
const LIFE_SECONDS = 6;
const SLOW_SECONDS = 1;
const LONG = { lifeSeconds: 600 };
const DEBUG = ["--log-level", "debug"];

let issuer: OidcIssuer;
let world: World;
let files = 0;
const plugins: Plugin[] = [];

beforeAll(async () => {
  issuer = await OidcIssuer.start();
  world = await World.start({ api: "server", cluster: { apiServerArgs: issuer.flags } });
  // The API server asks the issuer for its keys when it likes.
  const api = connect(kubeconfig(issuer.login(600)));
  await until(async () => (await statusOf(api)) === 200, "the API server to take the issuer's tokens");
  api.close();
}, 120_000);
afterEach(() => {
  Object.assign(issuer, { grants: true, replaces: false, isConfidential: true, lifeSeconds: 600 });
  Object.assign(issuer, { methods: null, padding: 0 });
});
afterAll(async () => {
  for (const one of plugins) one.remove();
  await world?.stop();
  await issuer?.stop();
});

function kubeconfig(user: object, { server, ca }: { server: string; ca: string } = world.cluster): string {
  files += 1;
  const path = join(world.server.directory, `given-${files}.kubeconfig`);
  return kubeconfigWith(user, { path, server, ca });
}

function plugin(behaviour: Behaviour): Plugin {
  const made = new Plugin(issuer, behaviour);
  plugins.push(made);
  return made;
}

function connect(file: string): HttpKubeApi {
  return new HttpKubeApi(loadKubeConfig(file), systemClock);
}

/** Of a read with these credentials, or why it has none. */
async function statusOf(api: HttpKubeApi): Promise<number | string> {
  const request = { method: "GET", path: "/api/v1/namespaces/default", priority: "housekeeping" } as const;
  try {
    return (await api.send({ ...request, deadlineMs: systemClock.monotonicMs() + 1_500 })).status;
  } catch (error) {
    return (error as Error).message;
  }
}

const cli = (file: string, ...args: string[]) => run(process.execPath, [HOLDFAST, "--kubeconfig", file, ...args]);
const pidOf = (node: NodeDaemon) => node.process.pid as number;
/** Of tokens that must not be there. */
const withoutTokens = (text: string, tokens: readonly string[]) =>
  expect(tokens.filter((token) => text.includes(token))).toEqual([]);

test.concurrent("ADDs, DELs and the probes go on while a slow plug-in gives the next token, and no token is in a log, an argument or an environment", async () => {
  const net = await world.network("slow", { subnets: "10.91.0.0/24" });
  const slow = plugin({ lifeSeconds: LIFE_SECONDS, seconds: SLOW_SECONDS });
  const node = await world.startNode("slow", { kubeconfig: kubeconfig(slow.user), args: DEBUG });
  const first = slow.runs.length;
  const done: { readonly beginMs: number; readonly endMs: number }[] = [];
  let seen = "";
  // Whole ADDs within runs of the plug-in, while what it gave before is still good.
  const within = () =>
    slow.runs
      .slice(first)
      .filter(({ beginMs, endMs }) => done.some((one) => beginMs < one.beginMs && one.endMs < (endMs ?? 0)));
  await until(
    async () => {
      const beginMs = Date.now();
      const guest = await world.guest(net, node.name);
      await added(node, guest);
      expect((await node.daemon.get("/readyz")).status).toBe(200);
      await deleted(node, guest);
      done.push({ beginMs, endMs: Date.now() });
      seen += seenOf(pidOf(node));
      return within().length >= 2;
    },
    () => `runs of the plug-in with ADDs: ${JSON.stringify([slow.runs, done])}`,
  );
  expect(slow.tokens.length).toBeGreaterThan(2);
  // It was seen while it ran.
  expect(seen).toContain(slow.command);
  withoutTokens(seen + node.log, slow.tokens);
});

test.concurrent("watches that end after the token of their beginning go on with the next one: nothing is missed, and nothing listed again", async () => {
  const proxy: ApiProxy = await world.startProxy();
  const short = plugin({ lifeSeconds: 3 });
  const api = connect(kubeconfig(short.user, { server: proxy.url, ca: proxy.ca }));
  const told: string[] = [];
  const warned: unknown[] = [];
  const reflector = new Reflector<Reflected>({
    api,
    path: "/api/v1/namespaces/default/configmaps",
    metadataOnly: true,
    project: ({ metadata }) => ({
      key: metadata.name,
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
    }),
    onUpsert: ({ key }) => told.push(key),
    onDelete: () => {},
    log: { info: () => {}, warn: (...args: unknown[]) => void warned.push(args) },
    timings: { retryMsMin: 50, retryMsMax: 500, missingMs: 100 },
  });
  reflector.start();
  try {
    await reflector.waitSynced();
    const lists = () =>
      proxy.log.filter(({ path }) => path.includes("configmaps") && !path.includes("watch=true")).length;
    const [listed, before] = [lists(), told.length];
    const names: string[] = [];
    // Nobody but the watch asks for tokens here.
    await until(async () => {
      const name = `watched-${names.length}`;
      names.push(name);
      await world.server.api.create("/api/v1/namespaces/default/configmaps", { metadata: { name } });
      await pause(400);
      proxy.endWatches();
      return short.tokens.length >= 3;
    }, "three tokens");
    await until(
      () => told.length - before >= names.length,
      () => `what was told: ${told}; ${JSON.stringify(warned)}`,
    );
    expect(told.slice(before)).toEqual(names);
    expect(lists()).toBe(listed);
    // A token that ends on its way is refused once, and the same request sent with another one.
    const answered = proxy.log.filter(({ status }) => status !== null).map(({ status }) => status);
    expect(answered.filter((status) => status !== 200 && status !== 401)).toEqual([]);
  } finally {
    await reflector.stop();
    api.close();
  }
});

test.concurrent("a daemon says which plug-in failed, and gives addresses again once it gives tokens", async () => {
  const net = await world.network("mended", { subnets: "10.92.0.0/24" });
  const broken = plugin({ ...LONG, exitCode: 3 });
  const file = kubeconfig(broken.user);
  const node = await world.startNode("mended", { kubeconfig: file, args: DEBUG, wait: false });
  const says = `the credential plug-in ${broken.command} ended with exit code 3; run it yourself to see why`;
  await untilSaid(() => node.log, says);
  const { code, stderr } = await cli(file, "networks");
  expect({ code, stderr }).toEqual({ code: 3, stderr: expect.stringContaining(says) });
  broken.behave(LONG);
  await node.daemon.ready();
  await addedInTheEnd(node, await world.guest(net, node.name));
  withoutTokens(node.log + stderr, broken.tokens);
});

test.concurrent("whoever waits for a plug-in that hangs is told for what, and a daemon ends all the same, with the plug-in", async () => {
  const hanging = plugin({ ...LONG, seconds: 600 });
  const file = kubeconfig(hanging.user);
  const node = await world.startNode("hanging", { kubeconfig: file, wait: false });
  await until(() => hanging.runs.length === 1, "a run of the plug-in");
  const brief = plugin({ ...LONG, seconds: 3 });
  const api = connect(kubeconfig(brief.user));
  const said = await statusOf(api);
  expect(said).toMatch(/nothing came for \d+ ms/);
  expect(said).toContain(`ms from the credential plug-in ${brief.command}, which gives the credentials`);
  await until(async () => (await statusOf(api)) === 200, "its token");
  api.close();
  expect(await node.daemon.end()).toBe(0);
  for (const { pid } of hanging.runs) await until(() => !existsSync(`/proc/${pid}`), "the end of the plug-in");
});

test("a login that has ended is renewed, written back for kubectl, and nobody else may read the file after it", async () => {
  for (const [isConfidential, replaces, methods] of [
    [true, true, ["client_secret_basic", "client_secret_post"]],
    [true, false, ["client_secret_basic"]],
    [true, true, null],
    [false, false, null],
  ] as const) {
    Object.assign(issuer, { isConfidential, replaces, methods });
    const file = kubeconfig(issuer.login(-60));
    const [before, given] = [issuer.asked, issuer.given.length];
    // Two processes, one after the other: the second takes what the first has written.
    for (let times = 0; times < 2; times += 1) {
      const answer = await cli(file, "networks");
      expect(answer, answer.stderr).toMatchObject({ code: 0 });
    }
    expect(issuer.asked).toBe(before + 1);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const config = JSON.parse(readFileSync(file, "utf8")).users[0].user["auth-provider"].config;
    expect(issuer.given.slice(given)).toContain(config["id-token"]);
    expect(issuer.given.slice(replaces ? given : 0)).toContain(config["refresh-token"]);
  }
});

test("a login that the issuer does not renew: the error says so, the issuer is not asked all the time, and all goes on when it grants again", async () => {
  issuer.lifeSeconds = 4;
  issuer.replaces = true;
  const net = await world.network("login", { subnets: "10.93.0.0/24" });
  const file = kubeconfig(issuer.login(-60));
  const node = await world.startNode("login", { kubeconfig: file, args: DEBUG });
  const controller = new ProductProcess([
    "controller",
    "--kubeconfig",
    file,
    "--metrics-address",
    "127.0.0.1:0",
    ...DEBUG,
  ]);
  try {
    const guest = await world.guest(net, node.name);
    await addedInTheEnd(node, guest);
    await deleted(node, guest);
    issuer.grants = false;
    const says = `the OIDC issuer ${issuer.url} did not renew the ID token: invalid_grant; log in again`;
    await untilSaid(() => node.log, says);
    const [beforeMs, before] = [systemClock.monotonicMs(), issuer.asked];
    const { code, stderr } = await cli(file, "networks");
    expect({ code, stderr }).toEqual({ code: 3, stderr: expect.stringContaining(says) });
    await pause(3_000);
    // Each of two processes once in two seconds, and the command some times.
    const seconds = (systemClock.monotonicMs() - beforeMs) / 1_000;
    expect(issuer.asked - before).toBeLessThan(seconds + 20);
    issuer.grants = true;
    await addedInTheEnd(node, await world.guest(net, node.name));
    withoutTokens(node.log + controller.log + stderr, issuer.given);
    withoutTokens(seenOf(pidOf(node)) + seenOf(controller.child.pid as number), issuer.given);
  } finally {
    await controller.end();
  }
});

test("a new login in the file is taken by a process that runs, and one without a refresh token says what it lacks", async () => {
  issuer.grants = false;
  const file = kubeconfig(issuer.login(-60));
  const api = connect(file);
  expect(await statusOf(api)).toContain("invalid_grant");
  const { server, ca } = world.cluster;
  kubeconfigWith(issuer.login(600), { path: file, server, ca });
  await until(async () => (await statusOf(api)) === 200, "the new login");
  api.close();
  const lacking = connect(kubeconfig(issuer.login(-60, { "refresh-token": undefined })));
  expect(await statusOf(lacking)).toMatch(
    /the ID token has ended, and to renew it .* lacks refresh-token; log in again/,
  );
  lacking.close();
});

test("an issuer that is not there, has another authority, or answers without end, is named with the keys to check", async () => {
  for (const [more, problem] of [
    [{ "idp-issuer-url": "https://127.0.0.1:1" }, "ECONNREFUSED"],
    [{ "idp-certificate-authority-data": undefined }, "DEPTH_ZERO_SELF_SIGNED_CERT"],
    [{ "idp-issuer-url": `${issuer.url}/other` }, "OAUTH_RESPONSE_IS_NOT_CONFORM"],
  ] as const) {
    const api = connect(kubeconfig(issuer.login(-60, more)));
    expect(await statusOf(api)).toContain(`did not renew the ID token: ${problem}; check idp-issuer-url`);
    api.close();
  }
  issuer.padding = 300_000;
  const api = connect(kubeconfig(issuer.login(-60)));
  expect(await statusOf(api)).toContain("did not renew the ID token: no valid answer; check idp-issuer-url");
  api.close();
});
