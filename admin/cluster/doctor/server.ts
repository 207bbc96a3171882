import type { KubeApi } from "../../../kube/kube-api.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { part } from "../../diagnosis.ts";
import { get } from "./reading.ts";

/** The oldest that the tests run against. */
const MINOR_MIN = 20;
/** From it on admission policies exist (deploy/admission). */
const MINOR_WITH_POLICIES = 30;
/** A difference of clocks beyond it makes ages and times misleading, s. */
const SKEW_SECONDS_MAX = 5;

export async function examineServer(api: KubeApi): Promise<Diagnosis[]> {
  const { body, serverMs } = await get(api, "/version");
  return [...versionOf(String(body?.gitVersion ?? "unknown")), ...skewOf(api, serverMs)];
}

function versionOf(version: string): Diagnosis[] {
  const { ok, warning } = part("API server");
  const [, minor] = /^v1\.(\d+)/.exec(version) ?? [];
  if (minor === undefined || Number(minor) < MINOR_MIN)
    return warning(`Kubernetes ${version}`, `Holdfast is tested with 1.${MINOR_MIN} and later`);
  const policies = Number(minor) < MINOR_WITH_POLICIES ? `; admission policies need 1.${MINOR_WITH_POLICIES}` : "";
  return ok(`Kubernetes ${version}${policies}`);
}

function skewOf(api: KubeApi, serverMs: number | null): Diagnosis[] {
  const { ok, warning, unknown } = part("clocks");
  if (serverMs === null) return unknown("the API server sends no time");
  // The server's Date header has whole seconds.
  const seconds = Math.round((api.clock.wallMs() - serverMs) / 1_000);
  if (Math.abs(seconds) <= SKEW_SECONDS_MAX) return ok("this machine's and the API server's agree");
  return warning(
    `this machine's is ${Math.abs(seconds)} s ${seconds > 0 ? "ahead of" : "behind"} the API server's: ages are shown wrong; addresses are not affected`,
    "synchronise both by NTP",
  );
}
