/** What the fuzz test feeds the shim: answers, stdin, environments, lines of shim.conf. */
import fc from "fast-check";

/** What the daemon does with one connection. */
export interface Answer {
  readonly chunks: readonly Buffer[];
  readonly before: boolean; // it answers before it has read the request
  readonly end: "close" | "reset" | "stay";
}

const noise = fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes));
const statusLine = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(200, 200, 400, 404, 408, 500, 503).map((code) => `HTTP/1.1 ${code} x`),
  },
  fc.constantFrom("HTTP/1.0 200", "HTTP/1.1 2x0 OK", "HTTP/1.1  200 OK", "HTTP/1.1 100 Continue", "http/1.1 200", ""),
);
const field = fc.oneof(
  fc.constantFrom(
    "Content-Length: 5",
    "Content-Length: -1",
    "content-length:99999999999999999999",
    "Content-Length: 1e3",
  ),
  fc.constantFrom("Transfer-Encoding: chunked", "Connection: close", "no colon", ": no name", " folded", "X: \0\xff"),
  fc.string({ unit: "binary", maxLength: 30 }),
);
const body = fc.oneof(
  fc.constantFrom("", "{}", "{", '{"ips":[]}', '{"cniVersion":"1.0.0","code":11,"msg":"é","details":""}', "<html>\xff"),
  fc.string({ unit: "binary", maxLength: 200 }),
  fc.nat(1_100_000).map((length) => `{${"x".repeat(length)}`),
);

/** An answer that is right but for what the flags and fields break. */
const message = fc
  .record({
    statusLine,
    fields: fc.array(field, { maxLength: 3 }),
    body,
    length: fc.constantFrom("right", "right", "right", "none", "short", "long"),
    lineEnd: fc.constantFrom("\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r"),
  })
  .map((parts) => {
    const bytes = Buffer.from(parts.body);
    const said = { right: bytes.length, short: bytes.length >> 1, long: bytes.length + 7, none: undefined }[
      parts.length
    ];
    const fields = said === undefined ? parts.fields : [`Content-Length: ${said}`, ...parts.fields];
    const head = [parts.statusLine, ...fields, "", ""].join(parts.lineEnd);
    return Buffer.concat([Buffer.from(head), bytes]);
  });

/** Overwrites, cuts or inserts some bytes. */
const edit = fc.record({ at: fc.nat(2_000), cut: fc.nat(4), insert: noise });
const mutated = fc.tuple(message, fc.array(edit, { maxLength: 3 })).map(([bytes, edits]) =>
  edits.reduce((all, { at, cut, insert }) => {
    const from = at % (all.length + 1);
    return Buffer.concat([all.subarray(0, from), insert, all.subarray(from + cut)]);
  }, bytes),
);

export const answer: fc.Arbitrary<Answer> = fc
  .record({
    bytes: fc.oneof({ weight: 4, arbitrary: message }, { weight: 4, arbitrary: mutated }, noise),
    cuts: fc.array(fc.nat(400), { maxLength: 6 }),
    before: fc.boolean(),
    end: fc.oneof(
      { weight: 30, arbitrary: fc.constant("close" as const) },
      fc.constantFrom("reset" as const, "stay" as const),
    ),
  })
  .map(({ bytes, cuts, ...how }) => {
    const edges = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
    const chunks = edges.slice(1).map((edge, i) => bytes.subarray(edges[i], edge));
    return { chunks, ...how };
  });

/** stdin: text, bytes, and sizes on both sides of the bound. */
export const stdin = fc.oneof(
  fc.string({ unit: "binary", maxLength: 2_000 }).map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)),
  fc.nat(600_000).map((length) => Buffer.alloc(length, "x\0é")),
);
const bytesOfVariable = fc
  .uint8Array({ min: 1, max: 255, maxLength: 40 })
  .map((bytes) => Buffer.from(bytes))
  .filter((bytes) => bytes.at(-1) !== 0x0a); // sh cannot pass a line end at the end
/** Some variables with bytes that no runtime would set. */
export const environment = fc.dictionary(
  fc.constantFrom("CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_COMMAND", "HOLDFAST_SHIM_CONF"),
  bytesOfVariable,
  { maxKeys: 2 },
);

/** A line of shim.conf. */
export const confLine = fc.oneof(
  fc.constantFrom("socket=/a", "spool=/b", "socket = /c ", "# x", "", "=", "spool=", "\r", "so\0cket=/d"),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.nat(20_000).map((length) => "y".repeat(length)),
);
