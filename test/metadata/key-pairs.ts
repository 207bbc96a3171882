import { Buffer } from "node:buffer";

/** A line of `authorized_keys` of a type: its base64 has the type and as many bytes as `comment` makes different. */
export function publicKey(type: string, comment: string): string {
  const field = (bytes: Buffer) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  };
  const key = Buffer.alloc(32, comment === "" ? "no comment" : comment);
  const blob = Buffer.concat([field(Buffer.from(type)), field(key)]).toString("base64");
  return comment === "" ? `${type} ${blob}` : `${type} ${blob} ${comment}`;
}
