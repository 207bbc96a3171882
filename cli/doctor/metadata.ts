import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";
import type { NodeAbilities } from "../../guests/probe.ts";
import { AS_ROOT, run } from "./run.ts";

const UNIT = "holdfast-metadata.target";
const PROBE_AGAIN =
  "see docs/metadata-listener.md, Which interfaces are served; holdfast metadata-net --probe tries it again";

/** What guests' metadata needs, where the units that serve it are enabled. */
export async function examineMetadata(root: string, probe: () => Promise<NodeAbilities>): Promise<Diagnosis[]> {
  const { ok, unknown } = part("metadata");
  if (!existsSync(join(root, "run/systemd/system"))) return [];
  const enabled = (await run("systemctl", ["is-enabled", UNIT])).stdout.trim();
  if (enabled !== "enabled") return ok(`off; systemctl enable --now ${UNIT} serves it`);
  try {
    const { items } = await probe();
    return items.flatMap(({ name, serves, ok: serving, notes }) =>
      part(`metadata: ${name}`)[serving ? "ok" : serves === "everybody" ? "failed" : "warning"](
        [`for ${serves}`, ...notes].join("; "),
        serving ? "" : PROBE_AGAIN,
      ),
    );
  } catch (error) {
    return unknown((error as Error).message, AS_ROOT);
  }
}
