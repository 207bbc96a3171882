import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { readBody } from "../../metadata/server/read-request.ts";
import { RequestScheduler } from "../../metadata/server/request-scheduler.ts";
import { systemClock } from "../../platform/time.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("all requests begin in order, a few in each turn, also those that come later", async () => {
  const scheduler = new RequestScheduler(systemClock);
  const begun: number[] = [];
  const inTurn: number[] = [];
  for (let n = 0; n < 30; n++) scheduler.begin(() => begun.push(n));
  inTurn.push(begun.length);
  for (let n = 30; n < 40; n++) {
    await turn();
    scheduler.begin(() => begun.push(n));
    inTurn.push(begun.length - inTurn.reduce((a, b) => a + b));
  }
  while (begun.length < 40) {
    await turn();
    inTurn.push(begun.length - inTurn.reduce((a, b) => a + b));
  }
  expect(begun).toEqual(Array.from({ length: 40 }, (_, n) => n));
  expect(Math.max(...inTurn)).toBeLessThanOrEqual(4);
  await turn();
  // Nobody waits: the first are begun at once, and still no more than a few.
  for (let n = 40; n < 60; n++) scheduler.begin(() => begun.push(n));
  expect(begun).toHaveLength(44);
});

test("the body of a request that was aborted before its turn is not waited for", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const guest = connect((server.address() as AddressInfo).port, "127.0.0.1");
  guest.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  const [incoming, outgoing] = await once(server, "request");
  guest.destroy();
  await once(outgoing, "close");
  await turn();
  await expect(readBody(incoming)).rejects.toThrow("left in the middle");
  server.close();
}, 10_000);
