import type { Problem } from "../../admin/following.ts";
import type { StreamEvents } from "../wire.ts";
import type { Ledger } from "./ledger.ts";
import { readEvents } from "./server/events.ts";
import { fetchWithToken, forgetToken } from "./server/token.ts";

const GONE: Problem = {
  message: "holdfast ui has ended, or cannot be reached",
  hint: "start holdfast ui again, and open the URL that it prints",
};
const UNKNOWN: Problem = {
  message: "this tab was not opened by the URL that holdfast ui printed, or that holdfast ui has ended",
  hint: "open the URL that it prints; start it again if it has ended",
};
/** After a connection has ended, ms. */
const AGAIN_MS = 2_000;
/** Another tab that knows the token has said so long before, ms. */
const TOKEN_MS = 1_000;

const APPLY: {
  readonly [Name in keyof StreamEvents]: (ledger: Ledger, value: StreamEvents[Name]) => void;
} = {
  hello: (ledger, hello) => ledger.begin(hello),
  networks: (ledger, networks) => {
    ledger.networks.value = networks;
  },
  rows: (ledger, rows) => ledger.apply(rows),
  synced: (ledger) => ledger.complete(),
  source: (ledger, problem) => {
    ledger.problem.value = problem;
  },
};

/** Fills the ledger from the stream, and connects again whenever it ends. */
export async function connect(ledger: Ledger): Promise<never> {
  for (;;) {
    const slow = setTimeout(() => report(ledger, UNKNOWN), TOKEN_MS);
    const response = await fetchWithToken("/stream").catch(() => null);
    clearTimeout(slow);
    if (response === null) report(ledger, GONE);
    else if (isStream(response)) await follow(ledger, response);
    else {
      // Who does not know it is not asked with it again and again.
      forgetToken();
      report(ledger, UNKNOWN);
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

function isStream({ ok, headers }: Response): boolean {
  return ok && headers.get("content-type") === "text/event-stream";
}

async function follow(ledger: Ledger, response: Response): Promise<void> {
  for await (const { event, data } of readEvents(response.body as ReadableStream<Uint8Array>)) {
    try {
      APPLY[event as keyof StreamEvents]?.(ledger, JSON.parse(data));
    } catch (error) {
      // What one event does wrong does not end the others.
      reportError(error);
    }
    await nextTask();
  }
  report(ledger, GONE);
}

/** What is shown has been old since the first failure. */
function report(ledger: Ledger, problem: Problem): void {
  if (ledger.problem.value?.message !== problem.message)
    ledger.problem.value = { ...problem, since: new Date().toISOString() };
}

/**
 * Each event in a task of its own, so that the page can be used in between; a timer would wait, in the background for
 * long.
 */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
