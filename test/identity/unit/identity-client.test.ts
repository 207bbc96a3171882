import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IdentityClient } from "../../../identity/client.ts";
import { systemClock } from "../../../platform/time.ts";
import { identity } from "../../metadata-server/fake-identity.ts";

const SUBJECT = { kind: "address", network: "blue", address: "10.10.0.5" } as const;
const BODY = JSON.stringify({ network: "blue", identity: identity() });
const ANSWER = `HTTP/1.1 200 OK\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;

/**
 * Runs work with a client of a socket. `answer` is called for each request with its connection and the number of
 * requests so far.
 */
async function withSocket(
  answer: (socket: Socket, count: number) => void,
  work: (client: IdentityClient, open: ReadonlySet<Socket>) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-client-"));
  const open = new Set<Socket>();
  let count = 0;
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    socket.on("error", () => {});
    socket.on("data", () => {
      count += 1;
      answer(socket, count);
    });
  });
  server.listen(join(directory, "identity.sock"));
  await once(server, "listening");
  const client = new IdentityClient(join(directory, "identity.sock"), systemClock);
  try {
    await work(client, open);
  } finally {
    await client.close();
    for (const socket of open) socket.destroy();
    server.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

test("a daemon that hangs costs a guest one time-out, also on a kept connection", async () => {
  let asked = 0;
  const answer = (socket: Socket, count: number) => {
    asked = count;
    if (count === 1) socket.write(ANSWER);
  };
  await withSocket(answer, async (client, open) => {
    expect(await client.find(SUBJECT)).toEqual(identity());
    expect(open.size).toBe(1);
    await expect(client.find(SUBJECT)).rejects.toThrow("no answer in time");
    expect(asked).toBe(2);
  });
});

test("a kept connection that ends under a request is replaced by a new one", async () => {
  const usedBy: Socket[] = [];
  const answer = (socket: Socket, count: number) => {
    usedBy.push(socket);
    if (count === 2) socket.destroy();
    else socket.write(ANSWER);
  };
  await withSocket(answer, async (client) => {
    await client.find(SUBJECT);
    expect(await client.find(SUBJECT)).toEqual(identity());
    expect(new Set(usedBy).size).toBe(2);
    expect(usedBy.length).toBe(3);
  });
});

test("a new connection that ends without an answer is not tried again", async () => {
  let asked = 0;
  const answer = (socket: Socket, count: number) => {
    asked = count;
    socket.destroy();
  };
  await withSocket(answer, async (client) => {
    await expect(client.find(SUBJECT)).rejects.toThrow(/identity\.sock cannot be asked: /);
    expect(asked).toBe(1);
  });
});
