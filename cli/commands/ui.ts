import { fstatSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import type { PathOf } from "../../admin/answers.ts";
import { PORT_MAX } from "../../platform/host-port.ts";
import type { Clock } from "../../platform/time.ts";
import type { PageServer } from "../../ui/server.ts";
import type { Source } from "../../ui/source.ts";
import { wholeArgument } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import { ClusterClient } from "../cluster-client.ts";
import { CommandError } from "../failure.ts";
import { loadBundle } from "../load-bundle.ts";
import type { SocketClient } from "../socket-client.ts";
import { note, print, STDOUT } from "../terminal.ts";

type UiBundle = typeof import("../../ui/main.ts");

const LITTLE_MEMORY = ["--max-semi-space-size=1", "--optimize-for-size"];
/** Members of the file's group, and everybody. */
const OTHERS_MAY_READ = 0o044;

export function addUi(program: Command, clock: Clock): void {
  program
    .command("ui")
    .description("a page in your browser: who holds which address, at a glance")
    .option("--port <number>", "of this machine; default: 38211, or any that is free", wholeArgument(1, PORT_MAX))
    .option("--no-open", "only prints the URL, also on a desktop")
    .action(async (options: { port?: number; open: boolean }, command: Command) => {
      refuseOpenFile();
      goOnInLittleMemory();
      const lib = join(import.meta.dirname, "../lib");
      const bundle = loadBundle(join(lib, "ui.cjs")) as UiBundle;
      const client = clientOf(command);
      const source =
        client instanceof ClusterClient
          ? await clusterSource(client, command)
          : await nodeSource(client as SocketClient, clock, bundle);
      const { url, server } = await serve(bundle, { clock, source, files: join(lib, "ui") }, options.port);
      print(`${url}\n`);
      note(`shows ${source.from}, to whoever has this URL; Ctrl-C ends it`);
      const remove = options.open && bundle.isOnDesktop() ? bundle.openOnDesktop(url) : () => {};
      void server.opened.then(remove);
      await ended();
      remove();
      await server.stop();
    });
}

/** The URL is a password: it is not written into a file that another user can read. Throws CommandError. */
function refuseOpenFile(): void {
  const stat = fstatSync(STDOUT);
  if (stat.isFile() && (stat.mode & OTHERS_MAY_READ) !== 0)
    throw new CommandError("the URL is a password, and other users can read the file that stdout is", {
      hint: "set umask 077 and write to a new file, or read the URL from a pipe",
    });
}

/**
 * With flags that a process cannot set once it runs: Node leaves garbage for long where memory is plenty, and a list of
 * 100,000 objects is several times as much garbage as what is kept of it.
 */
function goOnInLittleMemory(): void {
  const { execve } = process;
  if (execve === undefined || LITTLE_MEMORY.every((flag) => process.execArgv.includes(flag))) return;
  const words = [process.execPath, ...process.execArgv, ...LITTLE_MEMORY, ...process.argv.slice(1)];
  execve(process.execPath, words, process.env);
}

async function nodeSource(client: SocketClient, clock: Clock, { NodeFollower }: UiBundle): Promise<Source> {
  // A daemon that is not there is said at once.
  const { node } = await client.get("/v1/status");
  const get: Source["get"] = (path, query) => client.get(path as PathOf<"GET">, query);
  const follow: Source["follow"] = (following, signal) => new NodeFollower(get, clock, following).run(signal);
  return { kind: "node", from: client.socket, node, get, follow };
}

async function clusterSource(client: ClusterClient, command: Command): Promise<Source> {
  await client.get("/v1/networks", { counted: "false" });
  // Whatever reads all of a cluster does it in a process that ends: its memory would stay.
  const get: Source["get"] = (path, query) =>
    path === "/v1/check" ? checkApart(command) : client.get(path as PathOf<"GET">, query);
  const follow: Source["follow"] = (following, signal) => client.follow(following, signal);
  return { kind: "cluster", from: client.server, node: "", get, follow };
}

/** Longer than the controller takes to release, and shorter than somebody looks at an empty page. */
const GRACE_SECONDS = 45;

async function checkApart(command: Command): Promise<unknown> {
  const { execFile } = process.getBuiltinModule("node:child_process");
  const { kubeconfig, context, timeout } = command.optsWithGlobals<Record<string, string | undefined>>();
  const options = Object.entries({ kubeconfig, context, timeout }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)],
  );
  const words = [process.argv[1] as string, ...options, "check", "--grace", String(GRACE_SECONDS), "-o", "json"];
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, stdout: string, stderr: string) => {
      if (stdout !== "") return resolve(JSON.parse(stdout));
      reject(new CommandError(stderr.split("\n")[0]?.replace(/^error: /, "") || String(error)));
    };
    execFile(process.execPath, words, { maxBuffer: 2 ** 28 }, done);
  });
}

/** On the port that was asked for; without one on the usual port, or on any where somebody else has that. */
async function serve(
  { PageServer, PORT_DEFAULT }: UiBundle,
  options: { readonly clock: Clock; readonly source: Source; readonly files: string },
  wanted: number | undefined,
): Promise<{ url: string; server: PageServer }> {
  for (const port of wanted === undefined ? [PORT_DEFAULT, 0] : [wanted]) {
    const server = new PageServer({ ...options, port });
    try {
      return { url: await server.start(), server };
    } catch (error) {
      await server.stop();
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === "EADDRINUSE" && wanted === undefined) continue;
      throw new CommandError(`port ${port} of the loopback addresses cannot be used: ${message}`, {
        hint: "name another one with --port, or omit it: then any free port is used",
      });
    }
  }
  throw new CommandError("no port of the loopback addresses can be used", { hint: "name one with --port" });
}

function ended(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => resolve());
  });
}
