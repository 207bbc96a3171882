import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { severalAtOnce } from "../../../platform/several-at-once.ts";
import type { WantedAttachment } from "../../listeners/wire.ts";
import { BridgePorts, findGuestPorts, type GuestPort } from "./guest-ports.ts";
import { isLinkName } from "./plan.ts";
import { portOf } from "./sysfs.ts";

const file = z.record(
  z.string(),
  z.array(
    z.object({
      port: z.string().refine(isLinkName),
      ifindex: z.number().int(),
      mac: z.string().nullable(),
    }),
  ),
);

/** Namespaces that are asked at the same time, when a node is full and nothing is known yet. */
const LOOKUPS_MAX = 8;

/**
 * Which ports belong to which attachments. Kept in a file, because what can be seen at an attachment's making cannot
 * be seen later: KubeVirt renames the interface in the pod and gives it another MAC.
 */
export class PortMemory {
  readonly #path: string;
  readonly #bridgePorts = new BridgePorts();
  #known: Map<string, readonly GuestPort[]>;
  #saved = "";

  constructor(runDir: string) {
    this.#path = join(runDir, "ports.json");
    this.#known = readKnown(this.#path);
  }

  /** Looks up the ports of a network's new attachments. `again`: of those too whose ports were not found, or are gone. */
  async learn(
    network: string,
    bridge: string,
    attachments: readonly WantedAttachment[],
    again: boolean,
  ): Promise<void> {
    const unknown = attachments.filter((attachment) => {
      const ports = this.#known.get(keyOf(network, attachment));
      return (
        ports === undefined ||
        (again &&
          !(
            ports.length > 0 && ports.every(({ port, ifindex }) => portOf(bridge, port)?.ifindex === ifindex)
          ))
      );
    });
    const taken = new Set([...this.#known.values()].flat().map(({ port }) => port));
    await severalAtOnce(unknown, LOOKUPS_MAX, async (next) => {
      const key = keyOf(network, next);
      for (const { port } of this.#known.get(key) ?? []) taken.delete(port);
      const ports = await findGuestPorts(next, bridge, { bridgePorts: this.#bridgePorts, taken });
      this.#known.set(key, ports);
      for (const { port } of ports) taken.add(port);
    });
  }

  portsOf(network: string, attachment: WantedAttachment): readonly GuestPort[] {
    return this.#known.get(keyOf(network, attachment)) ?? [];
  }

  /** Forgets all but these, and writes the rest down when it has changed. */
  keep(
    networks: readonly { readonly network: string; readonly attachments: readonly WantedAttachment[] }[],
  ): void {
    const living = new Set(
      networks.flatMap(({ network, attachments }) => attachments.map((one) => keyOf(network, one))),
    );
    for (const key of this.#known.keys()) if (!living.has(key)) this.#known.delete(key);
    const text = JSON.stringify(Object.fromEntries(this.#known));
    if (text === this.#saved && existsSync(this.#path)) return;
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o711 });
    writeFileSync(`${this.#path}.new`, text, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#saved = text;
  }
}

function keyOf(network: string, { containerId, interface: name }: WantedAttachment): string {
  return `${network} ${containerId} ${name}`;
}

function readKnown(path: string): Map<string, readonly GuestPort[]> {
  try {
    return new Map(Object.entries(file.parse(JSON.parse(readFileSync(path, "utf8")))));
  } catch {
    // Not there, or cut short by a crash: everything is looked up again.
    return new Map();
  }
}
