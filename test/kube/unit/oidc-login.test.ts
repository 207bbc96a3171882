/**
 * Logins of one kubeconfig in several processes, and what an issuer may do to them. See test/kube/credentials.test.ts
 * for the rest.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { OidcLogin } from "../../../kube/http/oidc-login.ts";
import { systemClock } from "../../../platform/time.ts";
import { OidcIssuer } from "../../harness/credentials/oidc-issuer.ts";
import { kubeconfigWith } from "../../harness/credentials/seen.ts";

let issuer: OidcIssuer;
beforeAll(async () => {
  issuer = await OidcIssuer.start();
});
afterAll(() => issuer.stop());
beforeEach(() => {
  Object.assign(issuer, { replaces: true, grants: true, lifeSeconds: 600, status: null, asked: 0 });
});

let count = 0;
/** A file with a login that has ended, and as many processes as are wanted that have read it. */
function logins(processes: number) {
  count += 1;
  const file = join(issuer.directory, `${count}.kubeconfig`);
  const user = issuer.login(-60);
  kubeconfigWith(user, { path: file, server: "https://127.0.0.1:1", ca: "" });
  const { config } = (user as { "auth-provider": { config: Record<string, string> } })["auth-provider"];
  const saved = () => JSON.parse(readFileSync(file, "utf8")).users[0].user["auth-provider"].config;
  return {
    ...{ config, saved },
    logins: Array.from({ length: processes }, () => new OidcLogin(config, { file, user: "u" })),
  };
}

test("the second process takes what the first one was given: a refresh token is good once", async () => {
  const { logins: both } = logins(2);
  const tokens = [];
  for (const login of both) tokens.push((await login.renew(systemClock)).value);
  expect(new Set(tokens).size).toBe(1);
  expect(issuer.asked).toBe(1);
});

test("a refresh token that was exchanged is kept, also where the ID token has ended by this machine's clock", async () => {
  const {
    logins: [login],
    saved,
  } = logins(1);
  issuer.lifeSeconds = -3_600;
  await expect(login?.renew(systemClock)).rejects.toThrow(
    /gave an ID token that ended at .*; set this machine's clock/,
  );
  expect(issuer.given).toContain(saved()["refresh-token"]);
  issuer.lifeSeconds = 600;
  const token = await login?.renew(systemClock);
  expect(saved()["id-token"]).toBe(token?.value);
});

test.each([204, 205, 304, 700])(
  "an answer %i of the issuer is an error of the login, and of nothing else",
  async (status) => {
    const {
      logins: [login],
    } = logins(1);
    issuer.status = status;
    await expect(login?.renew(systemClock)).rejects.toThrow("did not renew the ID token");
    issuer.status = null;
    expect((await login?.renew(systemClock))?.endMs).toBeGreaterThan(systemClock.wallMs());
  },
);

test("a login is the file's until somebody corrects any key of it, or logs in again", () => {
  const {
    logins: [login],
    config,
  } = logins(1);
  expect(login?.isOf(config, "u")).toBe(true);
  expect(login?.isOf(config, "other")).toBe(false);
  for (const key of Object.keys(config)) expect(login?.isOf({ ...config, [key]: "corrected" }, "u"), key).toBe(false);
});
