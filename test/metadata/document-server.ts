import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Instance } from "../../metadata/documents/instance.ts";
import { type MetadataOptions, respond } from "../../metadata/documents/route.ts";
import { NOW_MS } from "./instances.ts";

/** `respond` behind a real socket of loopback. */
export interface DocumentServer {
  readonly url: string;
  /** `METHOD target status` of every request so far. */
  readonly log: readonly string[];
  /** The addresses they came from. */
  readonly sources: ReadonlySet<string>;
  close(): Promise<void>;
}

export async function serve(instance: Instance, options: MetadataOptions): Promise<DocumentServer> {
  const log: string[] = [];
  const sources = new Set<string>();
  const server: Server = createServer(async (incoming, outgoing) => {
    const { method = "", url = "", headers } = incoming;
    const body = await bodyOf(incoming);
    const answer = respond(
      { method, target: url, headers, body, clientForwarded: headers["x-forwarded-for"] !== undefined },
      instance,
      options,
      NOW_MS,
    );
    sources.add(incoming.socket.remoteAddress ?? "");
    log.push(`${method} ${url} ${answer.status}`);
    outgoing.writeHead(answer.status, { ...answer.headers, connection: "close" });
    outgoing.end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    log,
    sources,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

async function bodyOf(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
