import { createHash } from "node:crypto";

/** Names of what one metadata-net creates on a node: unique to it, and recognisable after a crash. */
export interface Names {
  /** Four hex digits derived from the run folder, so that two instances do not collide. */
  readonly tag: string;
  /** `nft list table bridge …` */
  readonly table: string;
  /** Of every network namespace in /run/netns. */
  readonly namespacePrefix: string;
  /** Of every link on the host. */
  readonly linkPrefix: string;
}

export interface ListenerNames {
  readonly namespace: string;
  /** Link on the host, in 15 characters. */
  readonly link: string;
  /** Begins with fe:ff: a bridge takes the lowest address of its ports. */
  readonly hostMac: string;
  /** Of the end in the namespace: derived from the network alone, so that it is the same on every node. */
  readonly mac: string;
}

export function namesOf(runDir: string): Names {
  const tag = digest(runDir).toString("hex").slice(0, 4);
  return {
    tag,
    table: `holdfast_metadata_${tag}`,
    namespacePrefix: `holdfast-md-${tag}-`,
    linkPrefix: `hfm${tag}`,
  };
}

/** `attempt`: from 1; further attempts are for a network whose first names are taken. */
export function listenerNames(
  { tag, namespacePrefix, linkPrefix }: Names,
  network: string,
  attempt = 0,
): ListenerNames {
  // "/" is in no network's name.
  const hash = attempt === 0 ? digest(network) : digest(`${network}/${attempt}`);
  const mac = Buffer.from(hash.subarray(0, 6));
  // Locally administered, for one station.
  mac[0] = ((mac[0] as number) & 0xfc) | 0x02;
  return {
    namespace: namespacePrefix + hash.toString("hex").slice(0, 12),
    // All that fits: 48 bits in eight letters, digits, "-" and "_".
    link: linkPrefix + hash.subarray(0, 6).toString("base64url"),
    hostMac: macText(Buffer.concat([Buffer.from([0xfe, 0xff]), digest(`${tag} ${network}`).subarray(0, 4)])),
    mac: macText(mac),
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function macText(bytes: Buffer): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}
