import { request } from "node:http";
import { hearSocketErrors } from "../platform/http/socket-errors.ts";
import { JsonFields } from "../platform/json-fields.ts";
import type { PortReport, WantedPort, WantedPorts } from "./ports/wire.ts";

/** Ten thousand ports. */
const ANSWER_CHARS_MAX = 4 << 20;

/** Beyond the requested wait: then the daemon is not there. */
const ANSWER_MS_MAX = 5_000;

/**
 * One exchange with the daemon: reports what is served, resolves with the wanted state. Rejects with an Error that
 * gives the reason when there is no usable answer, or when `signal` aborts.
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
          if (text.length > ANSWER_CHARS_MAX)
            call.destroy(new Error(`the daemon's answer has more than ${ANSWER_CHARS_MAX} characters`));
        });
        answer.on("error", reject);
        answer.on("end", () => {
          if (answer.statusCode !== 200) {
            reject(new Error(`the daemon answered ${answer.statusCode}: ${text.slice(0, 300)}`));
            return;
          }
          try {
            resolve(readWanted(JSON.parse(text)));
          } catch (error) {
            reject(new Error(`the daemon's answer cannot be understood: ${(error as Error).message}`));
          }
        });
      },
    );
    hearSocketErrors(call);
    call.on("timeout", () => call.destroy(new Error("the daemon does not answer")));
    call.on("error", reject);
    call.end(body);
  });
}

function readWanted(value: unknown): WantedPorts {
  const wanted = new JsonFields(value);
  return {
    version: wanted.string("version"),
    ports: wanted.list("ports", readPort),
    ovnNetworks: wanted.strings("ovnNetworks"),
  };
}

function readPort(value: unknown): WantedPort {
  const port = new JsonFields(value);
  return {
    network: port.string("network"),
    containerId: port.string("containerId"),
    interface: port.string("interface"),
    netns: port.string("netns"),
    addresses: port.strings("addresses"),
    mac: port.stringOrNull("mac"),
  };
}
