import { rmSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "../harness/daemon.ts";
import { TestMetadataServer } from "../harness/metadata/server.ts";
import { FakeIdentity } from "./fake-identity.ts";

/** A real `holdfast metadata` process behind which a stand-in for the daemon knows who is where. */
export class MetadataServer extends TestMetadataServer {
  readonly identity: FakeIdentity;

  private constructor(folder: string, identity: FakeIdentity, args: readonly string[]) {
    super(folder, { args });
    this.identity = identity;
  }

  /** `args` may depend on the folder. */
  static async start(
    args: readonly string[] | ((folder: string) => readonly string[]) = [],
  ): Promise<MetadataServer> {
    const folder = newFolder();
    const identity = await FakeIdentity.start(join(folder, "identity.sock"));
    const server = new MetadataServer(folder, identity, typeof args === "function" ? args(folder) : args);
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
    rmSync(this.folder, { recursive: true, force: true });
  }
}
