import { createRequire } from "node:module";
import { join } from "node:path";
import type { Command } from "commander";

/** Settings of daemon/config.ts that take a value here; a test keeps the two lists equal. `--socket` is every command's, `--kubeconfig` too. */
const SETTINGS: readonly (readonly [flags: string, description: string])[] = [
  ["--state <folder>", "folder of the state database (default: /var/lib/holdfast)"],
  [
    "--identity-socket <path>",
    "a socket that only tells who is behind an address; off: none (default: identity.sock beside the other)",
  ],
  ["--identity-group <group>", "the group that may connect to it (default: none)"],
  [
    "--spool <folder>",
    "where the plugin binary leaves what it could not deliver (default: spool in the state folder)",
  ],
  ["--node <name>", "name recorded with attachments; the Node's in Kubernetes (default: the host name)"],
  ["--kubeconfig <file>", "the cluster to serve (default: the pod's own, or none outside of a cluster)"],
  ["--log-level <level>", "debug, info, warn, error or silent (default: info)"],
  [
    "--boot-id-file <file>",
    "a file with this machine's boot ID as the plugin binary sees it (default: /proc/sys/kernel/random/boot_id)",
  ],
  ["--add-deadline-ms <ms>", 'how long an ADD may wait before it is answered "try again" (default: 9000)'],
  [
    "--witness-interval-seconds <seconds>",
    "how often the namespaces of attachments are looked at (default: 30)",
  ],
  [
    "--witness-grace-seconds <seconds>",
    "how long a namespace must be gone before its attachment is ended (default: 300)",
  ],
  [
    "--reassert-interval-seconds <seconds>",
    "how often a cluster's node compares what it holds with the API (default: 300)",
  ],
  [
    "--metrics-address <host:port>",
    "of /healthz, /readyz and /metrics, for Prometheus; they are on the socket, too (default: off)",
  ],
  [
    "--recovery-seconds <seconds>",
    "how long nobody new gets an address after allocations were found missing (default: 30)",
  ],
  ["--metadata <on|off>", "off: no metadata listener on this node, on any network (default: on)"],
  [
    "--metadata-wait-ms <ms>",
    "how long an ADD waits for the metadata listener of its network (default: 3000)",
  ],
  [
    "--resolv-conf-paths <path,path>",
    "files that ipam.resolvConf may name (default: /etc/resolv.conf and systemd-resolved's two)",
  ],
  [
    "--host-local-dirs <folder,folder>",
    "where host-local may have kept addresses (default: /var/lib/cni/networks, and without a cluster any dataDir)",
  ],
  ["--resolv-conf-in-nads <on|off>", "on: ipam.resolvConf is allowed in Kubernetes too (default: off)"],
];

/** `holdfast daemon`: serves this node. Its code is a bundle of its own, read only here. */
export function addDaemon(program: Command): void {
  const daemon = program
    .command("daemon")
    .description("serves this node until SIGTERM")
    .option("--config <file>", "settings in YAML (default: /etc/holdfast/daemon.yaml where that exists)");
  for (const [flags, description] of SETTINGS) daemon.option(flags, description);
  daemon
    .addHelpText(
      "after",
      "\nEvery setting is also a key of the file (logLevel: debug) and a variable (HOLDFAST_LOG_LEVEL=debug).\nFlags win over variables, variables over the file.",
    )
    .action(async (flags: Record<string, unknown>, command: Command) => {
      const { socket, kubeconfig } = command.optsWithGlobals<{ socket?: string; kubeconfig?: string }>();
      const load = createRequire(import.meta.filename);
      const { runDaemon } = load(
        join(import.meta.dirname, "../lib/daemon.cjs"),
      ) as typeof import("../../daemon/main.ts");
      process.exitCode = await runDaemon({
        ...flags,
        ...(socket === undefined ? {} : { socket }),
        ...(kubeconfig === undefined ? {} : { kubeconfig }),
      });
    });
}
