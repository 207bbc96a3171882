import type { IncomingMessage } from "node:http";
import { ExchangeFailure } from "../client/limit.ts";

/** Of one answer, bytes; far above the size of any object, and low enough for the daemon's memory. */
const BODY_BYTES_MAX = 64 * 1024 * 1024;
/** Of an answer that is not JSON, characters: enough to recognise the proxy that sent it. */
const TEXT_CHARACTERS_MAX = 300;

/** The whole body. Rejects with ExchangeFailure when it is too long, and with the stream's error when it breaks off. */
export function readBody(response: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const brokenOff = () => reject(response.errored ?? new ExchangeFailure("an answer broke off"));
    if (response.destroyed) brokenOff();
    // By its events: iterating over it costs more than parsing what arrives.
    response.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      chunks.push(chunk);
      if (bytes <= BODY_BYTES_MAX) return;
      reject(new ExchangeFailure(`an answer had more than ${BODY_BYTES_MAX} bytes`));
      response.destroy();
    });
    response.on("end", () => resolve(Buffer.concat(chunks, bytes).toString()));
    response.on("error", reject);
    // Every answer closes; an error for each, with its stack, is a fortieth of a busy controller's time.
    response.on("close", () => {
      if (!response.readableEnded) brokenOff();
    });
  });
}

/** As JSON; any other text becomes a Status with it as the message, or null where an answer must be JSON. */
export function parseBody(text: string, status: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return status >= 300 ? { kind: "Status", code: status, message: text.slice(0, TEXT_CHARACTERS_MAX) } : null;
  }
}

/** How long to wait according to the server, ms; 0: it does not say. Kubernetes uses only seconds. */
export function retryAfterMs(response: IncomingMessage): number {
  const ms = Number(response.headers["retry-after"] ?? 0) * 1_000;
  return Number.isFinite(ms) && ms > 0 ? ms : 0;
}
