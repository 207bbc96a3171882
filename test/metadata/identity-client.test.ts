import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IdentityClient } from "../../identity/client.ts";
import { systemClock } from "../../platform/time.ts";
import { identity } from "../metadata-server/fake-identity.ts";

test("a daemon that hangs costs a guest one time-out, also on a kept connection", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-client-"));
  const body = JSON.stringify({ network: "blue", identity: identity() });
  const open = new Set<Socket>();
  let asked = 0;
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("data", () => {
      asked += 1;
      if (asked === 1) socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
  });
  server.listen(join(folder, "identity.sock"));
  await once(server, "listening");
  const client = new IdentityClient(join(folder, "identity.sock"), systemClock);
  try {
    const subject = { kind: "address", network: "blue", address: "10.10.0.5" } as const;
    expect(await client.find(subject)).toEqual(identity());
    await expect(client.find(subject)).rejects.toThrow("no answer in time");
    expect([asked, open.size]).toEqual([2, 1]);
  } finally {
    await client.close();
    for (const socket of open) socket.destroy();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
