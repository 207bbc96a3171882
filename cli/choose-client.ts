import { accessSync, constants } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import type { KubeFiles } from "../kube/http/kube-config.ts";
import type { Client } from "./client.ts";
import { ClusterClient } from "./cluster-client.ts";
import { SocketClient } from "./socket-client.ts";
import { SOCKET_DEFAULT } from "./unreachable.ts";

interface GlobalOptions {
  readonly socket?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly timeout: number;
}

/** The cluster or the daemon that options and environment select. An option takes precedence over the environment. */
export function clientOf(command: Command): Client {
  const options = command.optsWithGlobals<GlobalOptions>();
  for (const name of ["kubeconfig", "context"] as const)
    if (options.socket !== undefined && options[name] !== undefined)
      command.error(`error: --socket asks a daemon and --${name} a cluster: only one of them can answer`);
  const kubeconfig = kubeconfigOf(options);
  return kubeconfig === null ? socketClient(options) : new ClusterClient(kubeconfig, options.timeout * 1_000);
}

/** For commands that only a daemon answers: selecting a cluster is an error, whose hint is `remedy`. */
export function nodeClientOf(command: Command, remedy: string): SocketClient {
  const options = command.optsWithGlobals<GlobalOptions>();
  const kubeconfig = kubeconfigOf(options);
  if (kubeconfig === null) return socketClient(options);
  return command.error(
    `error: holdfast ${command.name()} asks a daemon, but ${kubeconfig.from} names a cluster\nhint: ${remedy}`,
  );
}

function socketClient({ socket, timeout }: GlobalOptions): SocketClient {
  const main = socket ?? (process.env.HOLDFAST_SOCKET || SOCKET_DEFAULT);
  return new SocketClient(socketToUse(main), timeout * 1_000);
}

/** The daemon's socket for members of its group, where the main one is not for this user (setting readGroup). */
function socketToUse(main: string): string {
  const readOnly = join(dirname(main), "readonly.sock");
  return access(main) === "EACCES" && access(readOnly) === null ? readOnly : main;
}

/** The error of opening a socket as this user; null: it may be used. */
function access(path: string): string | null {
  try {
    accessSync(path, constants.W_OK);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "";
  }
}

/** Which cluster, and which word says so; null: none, a daemon is asked. */
function kubeconfigOf({
  socket,
  kubeconfig,
  context,
}: Omit<GlobalOptions, "timeout">): (KubeFiles & { readonly from: string }) | null {
  if (kubeconfig !== undefined) return { files: [kubeconfig], context, from: "--kubeconfig" };
  const own = process.env.HOLDFAST_KUBECONFIG;
  if (socket === undefined && own) return { files: [own], context, from: "HOLDFAST_KUBECONFIG" };
  if (context !== undefined) return { files: filesOfKubectl(), context, from: "--context" };
  return socket === undefined && isPluginOfKubectl() ? { files: filesOfKubectl(), from: "kubectl holdfast" } : null;
}

/** Called by kubectl, which finds its plugins by their names. */
function isPluginOfKubectl(): boolean {
  return /(^|\/)kubectl-holdfast$/.test(process.argv[1] ?? "");
}

function filesOfKubectl(): readonly string[] {
  const files = (process.env.KUBECONFIG ?? "").split(":").filter((one) => one !== "");
  return files.length > 0 ? files : [`${process.env.HOME ?? ""}/.kube/config`];
}
