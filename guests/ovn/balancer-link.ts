import { request } from "node:http";
import { hearSocketErrors } from "../../platform/http/socket-errors.ts";
import { JsonFields } from "../../platform/json-fields.ts";
import {
  BALANCERS_PATH,
  type BalancerReport,
  type WantedBalancer,
  type WantedBalancers,
  type WantedEntry,
} from "./balancers-wire.ts";

const BACKEND = /^\d{1,3}(\.\d{1,3}){3}:[1-9]\d{0,4}$/;
const PORT_MAX = 65_535;
/**
 * Thousands of networks with tens of endpoints. That process has no rights on the node, and must not be able to use up
 * the memory of this one, which is root's.
 */
const ANSWER_CHARS_MAX = 4 << 20;

/** Beyond the requested wait: then nobody is there. */
const ANSWER_MS_MAX = 10_000;

interface Question {
  readonly socket: string;
  readonly path: string;
  readonly report: { readonly waitMs: number };
  readonly signal: AbortSignal;
}

/** As `askMetadata`: reports, resolves with the wanted balancers. */
export function exchangeBalancers(
  socket: string,
  report: BalancerReport,
  signal: AbortSignal,
): Promise<WantedBalancers> {
  return askMetadata({ socket, path: BALANCERS_PATH, report, signal }, readWanted);
}

/**
 * One exchange with `holdfast metadata`: reports, resolves with what is wanted. Rejects with an Error that gives
 * the reason when there is no usable answer, or when `signal` aborts.
 */
export function askMetadata<T>({ socket, path, report, signal }: Question, read: (value: unknown) => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify(report);
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const timeout = report.waitMs + ANSWER_MS_MAX;
    const call = request({ socketPath: socket, method: "POST", path, headers, signal, timeout }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (text.length > ANSWER_CHARS_MAX)
          call.destroy(new Error("the metadata server's answer is longer than any can be"));
      });
      answer.on("error", reject);
      answer.on("end", () => {
        if (answer.statusCode !== 200) {
          reject(new Error(`the metadata server answered ${answer.statusCode}: ${text.slice(0, 300)}`));
          return;
        }
        try {
          resolve(read(JSON.parse(text)));
        } catch (error) {
          reject(new Error(`the metadata server's answer cannot be understood: ${(error as Error).message}`));
        }
      });
    });
    hearSocketErrors(call);
    call.on("timeout", () => call.destroy(new Error("the metadata server does not answer")));
    call.on("error", reject);
    call.end(body);
  });
}

function readWanted(value: unknown): WantedBalancers {
  const wanted = new JsonFields(value);
  const balancers = wanted.list("balancers", readBalancer);
  if (new Set(balancers.map(({ network }) => network)).size < balancers.length)
    throw new Error("balancers: expected each network once");
  return { version: wanted.string("version"), node: wanted.string("node"), balancers };
}

function readBalancer(value: unknown): WantedBalancer {
  const balancer = new JsonFields(value);
  return {
    network: balancer.string("network", (text) => text !== ""),
    backends: balancer.get("backends") === null ? null : readBackends(balancer),
    ports: balancer.list("ports", readEntry),
  };
}

function readEntry(value: unknown): WantedEntry {
  const entry = new JsonFields(value);
  return { port: entry.integer("port", 1, PORT_MAX), backends: readBackends(entry) };
}

function readBackends(fields: JsonFields): string[] {
  const backends = fields.strings("backends");
  if (backends.some((one) => !BACKEND.test(one))) throw new Error("backends: expected addresses with ports");
  return backends;
}
