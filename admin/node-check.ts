import type { Finding } from "../ipam/finding.ts";
import { checkResolverFiles, type ResolverFiles } from "../platform/resolv-conf.ts";
import type { AdminStore } from "../store/node-store.ts";

export interface NodeCheckParts {
  readonly store: Pick<AdminStore, "check" | "networks" | "appliedDefinition">;
  readonly resolverFiles: ResolverFiles;
  notReady(): string | null;
  spool(): { readonly waiting: number; readonly bad: number };
  /** Besides what the store knows. */
  notes(): string[];
  /** About the daemon itself. */
  findings(): Promise<Finding[]> | Finding[];
}

export async function checkNode(parts: NodeCheckParts): Promise<Finding[]> {
  const { store, resolverFiles } = parts;
  const resolvers = await checkResolverFiles(store, resolverFiles);
  const found = [...(await store.check()), ...checkSpool(parts.spool()), ...resolvers, ...(await parts.findings())];
  return [...found, ...checkReady(parts.notReady(), found)];
}

/** Why no ADD is served now, unless a finding already says so. */
function checkReady(reason: string | null, found: readonly Finding[]): Finding[] {
  if (reason === null || found.some(({ whyNotReady }) => whyNotReady === reason)) return [];
  const hint = "fix the cause above; the daemon then serves again by itself, details are in its log";
  return [{ invariant: "ready", message: `the daemon gives no address now: ${reason}`, hint }];
}

function checkSpool({ bad }: { bad: number }): Finding[] {
  if (bad === 0) return [];
  const message = `${bad} spooled requests are not understood; the addresses of their containers may still be held`;
  const hint =
    "read the *.bad files in the spool directory, see holdfast list for their containers, then delete the files";
  return [{ invariant: "spool", message, hint }];
}
