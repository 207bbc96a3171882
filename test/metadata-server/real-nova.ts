import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { skippedFor } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";

const HANDLER = join(import.meta.dirname, "nova-handler.py");
/** Debian's package is for Debian's Python, whichever other one comes first in PATH. */
const PYTHON = "/usr/bin/python3";
const PACKAGE = "/usr/lib/python3/dist-packages/nova/api/metadata/handler.py";

/** Why Nova's handler cannot be run here; null: it can. In CI it must. */
export function whyNoNova(): string | null {
  return existsSync(PACKAGE) ? null : skippedFor("no Nova here (Debian's package python3-nova)");
}

export interface NovaInstance {
  readonly uuid: string;
  readonly project: string;
  readonly hostname: string;
}

/** Nova's own metadata handler in a process, with `service_metadata_proxy` and a database in memory. */
export class RealNova {
  readonly #directory: string;
  readonly #process: ChildProcess;
  #output = "";
  #errors = "";

  private constructor(secret: string | null, instances: readonly NovaInstance[]) {
    this.#directory = mkdtempSync(join(tmpdir(), "holdfast-nova-"));
    const config = join(this.#directory, "nova.conf");
    writeFileSync(config, configuration(this.#directory, secret), { mode: 0o600 });
    this.#process = spawn(PYTHON, [HANDLER, config, JSON.stringify(instances)], { cwd: this.#directory });
    this.#process.stdout?.on("data", (chunk: Buffer) => {
      this.#output += chunk;
    });
    this.#process.stderr?.on("data", (chunk: Buffer) => {
      this.#errors += chunk;
    });
  }

  /** `secret`: metadata_proxy_shared_secret; null: not set. */
  static async start(secret: string | null, instances: readonly NovaInstance[]): Promise<RealNova> {
    const nova = new RealNova(secret, instances);
    await until(() => nova.#output.includes("\n") || nova.#process.exitCode !== null, "Nova to listen");
    if (nova.#process.exitCode !== null) throw new Error(`Nova has ended: ${nova.#errors}`);
    return nova;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#output.split("\n")[0]}`;
  }

  /** What Nova itself has logged. */
  get log(): string {
    return this.#errors;
  }

  /** Headers of the last request, `HTTP_X_INSTANCE_ID` and so on. */
  get lastHeaders(): Readonly<Record<string, string>> {
    return JSON.parse(this.#output.trimEnd().split("\n").at(-1) ?? "{}").headers;
  }

  async stop(): Promise<void> {
    const closed = once(this.#process, "close");
    this.#process.stdin?.end();
    if (this.#process.exitCode === null) await closed;
    rmSync(this.#directory, { recursive: true });
  }
}

function configuration(directory: string, secret: string | null): string {
  return [
    "[DEFAULT]",
    `state_path = ${directory}`,
    "[database]",
    "connection = sqlite://",
    "[api]",
    "local_metadata_per_cell = true",
    "metadata_cache_expiration = 0",
    "[neutron]",
    "service_metadata_proxy = true",
    ...(secret === null ? [] : [`metadata_proxy_shared_secret = ${secret}`]),
    "",
  ].join("\n");
}
