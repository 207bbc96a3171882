import { endOfWatch } from "../client/statuses.ts";
import type { WatchEnd } from "../kube-api.ts";

/** One event, bytes: an object and a little around it. */
const LINE_BYTES_MAX = 16 * 1024 * 1024;
const NEWLINE = 0x0a;

/** The body of a watch: one JSON event per line, fed in chunks cut anywhere. */
export class WatchStream {
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
  readonly #event: (type: string, object: any) => void;
  #parts: Buffer[] = [];
  #partsBytes = 0;

  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
  constructor(event: (type: string, object: any) => void) {
    this.#event = event;
  }

  /**
   * Reports the events of the chunk in order. Returns how the watch ended if the server ends it by an ERROR event,
   * after which nothing may be pushed. Throws an Error for a line that is too long or not an event.
   */
  push(chunk: Buffer): WatchEnd | null {
    let from = 0;
    for (;;) {
      const newline = chunk.indexOf(NEWLINE, from);
      if (newline === -1) break;
      const end = this.#line(this.#joined(chunk.subarray(from, newline)));
      if (end) return end;
      from = newline + 1;
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from));
    return null;
  }

  #joined(last: Buffer): string {
    if (this.#parts.length === 0) return last.toString();
    const text = Buffer.concat([...this.#parts, last]).toString();
    this.#parts = [];
    this.#partsBytes = 0;
    return text;
  }

  #keep(part: Buffer): void {
    this.#partsBytes += part.length;
    if (this.#partsBytes > LINE_BYTES_MAX)
      throw new Error(`an event of the watch has more than ${LINE_BYTES_MAX} bytes`);
    this.#parts.push(part);
  }

  #line(text: string): WatchEnd | null {
    if (text.trim() === "") return null;
    const { type, object } = JSON.parse(text);
    if (typeof type !== "string") throw new Error("an event of the watch has no type");
    if (type === "ERROR") return endOfWatch(object);
    this.#event(type, object);
    return null;
  }
}
