import { chmodSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { namesOf } from "../../../guests/kernel/names.ts";
import { HOLDFAST, run, type TestDaemon } from "../daemon.ts";
import { ProductProcess } from "../product-process.ts";
import { TestMetadataServer } from "./server.ts";

export interface MetadataPartsOptions {
  readonly serverArgs?: readonly string[];
  readonly netArgs?: readonly string[];
}

/** `holdfast metadata` and `holdfast metadata-net` beside a daemon: all that a node needs to answer its VMs. */
export class MetadataParts {
  readonly server: TestMetadataServer;
  /** The latest `holdfast metadata-net`. */
  net: ProductProcess | null = null;
  /** Where metadata-net keeps what it generates; its names of links and namespaces follow from it. */
  readonly runDir: string;
  readonly #daemonSocket: string;
  readonly #netArgs: readonly string[];
  #netLogs = "";

  private constructor({ directory, socket }: Pick<TestDaemon, "directory" | "socket">, options: MetadataPartsOptions) {
    this.server = new TestMetadataServer(directory, {
      args: options.serverArgs ?? [],
      metricsAddress: "off",
    });
    this.runDir = join(directory, "net");
    this.#daemonSocket = socket;
    this.#netArgs = options.netArgs ?? [];
  }

  static async start(
    daemon: Pick<TestDaemon, "directory" | "socket">,
    options: MetadataPartsOptions = {},
  ): Promise<MetadataParts> {
    // haproxy is not root, and has to reach the server's socket in there.
    chmodSync(daemon.directory, 0o711);
    const parts = new MetadataParts(daemon, options);
    try {
      await parts.server.run();
      parts.startNet();
      return parts;
    } catch (error) {
      await parts.stop();
      throw error;
    }
  }

  /** Everything that both have printed. */
  get log(): string {
    return `${this.server.log}${this.#netLogs}${this.net?.log ?? ""}`;
  }

  startNet(): void {
    this.#netLogs += this.net?.log ?? "";
    this.net = metadataNet({
      daemonSocket: this.#daemonSocket,
      metadataSocket: this.server.socket,
      runDir: this.runDir,
      args: this.#netArgs,
    });
  }

  /** Ends both, and takes away what metadata-net leaves. */
  async stop(): Promise<void> {
    await this.net?.end();
    await removeLeft({ runDir: this.runDir, args: this.#netArgs });
    await this.server.end();
  }
}

export interface MetadataNetOptions {
  readonly daemonSocket: string;
  readonly metadataSocket: string;
  readonly runDir: string;
  readonly args: readonly string[];
  /** The command to run it under. */
  readonly within?: readonly string[];
}

/** A real `holdfast metadata-net`. */
export function metadataNet(options: MetadataNetOptions): ProductProcess {
  return new ProductProcess(
    [
      "metadata-net",
      "--socket",
      options.daemonSocket,
      "--metadata-socket",
      options.metadataSocket,
      "--run-dir",
      options.runDir,
      "--state",
      `${options.runDir}-state`,
      "--metrics-address",
      "off",
      ...options.args,
    ],
    options.within,
  );
}

type EndedNet = Pick<MetadataNetOptions, "runDir" | "args" | "within">;

/** Takes away what an ended metadata-net has left in place: what keeps guests from others who answer. */
export async function removeLeft(ended: EndedNet): Promise<void> {
  await runOnce("--remove", ended);
  rmSync(`${ended.runDir}-state`, { recursive: true, force: true });
}

/** What the unit does before metadata-net starts: closes what was closed before a reboot. */
export function closeAtBoot(ended: EndedNet): Promise<void> {
  return runOnce("--close", ended);
}

async function runOnce(flag: "--remove" | "--close", { runDir, args, within = [] }: EndedNet): Promise<void> {
  const [command, ...words] = [...within, process.execPath, HOLDFAST];
  const own = ["--run-dir", runDir, "--state", `${runDir}-state`];
  const { code, stderr } = await run(command as string, [...words, "metadata-net", flag, ...own, ...args]);
  if (code !== 0) throw new Error(`metadata-net ${flag}: ${stderr}`);
}

/**
 * Namespaces, links, tables and routing rules on this machine that the metadata-net of a run directory has made: none,
 * after its end.
 */
export async function leftOver(runDir: string): Promise<string[]> {
  const { namespace, linkPrefix, table } = namesOf(runDir);
  const [spaces, links, tables] = await Promise.all([
    run("ip", ["netns", "list"]),
    run("ip", ["-o", "link", "show"]),
    run("nft", ["list", "tables"]),
  ]);
  const closed = join(runDir, "closed-devices");
  const devices = existsSync(closed) ? readFileSync(closed, "utf8").split("\n").filter(Boolean) : [];
  const words = `${spaces.stdout}\n${links.stdout}\n${tables.stdout}`.split(/[\s:@]+/);
  const made = words.filter(
    (word) => word.startsWith(namespace) || word.startsWith(linkPrefix) || word.startsWith(table),
  );
  return [...new Set([...made, ...devices])].sort();
}
