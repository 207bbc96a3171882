/**
 * No end of a stream ends a process of ours. The server is written for this: a real one ends a WatchList together with
 * its bookmark only now and then.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createPlain, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSecure } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { makeCertificate } from "../harness/certificate.ts";

const ROUNDS = 3;
const CLIENT = join(import.meta.dirname, "stream-ends-client.ts");

const POD = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "a", namespace: "n", uid: "1", resourceVersion: "2" },
};
const INITIAL_END = { "k8s.io/initial-events-end": "true" };
const BOOKMARK = {
  kind: "Pod",
  apiVersion: "v1",
  metadata: { resourceVersion: "3", annotations: INITIAL_END },
};
const LIST = { kind: "PodList", apiVersion: "v1", metadata: { resourceVersion: "3" }, items: [POD] };

const EVENTS = [
  { type: "ADDED", object: POD },
  { type: "BOOKMARK", object: BOOKMARK },
]
  .map((event) => `${JSON.stringify(event)}\n`)
  .join("");

/** Ends each answer at the moment that the request names. */
function answer({ url = "", socket }: IncomingMessage, response: ServerResponse): void {
  const { searchParams } = new URL(url, "http://localhost");
  const [moment, then] = (searchParams.get("moment") ?? "").split(",");
  const text = searchParams.has("watch") ? EVENTS : JSON.stringify(LIST);
  response.writeHead(200, { "content-type": "application/json" });
  if (moment === "headers") return void response.end();
  if (moment === "part") {
    response.write(text.slice(0, text.length / 2));
    return void setImmediate(() => socket.destroy());
  }
  // In one packet with its end, as a bookmark that comes when the server ends its watches.
  if (moment === "whole") response.end(text);
  else {
    response.cork();
    response.write(text);
    if (then === "late-end") {
      response.uncork();
      return void setImmediate(() => response.end());
    }
    response.end();
    response.uncork();
  }
  if (then === "reset") response.once("finish", () => setImmediate(() => socket.destroy()));
}

for (const secure of [true, false])
  test(`a client outlives every end of its requests, over ${secure ? "TLS" : "TCP"}`, async () => {
    const directory = mkdtempSync(join(tmpdir(), "holdfast-test-"));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const { certificate, key } = secure ? makeCertificate(directory) : { certificate: "", key: "" };
    const server = secure ? createSecure({ cert: certificate, key }, answer) : createPlain(answer);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const address = `${secure ? "https" : "http"}://127.0.0.1:${port}`;
    const client = spawn(process.execPath, [CLIENT, address, certificate, `${ROUNDS}`]);
    onTestFinished(() => void client.kill("SIGKILL"));
    let output = "";
    for (const stream of [client.stdout, client.stderr])
      stream.on("data", (chunk: Buffer) => {
        output += chunk.toString();
      });
    const [code] = await once(client, "close");
    expect({ code, output }).toEqual({ code: 0, output: "alive\n" });
  });
