import { request } from "node:http";
import { TestDaemon } from "../../test/harness/daemon.ts";
import { MetadataParts } from "../../test/harness/metadata/parts.ts";
import { closeBridges } from "../../test/harness/port-client.ts";
import { atMost, type Measurement, number } from "../line.ts";
import { memoryBytesOf } from "../workbench.ts";

const VMS = 1_000;
const ADDS_IN_FLIGHT = 16;
const PATHS = ["/openstack/latest/meta_data.json", "/latest/meta-data/instance-id", "/latest/meta-data/"];
const ROUNDS = 5;

/** `holdfast metadata` after each of a thousand VMs of the node has asked it several times. */
export const metadataMemory: Measurement = async () => {
  const daemon = await TestDaemon.start({ args: ["--metadata-wait-ms", "0"] });
  const parts = await MetadataParts.start(daemon);
  try {
    const config = {
      cniVersion: "1.0.0",
      name: "thousand",
      type: "bridge",
      ipam: { type: "holdfast-ipam", subnets: "10.50.0.0/16", metadata: true },
    };
    // Without bridges there is nothing to listen on; the server does not mind.
    await parts.net?.end();
    closeBridges(daemon, "cni0");
    const ids = Array.from({ length: VMS }, (_, n) => `vm${n}`);
    const rest = ids.values();
    await Promise.all(
      Array.from({ length: ADDS_IN_FLIGHT }, async () => {
        for (const id of rest) {
          await daemon.cni("ADD", id, { config });
        }
      }),
    );
    let failed = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const id of ids) {
        const path = PATHS[round % PATHS.length] as string;
        if ((await askServer(parts.server.socket, path, id)) !== 200) failed += 1;
      }
    }
    if (failed > 0) throw new Error(`${failed} requests were not answered with 200`);
    const bytes = memoryBytesOf(parts.server.pid, "VmHWM");
    return [
      atMost(bytes / 1_000_000, 100, "MB", {
        what: `memory of holdfast metadata with ${number(VMS)} local VMs`,
        against: `most there ever was, after ${number(ROUNDS * VMS)} requests`,
      }),
    ];
  } finally {
    await parts.stop();
    await daemon.stop();
  }
};

function askServer(socketPath: string, path: string, id: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { "x-holdfast-network": "thousand", "x-holdfast-subject": `container/${id}/eth0` };
    const sent = request({ socketPath, path, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode ?? 0));
    });
    sent.on("error", reject);
    sent.end();
  });
}
