import { request } from "node:http";
import { JsonFields } from "../../../platform/json-fields.ts";
import {
  BALANCERS_PATH,
  type BalancerReport,
  type WantedBalancer,
  type WantedBalancers,
} from "../../balancers/wire.ts";

const BACKEND = /^\d{1,3}(\.\d{1,3}){3}:\d{1,5}$/;

/** Beyond the requested wait: then nobody is there. */
const ANSWER_MS_MAX = 10_000;

/**
 * One exchange with `holdfast metadata`: reports, resolves with the wanted balancers. Rejects with an Error that gives
 * the reason when there is no usable answer, or when `signal` aborts.
 */
export function exchangeBalancers(
  socket: string,
  report: BalancerReport,
  signal: AbortSignal,
): Promise<WantedBalancers> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify(report);
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const timeout = report.waitMs + ANSWER_MS_MAX;
    const call = request(
      { socketPath: socket, method: "POST", path: BALANCERS_PATH, headers, signal, timeout },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        answer.on("error", reject);
        answer.on("end", () => {
          if (answer.statusCode !== 200) {
            reject(new Error(`the metadata server answered ${answer.statusCode}: ${text.slice(0, 300)}`));
            return;
          }
          try {
            resolve(readWanted(JSON.parse(text)));
          } catch (error) {
            reject(
              new Error(`the metadata server's answer cannot be understood: ${(error as Error).message}`),
            );
          }
        });
      },
    );
    call.on("timeout", () => call.destroy(new Error("the metadata server does not answer")));
    call.on("error", reject);
    call.end(body);
  });
}

function readWanted(value: unknown): WantedBalancers {
  const wanted = new JsonFields(value);
  return {
    version: wanted.string("version"),
    node: wanted.string("node"),
    balancers: wanted.list("balancers", readBalancer),
  };
}

function readBalancer(value: unknown): WantedBalancer {
  const balancer = new JsonFields(value);
  const backends = balancer.get("backends") === null ? null : balancer.strings("backends");
  if (backends?.some((one) => !BACKEND.test(one))) throw new Error("backends: expected addresses with ports");
  return { network: balancer.string("network", (text) => text !== ""), backends };
}
