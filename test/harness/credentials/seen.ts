import { readdirSync, readFileSync, writeFileSync } from "node:fs";

/**
 * Of a process and all that descend from it: arguments and environment, as every user or the same one can read them.
 */
export function seenOf(pid: number): string {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((one) => /^\d+$/.test(one))) {
    const parent = /^\d+ \(.*\) \S (\d+)/s.exec(text(`/proc/${name}/stat`))?.[1];
    if (parent !== undefined) parents.set(Number(name), Number(parent));
  }
  const family = new Set([pid]);
  // Children have higher numbers than their parents, until the numbers begin again.
  for (let size = 0; size !== family.size; ) {
    size = family.size;
    for (const [child, parent] of parents) if (family.has(parent)) family.add(child);
  }
  return [...family].map((one) => text(`/proc/${one}/cmdline`) + text(`/proc/${one}/environ`)).join("\n");
}

/** A process may end meanwhile. */
function text(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Writes a kubeconfig with this `user` beside another one's server. */
export function kubeconfigWith(
  user: object,
  { path, server, ca }: { path: string; server: string; ca: string },
): string {
  const content = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server, "certificate-authority-data": Buffer.from(ca).toString("base64") } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  writeFileSync(path, JSON.stringify(content, null, 2), { mode: 0o600 });
  return path;
}
