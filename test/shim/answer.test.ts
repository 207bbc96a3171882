/** What the shim makes of the daemon's answer, good or odd, for each verb. */
import { describe, expect, test } from "vitest";
import { always, httpAnswer, type Script, startDaemon } from "./daemon.ts";
import { awayCode, BINARIES, type Binary, cniError, FAILING_VERBS, runVerb, VERBS, type Verb } from "./harness.ts";

const REFUSAL = '{"cniVersion":"1.1.0","code":120,"msg":"10.0.0.5 is held by vm-a","details":"hint"}';
const RESULT = '{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.5/24"}]}';

/** Runs a verb against a daemon that follows the script. */
async function call(binary: Binary, verb: Verb, script: Script, stdin = "{}") {
  const daemon = await startDaemon(script);
  return { ...(await runVerb(binary, verb, { socketPath: daemon.socketPath, stdin })), daemon };
}

const LONG = "x".repeat(17 * 1024);
/**
 * Answers that nobody should understand, and what the shim says of them. Those that end too early are in
 * next-daemon.test.ts.
 */
const ODD: [string, string | Buffer, string][] = [
  ["garbage", "\x00\x01\xff garbage\r\n\r\n", "it is not HTTP/1"],
  ["another protocol", "HTTP/2 200\r\n\r\n{}", "it is not HTTP/1"],
  ["a status of two digits", "HTTP/1.1 20 OK\r\n\r\n{}", "its status line is malformed"],
  ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n{}", "its status line is malformed"],
  ["a status of letters", "HTTP/1.1 abc OK\r\n\r\n{}", "its status line is malformed"],
  ["an empty status line", "HTTP/1.1 \r\n\r\n{}", "its status line is malformed"],
  ["an interim status", "HTTP/1.1 100 Continue\r\n\r\n", "its status is not a final one"],
  ["status 000", "HTTP/1.1 000 Zero\r\n\r\n", "its status is not a final one"],
  ["a length of words", "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}", "its Content-Length is malformed"],
  ["an empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n{}", "its Content-Length is malformed"],
  ["a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", "its Content-Length is malformed"],
  ["two numbers", "HTTP/1.1 200 OK\r\nContent-Length: 2 2\r\n\r\n{}", "its Content-Length is malformed"],
  ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "given twice"],
  ["chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding"],
  ["an endless head", `HTTP/1.1 200 OK\r\nX: ${LONG}\r\n\r\n{}`, "its head is longer than 16 KiB"],
  ["an endless line", `HTTP/1.1 200 ${LONG}`, "its head is longer than 16 KiB"],
  ["a huge length", "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n{}", "its body is longer than 1 MiB"],
  ["a length past 64 bits", `HTTP/1.1 200 OK\r\nContent-Length: ${"9".repeat(40)}\r\n\r\n{}`, "longer than 1 MiB"],
  [
    "a length that wraps to 2",
    "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\n{}",
    "longer than 1 MiB",
  ],
  ["a huge body", Buffer.alloc(1_100_000, "HTTP/1.1 200 OK\r\n\r\n{"), "its body is longer than 1 MiB"],
];

describe.each(BINARIES)("answers, $build", (binary) => {
  test.each(VERBS)("%s, 200: the body to stdout as it is, exit 0", async (verb) => {
    const body = verb === "ADD" ? RESULT : "";
    const { status, stdout, stderr, spooled } = await call(binary, verb, always(httpAnswer(200, body)));
    expect({ status, stdout, stderr, spooled }).toEqual({ status: 0, stdout: body, stderr: "", spooled: [] });
  });

  test.each(FAILING_VERBS)("%s, another status: the CNI error to stdout as it is, exit 1", async (verb) => {
    for (const code of [400, 409, 422, 500, 503]) {
      const { status, stdout, spooled } = await call(binary, verb, always(httpAnswer(code, REFUSAL)));
      expect({ status, stdout, spooled }).toEqual({ status: 1, stdout: REFUSAL, spooled: [] });
    }
  });

  test.each(FAILING_VERBS)("%s, another status without a CNI error: wrapped in one", async (verb) => {
    const html = await call(binary, verb, always(httpAnswer(502, '<h1>Bad\n"Gateway"</h1>\xff')));
    expect(cniError(html)).toMatchObject({
      code: awayCode(verb),
      msg: `holdfast daemon at ${html.daemon.socketPath} answered with status 502`,
      details: '<h1>Bad\n"Gateway"</h1>\xff',
    });
    const empty = cniError(await call(binary, verb, always(httpAnswer(404, ""))));
    expect(empty).toMatchObject({ code: awayCode(verb), details: "" });
    const long = cniError(await call(binary, verb, always(httpAnswer(500, "é".repeat(1000)))));
    expect(long.details).toBe("é".repeat(256));
  });

  test("ADD, 200 without a result: an error, for the runtime would choke on it", async () => {
    for (const body of ["", "OK", "[]"]) {
      const outcome = await call(binary, "ADD", always(httpAnswer(200, body)));
      const msg = expect.stringMatching(/ answered with status 200 and no CNI result$/);
      expect(cniError(outcome)).toMatchObject({ code: 11, msg, details: body });
    }
  });

  test("a body that ends with the connection, and header fields in any case, are understood", async () => {
    const answers = [
      `HTTP/1.1 200 OK\r\n\r\n${RESULT}`,
      `HTTP/1.0 200\r\nServer: x\r\nConnection: close\r\n\r\n${RESULT}`,
      `HTTP/1.1 200 OK\r\nCONTENT-LENGTH:\t ${RESULT.length} \r\n\r\n${RESULT}`,
      `HTTP/1.1 200 OK\r\nX-Content-Length: 3\r\n\r\n${RESULT}`,
      `HTTP/1.1 200 OK\r\ncontent-length: ${RESULT.length}\r\n\r\n${RESULT} and more than was promised`,
    ];
    for (const answer of answers) {
      expect(await call(binary, "ADD", always(answer))).toMatchObject({ status: 0, stdout: RESULT });
    }
  });

  test("a whole answer is enough: the daemon need not close", async () => {
    const outcome = await call(binary, "ADD", (connection) => connection.write(httpAnswer(200, RESULT)));
    expect(outcome).toMatchObject({ status: 0, stdout: RESULT });
  });

  test("the largest body passes, byte by byte the same", async () => {
    const body = `{"x":"${"é".repeat((1024 * 1024 - 8) / 2)}"}`;
    expect(Buffer.byteLength(body)).toBe(1024 * 1024);
    const outcome = await call(binary, "ADD", always(httpAnswer(200, body)));
    expect(outcome.status).toBe(0);
    expect(outcome.stdout === body).toBe(true);
  });

  test("an answer in single bytes is put together", async () => {
    const bytes = [...httpAnswer(200, RESULT)];
    const outcome = await call(binary, "ADD", (connection) => {
      connection.setNoDelay();
      const timer = setInterval(() => {
        const byte = bytes.shift();
        if (byte === undefined) clearInterval(timer);
        else connection.write(Buffer.from([byte]));
      }, 1);
    });
    expect(outcome).toMatchObject({ status: 0, stdout: RESULT });
  });

  test.each(ODD)("not understood: %s", async (_reason, answer, fault) => {
    const failing = FAILING_VERBS.map(async (verb) => {
      const error = cniError(await call(binary, verb, always(answer)));
      expect(error).toMatchObject({ code: awayCode(verb), msg: expect.stringContaining(fault) });
      expect(error.msg).toMatch(/^answer of the holdfast daemon at \/.* is not understood: /);
    });
    await Promise.all(failing);
    const del = await call(binary, "DEL", always(answer));
    expect(del).toMatchObject({ status: 0, stdout: "", stderr: expect.stringContaining(fault) });
    expect(del.spooled.map(({ body }) => body)).toEqual(del.daemon.requests.map(({ body }) => body));
  });

  test.each([500, 503, 599, 408, 429, 204, 302])("DEL, %i: not done, so spooled as it was sent", async (status) => {
    const del = await call(binary, "DEL", always(httpAnswer(status, REFUSAL)), '{"name":"é\\u0001"}');
    expect(del).toMatchObject({
      status: 0,
      stdout: "",
      stderr: expect.stringContaining(`status ${status}`),
    });
    expect(del.spooled.map(({ body }) => body)).toEqual(del.daemon.requests.map(({ body }) => body));
    expect(del.spooled).toHaveLength(1);
  });

  test.each([400, 404, 413, 422])("DEL, %i: never to be accepted, so said and forgotten", async (status) => {
    const del = await call(binary, "DEL", always(httpAnswer(status, REFUSAL)));
    expect(del).toMatchObject({ status: 0, stdout: "", spooled: [] });
    expect(del.stderr).toContain("refused, not tried again");
    expect(del.stderr).toContain(REFUSAL);
  });
});
