import { rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import pino from "pino";
import type { Connect } from "../../../kube/kube-api.ts";
import { MetadataServer } from "../../../metadata/server/metadata-server.ts";
import { loadMetadataSettings, type MetadataSettings } from "../../../metadata/server/settings.ts";
import { newDirectory, type ServedDaemon } from "../daemon.ts";
import type { KubeObject } from "../kube-api.ts";
import type { TestTime } from "../wait.ts";
import { optionsOf } from "./guests.ts";
import type { Network } from "./network.ts";

export type MetadataFlags = Partial<Record<keyof MetadataSettings | "kubeconfig", unknown>>;

/** A metadata server in the process of the test. */
export class MetadataHere {
  readonly directory = newDirectory();
  readonly socket = join(this.directory, "m.sock");
  readonly #time: TestTime;
  #server: MetadataServer | null = null;

  private constructor(time: TestTime) {
    this.#time = time;
  }

  /** Beside a daemon, in its time; `connect`: the way to its API server, where `flags` name a kubeconfig. */
  static async start(
    daemon: Pick<ServedDaemon, "directory">,
    time: TestTime,
    { flags = {}, connect }: { readonly flags?: MetadataFlags; readonly connect?: Connect } = {},
  ): Promise<MetadataHere> {
    const here = new MetadataHere(time);
    const settings = loadMetadataSettings(
      {
        metadataSocket: here.socket,
        identitySocket: join(daemon.directory, "identity.sock"),
        state: join(here.directory, "state"),
        metricsAddress: "off",
        logLevel: "silent",
        ...flags,
      },
      {},
    );
    here.#server = await MetadataServer.create(settings, pino({ level: "silent" }), time.clock, connect);
    await time.run(here.#server.start());
    return here;
  }

  /** The status of what it answers an interface of a pod on a network, as a listener passes its request on. */
  async statusFor(network: Network, pod: KubeObject, ifname?: string): Promise<number> {
    return (await this.answerFor(network, pod, "/openstack/latest/meta_data.json", ifname)).status;
  }

  /** The same with the text; without a name: the interface that KubeVirt makes for the network. */
  answerFor(
    network: Network,
    pod: KubeObject,
    path: string,
    ifname = optionsOf(network).ifname,
  ): Promise<{ readonly status: number; readonly body: string }> {
    const subject = `container/sandbox-${pod.metadata.uid}/${ifname}`;
    const headers = { "x-holdfast-network": network.name, "x-holdfast-subject": subject };
    const answered = new Promise<{ status: number; body: string }>((resolve, reject) => {
      const sent = request({ socketPath: this.socket, path, headers, agent: false }, (answer) => {
        let body = "";
        answer.setEncoding("utf8").on("data", (text) => {
          body += text;
        });
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
      });
      sent.on("error", reject);
      sent.end();
    });
    return this.#time.run(answered);
  }

  /** Where its metrics are served, if `flags` say so. */
  get port(): number {
    return this.#server?.port ?? 0;
  }

  async stop(): Promise<void> {
    if (this.#server !== null) await this.#time.run(this.#server.stop());
    rmSync(this.directory, { recursive: true, force: true });
  }
}
