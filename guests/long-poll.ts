import { request } from "node:http";
import { Notifier } from "../platform/notifier.ts";
import { hearSocketErrors } from "../platform/socket.ts";
import { type Clock, randomUuid } from "../platform/time.ts";

/** metadata-net's POST. All that is wanted is answered when it differs from what was applied, or after `waitMs`. */
export interface Report {
  /** `version` of the wanted state that was last carried out as far as possible; null after a start. */
  readonly applied: string | null;
  /** Longest wait for a change, ms, at most WAIT_MS_MAX. */
  readonly waitMs: number;
}

/** The wait that metadata-net asks for, ms. */
export const POLL_MS = 25_000;
/** Pause after an exchange that failed, ms, doubled each time: without Kubernetes there is nobody to ask. */
export const AWAY_MS_MIN = 200;
export const AWAY_MS_MAX = 5_000;
/** Between two exchanges with the metadata server, ms, whatever is answered. */
export const EXCHANGE_MS_MIN = 20;
/** Longest wait of one request, ms: proxies in between need not wait longer. */
export const WAIT_MS_MAX = 60_000;
/** Longest explanation of a failure that is copied into events and logs, characters. */
export const PROBLEM_CHARS_MAX = 1_000;
/**
 * Ten thousand ports, or thousands of networks with tens of endpoints. `holdfast metadata` has no rights on the node,
 * and must not be able to use up the memory of metadata-net, which is root's.
 */
const ANSWER_CHARS_MAX = 4 << 20;

interface Answerer {
  readonly name: string;
  /** What is said of an answer beyond ANSWER_CHARS_MAX. */
  readonly tooLong: string;
  /** Beyond the requested wait, ms: then nobody is there. */
  readonly lateMs: number;
}

export const DAEMON: Answerer = {
  name: "the daemon",
  tooLong: `has more than ${ANSWER_CHARS_MAX} characters`,
  lateMs: 5_000,
};
export const METADATA_SERVER: Answerer = {
  name: "the metadata server",
  tooLong: "is longer than any can be",
  lateMs: 10_000,
};

interface Question {
  readonly socket: string;
  readonly path: string;
  readonly report: Report;
  readonly signal: AbortSignal;
}

/** Reports what was carried out, resolves with what is wanted. Rejects: no usable answer (why), or `signal` aborts. */
export function exchange<T>(
  { name, tooLong, lateMs }: Answerer,
  { socket, path, report, signal }: Question,
  read: (value: unknown) => T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify(report);
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const timeout = report.waitMs + lateMs;
    const call = request({ socketPath: socket, method: "POST", path, headers, signal, timeout }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (text.length > ANSWER_CHARS_MAX) call.destroy(new Error(`${name}'s answer ${tooLong}`));
      });
      answer.on("error", reject);
      answer.on("end", () => {
        if (answer.statusCode !== 200) {
          reject(new Error(`${name} answered ${answer.statusCode}: ${text.slice(0, 300)}`));
          return;
        }
        try {
          resolve(read(JSON.parse(text)));
        } catch (error) {
          reject(new Error(`${name}'s answer cannot be understood: ${(error as Error).message}`));
        }
      });
    });
    hearSocketErrors(call);
    call.on("timeout", () => call.destroy(new Error(`${name} does not answer`)));
    call.on("error", reject);
    call.end(body);
  });
}

/** The answering end: the versions of what is wanted, and who waits for one that was not applied. */
export class Versions {
  readonly notifier: Notifier;
  /** Of the present version; goes up by one with each change. */
  number = 0;
  readonly #run: string;

  constructor(clock: Clock) {
    this.notifier = new Notifier(clock);
    this.#run = randomUuid(clock);
  }

  get present(): string {
    return `${this.#run}.${this.number}`;
  }

  /** The number in a version of this run; -1 for another's and for none. */
  numberOf(version: string | null): number {
    const prefix = `${this.#run}.`;
    return version?.startsWith(prefix) ? Number(version.slice(prefix.length)) : -1;
  }

  /** Waits until what is wanted is known, and is not what the report has applied. */
  async untilNews(report: Report, hungUp: AbortSignal, isKnown: () => boolean): Promise<void> {
    const notify = () => this.notifier.notify();
    hungUp.addEventListener("abort", notify);
    const isNews = () => isKnown() && report.applied !== this.present;
    await this.notifier.until(() => hungUp.aborted || isNews(), report.waitMs);
    hungUp.removeEventListener("abort", notify);
  }
}
