import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { Visitors } from "../../../ui/visitors.ts";

const TOKEN = "the-token";
const COOKIE = `holdfast-ui-8000=${TOKEN}`;
const visitors = new Visitors(TOKEN, 8_000);

const ask = (headers: Record<string, string>, url = "/networks/blue?at=1", method = "GET") =>
  visitors.judge({
    method,
    url,
    headers: { host: "127.0.0.1:8000", ...headers },
  } as unknown as IncomingMessage);

test("whoever has the token's cookie is welcome, by either name of this machine", () => {
  expect(ask({ cookie: `a=b; ${COOKIE}` })).toMatchObject({
    kind: "welcome",
    url: { pathname: "/networks/blue" },
  });
  expect(ask({ cookie: COOKIE, host: "localhost:8000" })).toMatchObject({ kind: "welcome" });
  expect(ask({ cookie: COOKIE, origin: "http://127.0.0.1:8000" }, "/stream", "HEAD")).toMatchObject({
    kind: "welcome",
  });
});

test("the token of the URL becomes a cookie, and leaves the URL", () => {
  expect(ask({}, `/networks/blue?at=1&t=${TOKEN}&x=y`)).toEqual({
    kind: "enter",
    location: "/networks/blue?at=1&x=y",
    cookie: `${COOKIE}; HttpOnly; SameSite=Strict; Path=/`,
  });
  expect(ask({}, `//evil.example/?t=${TOKEN}`)).toMatchObject({ location: "/evil.example/" });
  expect(ask({}, `/\\evil.example/?t=${TOKEN}`)).toMatchObject({
    location: expect.not.stringMatching(/^\/[/\\]/),
  });
});

test.each([
  ["without a token", {}, "GET", 403],
  ["with another token", { cookie: "holdfast-ui-8000=the-tokem" }, "GET", 403],
  ["with a part of the token", { cookie: "holdfast-ui-8000=the" }, "GET", 403],
  ["with the cookie of another port", { cookie: `holdfast-ui-8001=${TOKEN}` }, "GET", 403],
  ["for another host", { cookie: COOKIE, host: "evil.example:8000" }, "GET", 403],
  ["for another port", { cookie: COOKIE, host: "127.0.0.1:80" }, "GET", 403],
  ["without a host", { cookie: COOKIE, host: "" }, "GET", 403],
  ["from another site", { cookie: COOKIE, origin: "https://evil.example" }, "GET", 403],
  ["from a site without a name", { cookie: COOKIE, origin: "null" }, "GET", 403],
  ["that would change something", { cookie: COOKIE }, "POST", 405],
])("a request %s is refused", (_, headers, method, status) => {
  expect(ask(headers, "/", method)).toMatchObject({ kind: "refused", status });
});

test.each(["http://evil.example/", "*", "x", ":8000/"])("%s is no path of this server", (url) => {
  expect(ask({ cookie: COOKIE }, url)).toMatchObject({ kind: "refused" });
});

test("a token of another length in the URL is no token", () => {
  for (const given of ["", "t", `${TOKEN}x`]) expect(ask({}, `/?t=${given}`)).toMatchObject({ status: 403 });
});
