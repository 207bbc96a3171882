import { readFileSync } from "node:fs";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import type { Finding } from "../ipam/finding.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import type { Stamp } from "../ipam/stamp.ts";

/** The plugin binary reads at most so much of its file. */
const BOOT_ID_CHARS_MAX = 63;

/** The present boot of this machine: the first line of a file. Throws an Error that names the file and the remedy. */
export function readBootId(path: string): string {
  const remedy =
    "give --boot-id-file a file whose first line is this machine's boot ID, as that of /proc/sys/kernel/random/boot_id is";
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new Error(`bootIdFile ${path} cannot be read: ${(error as Error).message}; ${remedy}`);
  }
  const line = (text.split("\n", 1)[0] as string).slice(0, BOOT_ID_CHARS_MAX);
  if (/^[0-9a-zA-Z-]+$/.test(line)) return line;
  throw new Error(`bootIdFile ${path} begins with ${JSON.stringify(line)}, which is no boot ID; ${remedy}`);
}

/**
 * The stamp of a request that has just arrived. It belongs to the present boot whatever it says: one that says
 * otherwise comes from a plugin binary that reads another boot ID than this daemon, so that their records would not
 * match. Throws RefusalError BOOT_MISMATCH.
 * See docs/decisions/0081.
 */
export function stampOfLive(present: { readonly bootId: string }, wire: CniWireRequest): Stamp {
  if (wire.bootId !== "" && wire.bootId !== present.bootId) {
    throw new RefusalError(refuse("BOOT_MISMATCH", { theirs: wire.bootId, ours: present.bootId }));
  }
  return { bootId: present.bootId, us: wire.bootUs };
}

/** Whether the plugin binary and this daemon agree on the boot, as of the last request that told. */
export class BootAgreement {
  #refusal: Refusal | null = null;
  /** What the plugin binary said with the request that was refused. */
  #theirs = "";

  /** A request was answered, or refused: for another reason perhaps, which is agreement where it says another boot ID. */
  note(wire: CniWireRequest, refusal: Refusal | null): void {
    if (refusal?.code === "BOOT_MISMATCH") {
      this.#refusal = refusal;
      this.#theirs = wire.bootId;
    } else if (wire.command !== "DEL" && wire.bootId !== this.#theirs) this.#refusal = null;
  }

  findings(): Finding[] {
    if (this.#refusal === null) return [];
    const { message, hint } = this.#refusal;
    return [{ invariant: "boot", message: `requests are refused: ${message}`, hint }];
  }
}
