import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import type { NodeAbilities } from "../../guests/probe.ts";
import { AS_ROOT, run } from "./run.ts";

const UNIT = "holdfast-metadata.target";

/** What guests' metadata needs, where the units that serve it are enabled. */
export async function examineMetadata(root: string, probe: () => Promise<NodeAbilities>): Promise<Diagnosis[]> {
  const part = "metadata";
  if (!existsSync(join(root, "run/systemd/system"))) return [];
  const enabled = (await run("systemctl", ["is-enabled", UNIT])).stdout.trim();
  if (enabled !== "enabled")
    return [{ part, state: "ok", found: `off; systemctl enable --now ${UNIT} serves it`, fix: "" }];
  try {
    const { items } = await probe();
    return items.map(({ name, serves, ok, notes }) => ({
      part: `${part}: ${name}`,
      state: ok ? "ok" : serves === "everybody" ? "failed" : "warning",
      found: [`for ${serves}`, ...notes].join("; "),
      fix: ok
        ? ""
        : "see docs/metadata-listener.md, Which interfaces are served; holdfast metadata-net --probe tries it again",
    }));
  } catch (error) {
    return [{ part, state: "unknown", found: (error as Error).message, fix: AS_ROOT }];
  }
}
