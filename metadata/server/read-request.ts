import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { HeaderLine } from "../proxy/client-headers.ts";
import { LISTENER_HEADERS } from "../proxy/listener-headers.ts";

/** Of a request's body: a guest's password has at most 1,020, and a backend of a tenant has no reason to get files. */
export const REQUEST_BODY_BYTES_MAX = 64 << 10;

const LEFT = "the client left in the middle of its request";

/** Where a request comes from, in the words of the listener and not of the guest. */
export interface Origin {
  readonly network: string;
  readonly source: Address;
  /** The guest itself sent X-Forwarded-For. */
  readonly clientForwarded: boolean;
}

/** What the listener of this node says. null: it says nothing, or not just one thing. */
export function originByListener(lines: readonly HeaderLine[]): Origin | null {
  const network = one(lines, LISTENER_HEADERS.network);
  const source = one(lines, LISTENER_HEADERS.source);
  const forwarded = lines.filter(([name]) => name.toLowerCase() === LISTENER_HEADERS.clientForwarded);
  const address = source === null ? null : readAddress(source);
  if (network === null || address === null || forwarded.length > 1) return null;
  return { network, source: address, clientForwarded: forwarded[0]?.[1].trim() === "1" };
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
  return { network, source: address, clientForwarded };
}

function one(lines: readonly HeaderLine[], wanted: string): string | null {
  const found = lines.filter(([name]) => name.toLowerCase() === wanted);
  return found.length === 1 && found[0]?.[1] ? found[0][1].trim() || null : null;
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
