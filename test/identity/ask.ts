import { request } from "node:http";
import { join } from "node:path";
import type { ApiAnswer, TestDaemon } from "../harness/daemon.ts";

export function identitySocket(daemon: Pick<TestDaemon, "folder">): string {
  return join(daemon.folder, "identity.sock");
}

/** One question to the read-only socket, on a connection of its own. */
export function askIdentity(daemon: Pick<TestDaemon, "folder">, query: string): Promise<ApiAnswer> {
  return askSocket(identitySocket(daemon), "GET", `/v1/identity?${query}`);
}

export function askSocket(socketPath: string, method: string, path: string, body = ""): Promise<ApiAnswer> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, agent: false }, (answer) => {
      let text = "";
      answer.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      answer.on("end", () =>
        resolve({ status: answer.statusCode ?? 0, body: text, json: () => JSON.parse(text) }),
      );
      answer.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
