import type { KubeApi } from "../../../kube/kube-api.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { get } from "./reading.ts";

/** The oldest that the tests run against. */
const MINOR_MIN = 20;
/** From it on admission policies exist (deploy/admission). */
const MINOR_WITH_POLICIES = 30;
/** A difference of clocks beyond it makes ages and times misleading, s. */
const SKEW_SECONDS_MAX = 5;

export async function examineServer(api: KubeApi): Promise<Diagnosis[]> {
  const { body, serverMs } = await get(api, "/version");
  return [versionOf(String(body?.gitVersion ?? "unknown")), skewOf(api, serverMs)];
}

function versionOf(version: string): Diagnosis {
  const part = "API server";
  const [, minor] = /^v1\.(\d+)/.exec(version) ?? [];
  if (minor === undefined || Number(minor) < MINOR_MIN)
    return {
      part,
      state: "warning",
      found: `Kubernetes ${version}`,
      fix: `Holdfast is tested with 1.${MINOR_MIN} and later`,
    };
  const policies = Number(minor) < MINOR_WITH_POLICIES ? `; admission policies need 1.${MINOR_WITH_POLICIES}` : "";
  return { part, state: "ok", found: `Kubernetes ${version}${policies}`, fix: "" };
}

function skewOf(api: KubeApi, serverMs: number | null): Diagnosis {
  const part = "clocks";
  if (serverMs === null) return { part, state: "unknown", found: "the API server sends no time", fix: "" };
  // The server's Date header has whole seconds.
  const seconds = Math.round((api.clock.wallMs() - serverMs) / 1_000);
  if (Math.abs(seconds) <= SKEW_SECONDS_MAX)
    return { part, state: "ok", found: "this machine's and the API server's agree", fix: "" };
  return {
    part,
    state: "warning",
    found: `this machine's is ${Math.abs(seconds)} s ${seconds > 0 ? "ahead of" : "behind"} the API server's: ages are shown wrong; addresses are not affected`,
    fix: "synchronise both by NTP",
  };
}
