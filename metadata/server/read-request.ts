import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { IdentitySubject } from "../../identity/source.ts";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { HeaderLine } from "../proxy/client-headers.ts";
import { LISTENER_HEADERS } from "../proxy/listener-headers.ts";

/** Of a request's body: a guest's password has at most 1,020, and a backend of a tenant has no reason to get files. */
export const REQUEST_BODY_BYTES_MAX = 64 << 10;

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

/**
 * What the listener of this node says. null: it says nothing, or not just one thing. A listener of the release before
 * names no subject: its guests are whoever uses their address on the network.
 */
export function originByListener(lines: readonly HeaderLine[]): Origin | null {
  const network = one(lines, LISTENER_HEADERS.network);
  const given = valuesOf(lines, LISTENER_HEADERS.source);
  const subjects = valuesOf(lines, LISTENER_HEADERS.subject);
  const forwarded = valuesOf(lines, LISTENER_HEADERS.clientForwarded);
  if (network === null || given.length > 1 || forwarded.length > 1) return null;
  const [text = ""] = given;
  const source = text === "" ? null : readAddress(text);
  if (text !== "" && source === null) return null;
  const clientForwarded = forwarded[0] === "1";
  if (subjects.length === 0) {
    if (source === null) return null;
    const subject = { kind: "address", network, address: formatAddress(source) } as const;
    return { subject, source, claimed: null, clientForwarded };
  }
  const subject = subjects.length === 1 ? readSubject(subjects[0] as string, network) : null;
  return subject && { subject, source, claimed: one(lines, LISTENER_HEADERS.claimed), clientForwarded };
}

/** `container/<container ID>/<interface>` or `pod/<UID>`. */
function readSubject(text: string, network: string): IdentitySubject | null {
  const [kind, id, name, ...more] = text.split("/").map(decoded);
  if (!id || more.length > 0) return null;
  if (kind === "pod") return name === undefined ? { kind, uid: id, network } : null;
  return kind === "container" && name
    ? { kind: "attachment", containerId: id, interface: name, network }
    : null;
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

/** null: it is not there once, or empty. */
function one(lines: readonly HeaderLine[], wanted: string): string | null {
  const [only, ...others] = valuesOf(lines, wanted);
  return others.length === 0 ? only || null : null;
}

function valuesOf(lines: readonly HeaderLine[], wanted: string): string[] {
  return lines.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value.trim());
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
  const { "content-length": length, "transfer-encoding": coding } = incoming.headers;
  if (coding === undefined && (length === undefined || length === "0"))
    return Promise.resolve(Buffer.alloc(0));
  if (Number(length ?? 0) > REQUEST_BODY_BYTES_MAX) return Promise.resolve("too-large");
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
