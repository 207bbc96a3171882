import { rmSync } from "node:fs";
import { join } from "node:path";
import { newDirectory } from "../harness/daemon.ts";
import { TestMetadataServer } from "../harness/metadata/server.ts";
import { FakeIdentity } from "./fake-identity.ts";

/** A real `holdfast metadata` process behind which a stand-in for the daemon knows who is where. */
export class MetadataServer extends TestMetadataServer {
  readonly identity: FakeIdentity;

  private constructor(directory: string, identity: FakeIdentity, args: readonly string[]) {
    super(directory, { args });
    this.identity = identity;
  }

  /** `args` may depend on the directory. */
  static async start(
    args: readonly string[] | ((directory: string) => readonly string[]) = [],
  ): Promise<MetadataServer> {
    const directory = newDirectory();
    const identity = await FakeIdentity.start(join(directory, "identity.sock"));
    const server = new MetadataServer(directory, identity, typeof args === "function" ? args(directory) : args);
    try {
      await server.run();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  async stop(): Promise<void> {
    await this.end();
    await this.identity.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
