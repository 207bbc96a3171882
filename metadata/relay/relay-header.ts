/** Signature of the PROXY protocol, version 2. */
const SIGNATURE = Buffer.from([0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]);
/** With version and command, family, and the length of the rest. */
const FIXED_BYTES = 16;
const PROXY_COMMAND = 0x21;
/** Bytes of the addresses by family and transport: TCP over IPv4 and over IPv6. */
const ADDRESS_BYTES: Readonly<Record<number, number>> = { 17: 12, 33: 36 };
const UNIQUE_ID = 0x05;

export interface RelayHeader {
  /** The port of a network, as haproxy was told to call it. */
  readonly key: string;
  /** Where the guest's own bytes begin. */
  readonly bytes: number;
}

/** What haproxy says before the bytes of a connection. null: it is not complete. Throws Error when it is none. */
export function readRelayHeader(data: Buffer, bytesMax: number): RelayHeader | null {
  const known = Math.min(data.length, SIGNATURE.length);
  if (!data.subarray(0, known).equals(SIGNATURE.subarray(0, known))) throw new Error("no PROXY header");
  if (data.length < FIXED_BYTES) return null;
  const bytes = FIXED_BYTES + data.readUInt16BE(14);
  const addresses = ADDRESS_BYTES[data[13] as number];
  if (data[12] !== PROXY_COMMAND || addresses === undefined || bytes > bytesMax)
    throw new Error("a PROXY header that nobody sends here");
  if (data.length < bytes) return null;
  for (let at = FIXED_BYTES + addresses; at + 3 <= bytes; ) {
    const end = at + 3 + data.readUInt16BE(at + 1);
    if (data[at] === UNIQUE_ID && end <= bytes) return { key: data.toString("latin1", at + 3, end), bytes };
    at = end;
  }
  throw new Error("a PROXY header without the port of a network");
}
