import { createRequire } from "node:module";
import { join } from "node:path";
import type { Command } from "commander";

/** Settings of metadata/net/settings.ts. */
const SETTINGS: readonly (readonly [flags: string, description: string])[] = [
  ["--metadata-socket <path>", "socket of holdfast metadata (default: /run/holdfast/metadata.sock)"],
  ["--run-dir <folder>", "what it generates and remembers (default: /run/holdfast/metadata-net)"],
  ["--haproxy <path>", "the program (default: haproxy)"],
  ["--haproxy-user <name>", "who haproxy runs as (default: haproxy)"],
  ["--haproxy-group <name>", "and its group (default: haproxy)"],
  ["--rate-limit <requests>", "of one guest in 10 s, at least 60; 0 is no limit (default: 0)"],
  ["--metrics-address <host:port>", "of /healthz, /readyz and /metrics, or off (default: 127.0.0.1:9809)"],
  ["--log-level <level>", "debug, info, warn, error or silent (default: info)"],
];

/** `holdfast metadata-net`: the listeners of this node. Its code is a bundle of its own, read only here. */
export function addMetadataNet(program: Command): void {
  const metadataNet = program
    .command("metadata-net")
    .description("makes 169.254.169.254 reachable for this node's VMs, until SIGTERM; needs root");
  for (const [flags, description] of SETTINGS) metadataNet.option(flags, description);
  metadataNet
    .addHelpText(
      "after",
      "\nEvery setting is also a variable (HOLDFAST_LOG_LEVEL=debug). Flags win over variables.",
    )
    .action(async (flags: Record<string, unknown>, command: Command) => {
      const { socket } = command.optsWithGlobals<{ socket?: string }>();
      const load = createRequire(import.meta.filename);
      const { runMetadataNet } = load(
        join(import.meta.dirname, "../lib/metadata-net.cjs"),
      ) as typeof import("../../metadata/net/main.ts");
      process.exitCode = await runMetadataNet(socket === undefined ? flags : { ...flags, socket });
    });
}
