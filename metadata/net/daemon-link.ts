import { request } from "node:http";
import { z } from "zod";
import type { PortReport, WantedPorts } from "../ports/wire.ts";

const wanted = z.object({
  version: z.string(),
  ports: z.array(
    z.object({
      network: z.string(),
      containerId: z.string(),
      interface: z.string(),
      netns: z.string(),
      addresses: z.array(z.string()),
      mac: z.string().nullable(),
      formerGateways: z.array(z.string()),
    }),
  ),
  ovnNetworks: z.array(z.string()),
});

/** Beyond the requested wait: then the daemon is not there. */
const ANSWER_MS_MAX = 5_000;

/**
 * One exchange with the daemon: reports what is served, resolves with the wanted state. Rejects with an Error that gives
 * the reason when there is no usable answer, or when `signal` aborts.
 */
export function exchange(socket: string, report: PortReport, signal: AbortSignal): Promise<WantedPorts> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify(report);
    const call = request(
      {
        socketPath: socket,
        method: "POST",
        path: "/v1/metadata/ports",
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
        signal,
        timeout: report.waitMs + ANSWER_MS_MAX,
      },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        answer.on("error", reject);
        answer.on("end", () => {
          if (answer.statusCode !== 200) {
            reject(new Error(`the daemon answered ${answer.statusCode}: ${text.slice(0, 300)}`));
            return;
          }
          try {
            resolve(wanted.parse(JSON.parse(text)));
          } catch (error) {
            reject(new Error(`the daemon's answer cannot be understood: ${(error as Error).message}`));
          }
        });
      },
    );
    call.on("timeout", () => call.destroy(new Error("the daemon does not answer")));
    call.on("error", reject);
    call.end(body);
  });
}
