import { describe, expect } from "vitest";
import type { ApiAnswer } from "../harness/daemon.ts";
import { expectSound, tableTest as test } from "./fixtures.ts";

/** What the API does not take, it refuses by key and value: `{code, message, hint}`. Nothing is changed by it. */

function expectRefused(answer: ApiAnswer, code: string, message: string): void {
  const error = answer.json();
  expect(Object.keys(error)).toEqual(["code", "message", "hint"]);
  expect(error.code, error.message).toBe(code);
  expect(error.message).toContain(message);
  expect(error.hint).not.toBe("");
}

describe("queries", () => {
  const QUERIES: [string, string][] = [
    ["/v1/networks?colour=blue", 'colour is "blue": the parameters here are former'],
    ["/v1/networks/blue?x=1", 'x is "1"'],
    ["/v1/allocations?colour=blue", 'colour is "blue": the parameters here are network, address, subnet'],
    ["/v1/allocations?network=a&network=b", 'network is ["a","b"]: expected one value'],
    ["/v1/allocations?network=", 'network is "": expected one value'],
    ["/v1/allocations?address=10.10.0.x", 'address is "10.10.0.x"'],
    ["/v1/allocations?limit=0", 'limit is "0": expected a whole number from 1 to 5000'],
    ["/v1/allocations?limit=5001", 'limit is "5001"'],
    ["/v1/allocations?limit=many", 'limit is "many"'],
    ["/v1/allocations?limit=1.5", 'limit is "1.5"'],
    ["/v1/allocations?continue=nonsense", "continue is"],
    ["/v1/allocations?continue=W10", "continue is"],
    ["/v1/allocations?continue=WyJibHVlIiw1XQ", "continue is"],
    ["/v1/claims?pod=web-0", 'pod is "web-0": the parameters here are namespace, name'],
    ["/v1/history?pod=web-0", 'pod is "web-0": the parameters here are address, network, namespace, limit'],
    ["/v1/history?address=blue", 'address is "blue"'],
    ["/v1/check?x=1", 'x is "1"'],
  ];
  test.for(QUERIES)("%s", async ([path, message], { daemon }) => {
    const answer = await daemon.get(path);
    expect(answer.status).toBe(400);
    expectRefused(answer, "REQUEST_INVALID", message);
  });
});

describe("bodies", () => {
  const BODIES: [string, unknown, string][] = [
    ["/v1/release", "nonsense", "body is refused"],
    ["/v1/release", "null", "body is null"],
    ["/v1/release", [], "body is []: expected a JSON object"],
    ["/v1/release", {}, "network is absent: expected the name of a network"],
    ["/v1/release", { network: "blue" }, "address is absent"],
    ["/v1/release", { network: "blue", address: 7 }, "address is 7"],
    ["/v1/release", { network: "blue", address: "10.10.0.x" }, 'address is "10.10.0.x"'],
    ["/v1/release", { network: 7, address: "10.10.0.1" }, "network is 7"],
    ["/v1/release", { network: "blue", address: "10.10.0.1", force: "yes" }, 'force is "yes": expected true or false'],
    [
      "/v1/release",
      { network: "blue", address: "10.10.0.1", why: true },
      "why is true: the keys here are network, address, force, dryRun",
    ],
    ["/v1/apply", {}, "objects is absent: expected a list"],
    ["/v1/apply", { objects: {} }, "objects is {}"],
    ["/v1/delete", { objects: "vm1" }, 'objects is "vm1"'],
    ["/v1/backup", { path: "relative.db" }, 'path is "relative.db": expected an absolute path'],
    ["/v1/rebuild", {}, "from is absent: expected either from (a backup) or empty: true"],
    ["/v1/rebuild", { empty: true }, "empty is true: the state database is in use and sound"],
  ];
  test.for(BODIES)("%s %j", async ([path, body, message], { daemon }) => {
    const answer = await daemon.post(path, body);
    expect(answer.status).toBe(400);
    expectRefused(answer, "REQUEST_INVALID", message);
    await expectSound(daemon);
  });

  test("an address is accepted in any spelling", async ({ daemon }) => {
    const answer = await daemon.post("/v1/release", { network: "blue", address: "FD10:0:0::1/64" });
    expectRefused(answer, "NOT_FOUND", "there is no allocation of fd10::1 on network blue");
  });
});
