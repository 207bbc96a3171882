import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { Visitors } from "../../../ui/visitors.ts";

const TOKEN = "the-token";
const HOST = "name.localhost:8000";
const KNOWN = { authorization: `Bearer ${TOKEN}` };
const visitors = new Visitors({ token: TOKEN, host: "name.localhost", port: 8_000 });

const ask = (headers: Record<string, string>, url = "/stream", method = "GET") =>
  visitors.judge({ method, url, headers: { host: HOST, ...headers } } as unknown as IncomingMessage);

test.each([
  ["the name of the printed URL", {}],
  ["the address", { host: "127.0.0.1:8000" }],
  ["localhost", { host: "localhost:8000" }],
  ["its own page", { origin: `http://${HOST}`, "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty" }],
  ["no browser", {}],
])("whoever sends the token reads what is there, by %s", (_, headers) => {
  for (const url of ["/stream", "/api/v1/networks?counted=false"])
    expect(ask({ ...KNOWN, ...headers }, url)).toMatchObject({ kind: "data" });
});

test.each(["/", "/page.js", "/networks/blue?at=1", "/stream/", "//api/v1/networks"])(
  "everybody may have %s, which has no secret",
  (url) => {
    expect(ask({}, url)).toMatchObject({ kind: "file" });
    expect(ask({ "sec-fetch-site": "cross-site", "sec-fetch-dest": "document" }, url)).toMatchObject({
      kind: "file",
    });
  },
);

test.each([
  ["without a token", {}, 401],
  ["with an empty one", { authorization: "Bearer " }, 401],
  ["with another one", { authorization: "Bearer the-tokem" }, 401],
  ["with a part of it", { authorization: "Bearer the" }, 401],
  ["with more than it", { authorization: `Bearer ${TOKEN}x` }, 401],
  ["with it as another scheme", { authorization: `Basic ${TOKEN}` }, 401],
  ["with it bare", { authorization: TOKEN }, 401],
  ["with it as a cookie", { cookie: `holdfast-ui-8000=${TOKEN}; t=${TOKEN}` }, 401],
  ["for another host", { ...KNOWN, host: "evil.example:8000" }, 403],
  ["for another name below localhost", { ...KNOWN, host: "other.localhost:8000" }, 403],
  ["for another port", { ...KNOWN, host: "127.0.0.1:80" }, 403],
  ["without a host", { ...KNOWN, host: "" }, 403],
  ["from another site", { ...KNOWN, origin: "https://evil.example" }, 403],
  ["from a site without a name", { ...KNOWN, origin: "null" }, 403],
  ["from the same server under another name", { ...KNOWN, origin: "http://127.0.0.1:8000" }, 403],
  ["from another port", { ...KNOWN, "sec-fetch-site": "same-site", "sec-fetch-dest": "image" }, 403],
  ["from a frame of another site", { ...KNOWN, "sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe" }, 403],
] as const)("a question %s is refused", (_, headers, status) => {
  for (const url of ["/stream", "/api/v1/networks", `/api/v1/networks?t=${TOKEN}`])
    expect(ask(headers, url)).toMatchObject({ kind: "refused", status });
});

test("what another site loads of the page is refused, and what would change something", () => {
  const foreign = { "sec-fetch-site": "same-site", "sec-fetch-dest": "script" };
  expect(ask(foreign, "/page.js")).toMatchObject({ kind: "refused", status: 403 });
  expect(ask(KNOWN, "/", "POST")).toMatchObject({ kind: "refused", status: 405 });
});

test("no refusal names what the reader alone knows", () => {
  for (const headers of [{}, { host: "evil.example" }, { origin: "null" }] as Record<string, string>[]) {
    const text = JSON.stringify(ask(headers));
    expect(text).not.toContain(TOKEN);
    expect(text).not.toContain("name.localhost");
  }
});

test.each(["http://evil.example/", "*", "x", ":8000/"])("%s is no path of this server", (url) => {
  expect(ask(KNOWN, url)).toMatchObject({ kind: "refused" });
});
