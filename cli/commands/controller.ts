import { createRequire } from "node:module";
import { join } from "node:path";
import type { Command } from "commander";

/** Settings of controller/config.ts. */
const SETTINGS: readonly (readonly [flags: string, description: string])[] = [
  ["--kubeconfig <file>", "how to reach the API server (default: in-cluster, as a pod of the cluster)"],
  ["--namespace <name>", "namespace of the lease (default: POD_NAMESPACE, else holdfast-system)"],
  ["--identity <name>", "name of this process in the lease (default: the host name and something random)"],
  ["--metrics-address <host:port>", "of /healthz, /readyz and /metrics (default: 127.0.0.1:9808)"],
  ["--sweep-interval-seconds <seconds>", "how often every allocation is judged (default: 10)"],
  ["--sweep-grace-seconds <seconds>", "how long a reason to free an address must have stood (default: 30)"],
  [
    "--cooling-keep-seconds <seconds>",
    "how much longer than its rest a released address is shown (default: 600)",
  ],
  [
    "--pod-gone-release-seconds <seconds>",
    "how long a pod must be gone, and its node unreachable, before its container counts as ended; 0 is never (default: 0)",
  ],
  ["--log-level <level>", "debug, info, warn, error or silent (default: info)"],
];

/** `holdfast controller`: sweeps a cluster. Its code is a bundle of its own, read only here. */
export function addController(program: Command): void {
  const controller = program
    .command("controller")
    .description("frees what nobody holds any more in a Kubernetes cluster, until SIGTERM");
  for (const [flags, description] of SETTINGS) controller.option(flags, description);
  controller
    .addHelpText(
      "after",
      "\nEvery setting is also a variable (HOLDFAST_LOG_LEVEL=debug). Flags win over variables.",
    )
    .action(async (flags: Record<string, unknown>, command: Command) => {
      const { kubeconfig } = command.optsWithGlobals<{ kubeconfig?: string }>();
      const load = createRequire(import.meta.filename);
      const { runController } = load(
        join(import.meta.dirname, "../lib/controller.cjs"),
      ) as typeof import("../../controller/main.ts");
      process.exitCode = await runController(kubeconfig === undefined ? flags : { ...flags, kubeconfig });
    });
}
