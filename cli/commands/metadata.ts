import { createRequire } from "node:module";
import { join } from "node:path";
import type { Command } from "commander";

/** Settings of metadata/server/settings.ts. */
const SETTINGS: readonly (readonly [flags: string, description: string])[] = [
  ["--metadata-socket <path>", "where the listeners of this node ask (default: /run/holdfast/metadata.sock)"],
  [
    "--metadata-socket-group <group>",
    "who may connect to it (default: haproxy, where there is such a group and it may be set)",
  ],
  ["--identity-socket <path>", "the daemon's read-only socket (default: /run/holdfast/identity.sock)"],
  ["--nova-url <url>", "forward every network without a backend of its own there, with a signed identity"],
  ["--secret-file <file>", "the secret shared with it (metadata_proxy_shared_secret)"],
  [
    "--service-secret-file <file>",
    "the secret shared with Services (default: --secret-file, without --nova-url)",
  ],
  ["--nova-ca-file <file>", "certificates (PEM) by which a backend with https is believed"],
  ["--backend-timeout-seconds <seconds>", "longest wait for a backend's answer (default: 60)"],
  ["--state <folder>", "guests' passwords and keys (default: /var/lib/holdfast-metadata)"],
  ["--key-file <file>", "keys of tokens, the same on all nodes (default: made in the state folder)"],
  ["--network <name>", "all requests are of this network; they come by TCP (--listen)"],
  ["--listen <host:port>", "served instead of the socket, together with --network"],
  ["--tokens <rule>", "IMDSv2 tokens of that network: off, optional or required (default: optional)"],
  [
    "--kubeconfig <file>",
    "how to reach the API server, or in-cluster (default: the pod's own cluster, or none)",
  ],
  ["--node <name>", "this node's name in Kubernetes (default: the host name)"],
  ["--metrics-address <host:port>", "of /healthz, /readyz and /metrics, or off (default: 127.0.0.1:9810)"],
  ["--log-level <level>", "debug, info, warn, error or silent (default: info)"],
];

/** `holdfast metadata`: answers guests. Its code is a bundle of its own, read only here. */
export function addMetadata(program: Command): void {
  const metadata = program
    .command("metadata")
    .description("answers guests at 169.254.169.254, behind the listeners of this node, until SIGTERM");
  for (const [flags, description] of SETTINGS) metadata.option(flags, description);
  metadata
    .addHelpText(
      "after",
      "\nEvery setting is also a variable (HOLDFAST_NOVA_URL=http://10.0.0.5:8775). Flags win over variables.",
    )
    .action(async (flags: Record<string, unknown>, command: Command) => {
      const { kubeconfig } = command.optsWithGlobals<{ kubeconfig?: string }>();
      const load = createRequire(import.meta.filename);
      const { runMetadata } = load(
        join(import.meta.dirname, "../lib/metadata.cjs"),
      ) as typeof import("../../metadata/server/main.ts");
      process.exitCode = await runMetadata(kubeconfig === undefined ? flags : { ...flags, kubeconfig });
    });
}
