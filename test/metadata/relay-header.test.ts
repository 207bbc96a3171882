import { describe, expect, test } from "vitest";
import { readRelayHeader } from "../../metadata/relay/relay-header.ts";

const SIGNATURE = "0d0a0d0a000d0a515549540a";
/** A header as haproxy makes it; `parts`: of the rest, in hexadecimal. */
function header({ command = "21", family = "11", addresses = "00".repeat(12), parts = idOf("key") } = {}) {
  const rest = Buffer.from(addresses + parts, "hex");
  const length = rest.length.toString(16).padStart(4, "0");
  return Buffer.concat([Buffer.from(SIGNATURE + command + family + length, "hex"), rest]);
}

function idOf(text: string, type = "05"): string {
  const value = Buffer.from(text);
  return `${type}${value.length.toString(16).padStart(4, "0")}${value.toString("hex")}`;
}

describe("what haproxy says of a connection", () => {
  test("names the port of a network, whatever else is in it", () => {
    for (const whole of [
      header(),
      header({ family: "21", addresses: "00".repeat(36) }),
      header({ parts: idOf("other", "02") + idOf("key") }),
    ])
      expect(readRelayHeader(Buffer.concat([whole, Buffer.from("the guest's")]), 512)).toEqual({
        key: "key",
        bytes: whole.length,
      });
  });

  test("is awaited as long as it can become one", () => {
    const whole = header();
    for (let length = 0; length < whole.length; length += 1)
      expect(readRelayHeader(whole.subarray(0, length), 512), String(length)).toBeNull();
  });

  test.each([
    ["something else", Buffer.from("GET / HTTP/1.1\r\n")],
    ["another command", header({ command: "20" })],
    ["another family", header({ family: "31" })],
    ["without the port", header({ parts: "" })],
    ["with a part beyond its end", header({ parts: "0500ff61" })],
    ["longer than any", header({ parts: idOf("x".repeat(600)) })],
  ])("is refused: %s", (_, data) => {
    expect(() => readRelayHeader(data, 512)).toThrow("PROXY header");
  });
});
