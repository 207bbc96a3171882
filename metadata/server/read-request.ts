import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { HeaderLine } from "../../guests/haproxy/client-headers.ts";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import type { IdentitySubject } from "../../identity/source.ts";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { REQUEST_BODY_BYTES_MAX } from "../../platform/listeners/listeners.ts";

const LEFT = "the client left in the middle of its request";

/** Where a request comes from, in the words of the listener and not of the guest. */
export interface Origin {
  readonly subject: IdentitySubject;
  /** The guest's address on the subject's network: the recorded one. null: the identity says it. */
  readonly source: Address | null;
  /** What the guest calls itself, for logs. null: that is the source. */
  readonly claimed: string | null;
  /** The guest itself sent X-Forwarded-For. */
  readonly clientForwarded: boolean;
}

/** What the listener of this node says. null: it says nothing, or not just one thing. */
export function originByListener(lines: readonly HeaderLine[]): Origin | null {
  const said = readListener(lines);
  if (said === null) return null;
  const { network, subject: subjectText, source: sourceText = "", claimed, clientForwarded } = said;
  if (!network || !subjectText) return null;
  const source = sourceText === "" ? null : readAddress(sourceText);
  if (sourceText !== "" && source === null) return null;
  const subject = readSubject(subjectText, network);
  return subject && { subject, source, claimed: claimed || null, clientForwarded: clientForwarded === "1" };
}

type Said = { -readonly [Key in keyof typeof LISTENER_HEADERS]?: string };

const LISTENER_KEYS: ReadonlyMap<string, keyof Said> = new Map(
  Object.entries(LISTENER_HEADERS).map(([key, name]) => [name, key as keyof Said]),
);

/** null: something is said twice. */
function readListener(lines: readonly HeaderLine[]): Said | null {
  const said: Said = {};
  for (const [name, value] of lines) {
    const key = LISTENER_KEYS.get(name.toLowerCase());
    if (key === undefined) continue;
    if (said[key] !== undefined) return null;
    said[key] = value.trim();
  }
  return said;
}

/** `container/<container ID>/<interface>` or `pod/<UID>`. */
function readSubject(text: string, network: string): IdentitySubject | null {
  const [kind, id, name, ...more] = text.split("/").map(decoded);
  if (!id || more.length > 0) return null;
  if (kind === "pod") return name === undefined ? { kind, uid: id, network } : null;
  return kind === "container" && name ? { kind: "attachment", containerId: id, interface: name, network } : null;
}

/** null: it is no text in the spelling of encodeURIComponent. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Where the network is fixed by the deployment, the guest is the other end of the connection. */
export function originByConnection(
  network: string,
  remoteAddress: string | undefined,
  lines: readonly HeaderLine[],
): Origin | null {
  // An IPv4 client of a socket that takes both families.
  const address = readAddress((remoteAddress ?? "").replace(/^::ffff:(?=\d+\.)/i, ""));
  if (address === null) return null;
  const clientForwarded = lines.some(([name]) => /^x[^a-z0-9]forwarded[^a-z0-9]for$/i.test(name));
  const subject = { kind: "address", network, address: formatAddress(address) } as const;
  return { subject, source: address, claimed: null, clientForwarded };
}

function readAddress(text: string): Address | null {
  try {
    const address = parseAddress(text);
    return formatAddress(address) === text ? address : null;
  } catch {
    return null;
  }
}

/** The whole body; too-large: it has more than REQUEST_BODY_BYTES_MAX. Rejects when the client leaves in the middle. */
export function readBody(incoming: IncomingMessage): Promise<Buffer | "too-large"> {
  if (!announcesBody(incoming.rawHeaders)) return NO_BODY;
  const { "content-length": length = 0 } = incoming.headers;
  if (Number(length) > REQUEST_BODY_BYTES_MAX) return Promise.resolve("too-large");
  return new Promise((resolve, reject) => {
    // While the request waited for its turn: nothing more would be told of it.
    if (incoming.destroyed) reject(new Error(LEFT));
    const chunks: Buffer[] = [];
    let bytes = 0;
    incoming.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= REQUEST_BODY_BYTES_MAX) chunks.push(chunk);
      else resolve("too-large");
    });
    incoming.on("end", () => resolve(Buffer.concat(chunks)));
    incoming.on("error", reject);
    incoming.on("close", () => reject(new Error(LEFT)));
  });
}

const NO_BODY = Promise.resolve(Buffer.alloc(0));

/** From the lines as they came: most requests need no other header by its name. */
function announcesBody(raw: readonly string[]): boolean {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] as string).toLowerCase();
    if (name === "transfer-encoding" || (name === "content-length" && raw[at + 1] !== "0")) return true;
  }
  return false;
}
