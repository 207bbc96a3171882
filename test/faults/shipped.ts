/** What is shipped, under attack: how deploy/ runs it, whether it answers in time, and its memory. */
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { ROOT } from "../harness/daemon.ts";
import { readManifests } from "../harness/kube-manifests.ts";

/** What the kubelet waits for a probe in deploy/. */
const ANSWER_MS_MAX = 5_000;

export type Where = { readonly port: number; readonly host: string } | { readonly socketPath: string };

export function question(where: Where, path: string): Promise<number | string | undefined> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const sent = request({ ...where, path, agent: false, signal }, (answer) => {
      answer.on("error", (error) => resolve(error.message));
      answer.on("end", () => resolve(answer.statusCode)).resume();
    });
    sent.on("error", (error) => resolve(error.message)).end();
  });
}

/** How deploy/ runs a component: a command that sets what its runtime is told, and its memory. */
export function shipped(file: string, command: string): { readonly within: string[]; readonly memoryBytes: number } {
  for (const { spec } of readManifests(join(ROOT, "deploy", file)))
    for (const { args, env, resources } of spec?.template?.spec.containers ?? []) {
      if (args?.[0] !== command) continue;
      const set = (env ?? []).filter(({ name }: { name: string }) => /^(NODE_OPTIONS|MALLOC_)/.test(name));
      const settings = set.map(({ name, value }: { name: string; value: string }) => `${name}=${value}`);
      const [, count, unit] = /^(\d+)([MG])i$/.exec(resources.limits.memory) ?? [];
      return { within: ["env", ...settings], memoryBytes: Number(count) * 2 ** (unit === "G" ? 30 : 20) };
    }
  throw new Error(`deploy/${file} runs no ${command}`);
}

/** Of a process, the most that it has had. */
export function peakBytes(pid: number | undefined): number {
  const [, peakKb] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(peakKb) * 1_024;
}
