import type { Command } from "commander";
import type { Client } from "./client.ts";
import { ClusterClient } from "./cluster-client.ts";
import { SocketClient } from "./socket-client.ts";
import { SOCKET_DEFAULT } from "./unreachable.ts";

interface GlobalOptions {
  readonly socket?: string;
  readonly kubeconfig?: string;
  readonly timeout: number;
}

/** The cluster or the daemon that options and environment select. An option takes precedence over the environment. */
export function clientOf(command: Command): Client {
  const options = command.optsWithGlobals<GlobalOptions>();
  if (options.socket !== undefined && options.kubeconfig !== undefined)
    command.error("error: --socket asks a daemon and --kubeconfig a cluster: only one of them can answer");
  const kubeconfig = kubeconfigOf(options);
  return kubeconfig === null
    ? socketClient(options)
    : new ClusterClient(kubeconfig.file, options.timeout * 1_000);
}

/**
 * The daemon, for commands that only a daemon answers: selecting a cluster is an error, and the hint tells how to fix
 * it.
 */
export function nodeClientOf(command: Command, remedy: string): SocketClient {
  const options = command.optsWithGlobals<GlobalOptions>();
  const kubeconfig = kubeconfigOf(options);
  if (kubeconfig === null) return socketClient(options);
  return command.error(
    `error: holdfast ${command.name()} asks a daemon, but ${kubeconfig.from} names a cluster\nhint: ${remedy}`,
  );
}

function socketClient({ socket, timeout }: GlobalOptions): SocketClient {
  return new SocketClient(socket ?? (process.env.HOLDFAST_SOCKET || SOCKET_DEFAULT), timeout * 1_000);
}

function kubeconfigOf({ socket, kubeconfig }: GlobalOptions): { file: string; from: string } | null {
  if (kubeconfig !== undefined) return { file: kubeconfig, from: "--kubeconfig" };
  const file = process.env.HOLDFAST_KUBECONFIG;
  return socket === undefined && file ? { file, from: "HOLDFAST_KUBECONFIG" } : null;
}
