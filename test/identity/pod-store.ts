import { rmSync } from "node:fs";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { systemClock } from "../../platform/time.ts";
import type { AttachOutcome, DetachOutcome } from "../../store/allocations.ts";
import type { AttachmentRow } from "../../store/journal/rows.ts";
import type { StateDirectory } from "../../store/journal/state-directory.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { network, newDirectory } from "../harness/daemon.ts";

/** A standalone node's store, not open yet, and pods of one container each that attach to its network blue. */
export class PodStore {
  readonly directory = newDirectory();
  readonly store: SqliteStore;
  readonly #config: object;
  #stampUs = 0;

  constructor(ipam: object) {
    this.#config = network("blue", ipam);
    const context = { clock: systemClock, node: "node-a", bootId: "boot", namespaceGone: () => false };
    this.store = new SqliteStore(this.directory, context, { info: () => {}, error: () => {} });
  }

  /** The ADD of the container of the pod `shop/launcher-<container ID>`, or of another pod with this suffix. */
  add(containerId: string, { pod = containerId, interface: name = "eth0" } = {}): Promise<AttachOutcome> {
    return this.store.attach({
      network: "blue",
      definition: parsePluginConfig(this.#config),
      definitionSource: JSON.stringify(this.#config),
      containerId,
      interface: name,
      stamp: this.#now(),
      netns: { path: `/run/netns/${containerId}`, id: "", witnessed: false },
      pod: { namespace: "shop", name: `launcher-${pod}`, uid: `uid-${pod}` },
      claim: null,
      requested: [],
      onePerFamily: false,
    });
  }

  del(containerId: string): Promise<DetachOutcome> {
    return this.store.detach({
      containerId,
      interface: "eth0",
      network: "blue",
      stamp: this.#now(),
      reason: "DEL",
    });
  }

  /** The state directory behind the store. */
  get journal(): StateDirectory {
    return (this.store as unknown as { readonly directory: StateDirectory }).directory;
  }

  /** The first attachment's address becomes another owner's. */
  async loseFirst(): Promise<void> {
    const [row] = this.journal.ledger.sql.attachmentsAfter.all(0, 1);
    await this.journal.write(({ attachments }) => attachments.markLost(row as AttachmentRow));
  }

  close(): void {
    this.store.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  #now() {
    this.#stampUs += 1;
    return { bootId: "boot", us: this.#stampUs };
  }
}
