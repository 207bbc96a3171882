import { createHash } from "node:crypto";

/** Names of what one metadata-net creates on a node: unique to it, and recognisable after a crash. */
export interface Names {
  /** Four hex digits derived from the run directory, so that two instances do not collide. */
  readonly tag: string;
  /** Of every nft table on the host. */
  readonly table: string;
  /** The listener's, in /run/netns. */
  readonly namespace: string;
  /** Of every link on the host. */
  readonly linkPrefix: string;
}

export function namesOf(runDir: string): Names {
  const tag = createHash("sha256").update(runDir).digest("hex").slice(0, 4);
  return {
    tag,
    table: `holdfast_metadata_${tag}`,
    namespace: `holdfast-md-${tag}`,
    linkPrefix: `hfm${tag}`,
  };
}

/** The outer end of a door: at most 14 characters. */
export function doorLink({ linkPrefix }: Names, door: string): string {
  if (door === "main") return `${linkPrefix}main`;
  return linkPrefix + createHash("sha256").update(door).digest("base64url").slice(0, 7);
}
