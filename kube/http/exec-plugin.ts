import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Cluster } from "@kubernetes/client-node/dist/config_types.js";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { readBounded, SMALL_FILE_BYTES_MAX } from "../../platform/files.ts";
import { type Clock, isoTime, parseTime } from "../../platform/time.ts";
import { messageOf } from "../client/limit.ts";
import type { Token } from "./user-token.ts";

/** For one run, ms: commands of clouds take seconds. Less than a list may be silent, so that its failure says why. */
const RUN_MS_MAX = 20_000;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** From its end to that of its output, ms. */
const OUTPUT_OPEN_MS_MAX = 1_000;
/** Of its output: a token has some KiB. */
const OUTPUT_BYTES_MAX = 1 << 18;

/** `users[].user.exec` of a kubeconfig; what it does not set may be null. */
export interface ExecPlugin {
  readonly apiVersion?: string | null;
  readonly command?: string | null;
  readonly args?: readonly string[] | null;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
  readonly interactiveMode?: string | null;
  readonly provideClusterInfo?: boolean | null;
}

/** Rejects with the command, what went wrong and the remedy; without arguments and output: both can have tokens. */
export async function runPlugin(
  plugin: ExecPlugin,
  cluster: Cluster | null,
  clock: Clock,
  runMs = RUN_MS_MAX,
): Promise<Token> {
  const { command, interactiveMode, apiVersion } = plugin;
  if (!command) throw new Error("users[].user.exec of the kubeconfig has no command; write the plug-in's");
  try {
    if (interactiveMode === "Always")
      throw new Error("wants a terminal (interactiveMode: Always), which it does not get; use IfAvailable or Never");
    const run = outputOf(command, plugin, cluster, { clock, runMs });
    return tokenOf(await run, apiVersion, clock);
  } catch (error) {
    throw new Error(`the credential plug-in ${command} ${messageOf(error)}`);
  }
}

function outputOf(
  command: string,
  plugin: ExecPlugin,
  cluster: Cluster | null,
  { clock, runMs }: { readonly clock: Clock; readonly runMs: number },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = started(command, plugin, cluster);
    // A process that ends does not wait for it: each request that does has a timer.
    child.unref();
    // Without descriptors there is no output either: the error follows.
    const stdout = child.stdout as Socket | undefined;
    stdout?.unref();
    const kill = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // It has ended by itself.
      }
    };
    // Of a command that handles no signals: its end emits no "exit", and the plug-in is in a group of its own.
    const endedBy = (signal: NodeJS.Signals) => {
      if (process.listenerCount(signal) > 0) return;
      kill();
      process.kill(process.pid, signal);
    };
    const end = (problem: string | null) => {
      timer.cancel();
      process.off("exit", kill);
      for (const signal of SIGNALS) process.off(signal, endedBy);
      stdout?.destroy();
      if (problem === null) resolve(Buffer.concat(output).toString("utf8"));
      else reject(new Error(problem));
    };
    const stop = (problem: string) => {
      kill();
      end(`${problem}; ${BY_HAND}`);
    };
    const timer = clock.timer(runMs, () => stop(`gave no answer for ${runMs / 1_000} s and was killed`)).unref();
    process.once("exit", kill);
    for (const signal of SIGNALS) process.once(signal, endedBy);
    const output: Buffer[] = [];
    let bytes = 0;
    stdout?.on("data", (part: Buffer) => {
      output.push(part);
      bytes += part.length;
      if (bytes > OUTPUT_BYTES_MAX) stop(`printed more than ${OUTPUT_BYTES_MAX} bytes`);
    });
    child.on("error", (error) => end(whyNotStarted(error)));
    const ended = (code: number | null, signal: NodeJS.Signals | null) => {
      if (code === 0) end(null);
      else end(`${code === null ? `was ended by ${signal}` : `ended with exit code ${code}`}; ${BY_HAND}`);
    };
    child.on("close", ended);
    // What it left behind may keep its output open for as long as it lives.
    child.on("exit", (code, signal) => void clock.timer(OUTPUT_OPEN_MS_MAX, () => ended(code, signal)).unref());
  });
}

function started(command: string, plugin: ExecPlugin, cluster: Cluster | null) {
  try {
    const env = { ...process.env, KUBERNETES_EXEC_INFO: JSON.stringify(infoOf(plugin, cluster)) };
    for (const { name, value } of plugin.env ?? []) Object.assign(env, { [name]: value });
    return spawn(command, [...(plugin.args ?? [])], {
      env,
      // Nobody answers its questions, and what it says to people can have secrets that belong into no log.
      stdio: ["ignore", "pipe", "ignore"],
      // A group of its own, so that what it started ends with it.
      detached: true,
    });
  } catch (error) {
    throw new Error(whyNotStarted(error));
  }
}

/** Without the message, which shows arguments that are none. */
function whyNotStarted(error: unknown): string {
  const { code = "not valid" } = error as NodeJS.ErrnoException;
  return `cannot be started: ${code}; install it, or correct users[].user.exec of the kubeconfig`;
}

const BY_HAND = "run it yourself to see why, and log in again if it asks for that";

/** What client-go tells plug-ins too: some give nothing without it, or another version of their answer. */
function infoOf({ apiVersion, provideClusterInfo }: ExecPlugin, cluster: Cluster | null): object {
  const told = provideClusterInfo && cluster ? { cluster: clusterInfo(cluster) } : {};
  return { apiVersion, kind: "ExecCredential", spec: { interactive: false, ...told } };
}

function clusterInfo({ server, caData, caFile, skipTLSVerify, tlsServerName }: Cluster): object {
  const ca = caData ?? (caFile && readBounded(caFile, SMALL_FILE_BYTES_MAX).toString("base64"));
  return {
    server,
    ...(ca ? { "certificate-authority-data": ca } : {}),
    ...(skipTLSVerify ? { "insecure-skip-tls-verify": true } : {}),
    ...(tlsServerName ? { "tls-server-name": tlsServerName } : {}),
  };
}

function tokenOf(output: string, apiVersion: string | null | undefined, clock: Clock): Token {
  const credential = parsed(output);
  if (!isObject(credential) || credential.kind !== "ExecCredential")
    throw new Error(`printed no ExecCredential; ${BY_HAND}`);
  if (apiVersion && credential.apiVersion !== apiVersion)
    throw new Error(
      `printed another apiVersion than the ${apiVersion} of the kubeconfig; correct users[].user.exec.apiVersion`,
    );
  const { token, clientCertificateData, expirationTimestamp } = isObject(credential.status) ? credential.status : {};
  if (typeof token !== "string" || token === "") {
    if (clientCertificateData)
      throw new Error("printed a client certificate, which is not supported; let it print a token");
    throw new Error(`printed no status.token; ${BY_HAND}`);
  }
  const value = token.trim();
  if (!IN_HEADERS.test(value))
    throw new Error("printed a status.token that fits into no header; let it print the token alone");
  if (expirationTimestamp === undefined || expirationTimestamp === null) return { value, endMs: null };
  const endMs = parseTime(String(expirationTimestamp));
  if (Number.isNaN(endMs)) throw new Error("printed a status.expirationTimestamp that is no time; correct the plug-in");
  if (endMs <= clock.wallMs())
    throw new Error(`printed a token that ended at ${isoTime(endMs)}; log in again, or set this machine's clock`);
  return { value, endMs };
}

const IN_HEADERS = /^[\x21-\x7e]+$/;

function parsed(output: string): unknown {
  try {
    return JSON.parse(output);
  } catch {
    // The message would show the text, which can be a token.
    throw new Error(`printed no JSON; ${BY_HAND}`);
  }
}
