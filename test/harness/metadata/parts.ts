import { chmodSync } from "node:fs";
import { join } from "node:path";
import { namesOf } from "../../../guests/kernel/names.ts";
import { run, type TestDaemon } from "../daemon.ts";
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

  private constructor(
    { folder, socket }: Pick<TestDaemon, "folder" | "socket">,
    options: MetadataPartsOptions,
  ) {
    this.server = new TestMetadataServer(folder, { args: options.serverArgs ?? [], metricsAddress: "off" });
    this.runDir = join(folder, "net");
    this.#daemonSocket = socket;
    this.#netArgs = options.netArgs ?? [];
  }

  static async start(
    daemon: Pick<TestDaemon, "folder" | "socket">,
    options: MetadataPartsOptions = {},
  ): Promise<MetadataParts> {
    // haproxy is not root, and has to reach the server's socket in there.
    chmodSync(daemon.folder, 0o711);
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

  /** Ends both; metadata-net removes what it made. */
  async stop(): Promise<void> {
    await this.net?.end();
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
      "--metrics-address",
      "off",
      ...options.args,
    ],
    options.within,
  );
}

/** Namespaces, links and tables on this machine that the metadata-net of a run folder has made: none, after its end. */
export async function leftOver(runDir: string): Promise<string[]> {
  const { namespace, linkPrefix, table } = namesOf(runDir);
  const [spaces, links, tables] = await Promise.all([
    run("ip", ["netns", "list"]),
    run("ip", ["-o", "link", "show"]),
    run("nft", ["list", "tables"]),
  ]);
  const words = `${spaces.stdout}\n${links.stdout}\n${tables.stdout}`.split(/[\s:@]+/);
  const made = words.filter(
    (word) => word.startsWith(namespace) || word.startsWith(linkPrefix) || word.startsWith(table),
  );
  return [...new Set(made)].sort();
}
