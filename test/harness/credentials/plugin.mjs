// A credential plug-in: does what behaviour.json beside it says. Each run appends its beginning, its end and its token
// to runs.txt.
import { spawnSync } from "node:child_process";
import { createSign, randomUUID } from "node:crypto";
import { appendFileSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const here = dirname(process.argv[1]);
const note = (text) => appendFileSync(join(here, "runs.txt"), `${text}\n`);
const behaviour = JSON.parse(readFileSync(join(here, "behaviour.json"), "utf8"));
const info = JSON.parse(process.env.KUBERNETES_EXEC_INFO);

note(`begin ${Date.now()} ${process.pid}`);
const nowSeconds = Math.floor(Date.now() / 1_000);
const endSeconds = nowSeconds + behaviour.lifeSeconds;
const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const claims = {
  ...{ iss: behaviour.issuer, aud: behaviour.client, sub: "somebody", groups: ["system:masters"] },
  ...{ jti: randomUUID(), iat: nowSeconds, exp: endSeconds },
};
const text = `${part({ alg: "RS256", typ: "JWT" })}.${part(claims)}`;
const key = readFileSync(behaviour.keyFile, "utf8");
const token = `${text}.${createSign("RSA-SHA256").update(text).sign(key).toString("base64url")}`;
note(`token ${token}`);
if (behaviour.seconds > 0) spawnSync("sleep", [`${behaviour.seconds}`]);
if (behaviour.exitCode > 0) {
  console.error(`could not use ${token}`);
  process.exit(behaviour.exitCode);
}
console.log(
  JSON.stringify({
    apiVersion: info.apiVersion,
    kind: "ExecCredential",
    status: { token, expirationTimestamp: new Date(endSeconds * 1_000).toISOString() },
  }),
);
note(`end ${Date.now()}`);
