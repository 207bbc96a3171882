import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { TestCluster } from "./cluster.ts";
import type { KubeObject } from "./kube-api.ts";

const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/** Why a write is refused: the HTTP status that the API server answers, its reason and its message. */
export interface Refused {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
}

export interface WebhookOptions {
  /** Of the configuration. */
  readonly name: string;
  /** As in a ValidatingWebhookConfiguration: which writes it is asked about. */
  readonly rules: readonly KubeObject[];
  /** Decides about an AdmissionReview's request; null: admitted. */
  readonly decide: (request: KubeObject) => Refused | null | Promise<Refused | null>;
}

/**
 * A validating webhook of a real API server, in the test's process. What it cannot answer is refused (failurePolicy
 * Fail).
 */
export class Webhook {
  readonly #server: Server;
  #port = 0;

  private constructor(cluster: TestCluster, { decide }: WebhookOptions) {
    this.#server = createServer({ cert: cluster.ca, key: cluster.key }, (asked, answer) => {
      let body = "";
      asked.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      asked.on("end", async () => {
        const { request, ...rest } = JSON.parse(body);
        const refused = await decide(request);
        const status = refused === null ? {} : { status: refused };
        const response = { uid: request.uid, allowed: refused === null, ...status };
        answer.writeHead(200, { "content-type": "application/json" });
        answer.end(JSON.stringify({ ...rest, response }));
      });
    });
  }

  /** The server asks it from soon after. */
  static async start(cluster: TestCluster, options: WebhookOptions): Promise<Webhook> {
    const webhook = new Webhook(cluster, options);
    await webhook.up();
    webhook.#port = (webhook.#server.address() as AddressInfo).port;
    await cluster.api.create(WEBHOOKS, {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "ValidatingWebhookConfiguration",
      metadata: { name: options.name },
      webhooks: [
        {
          name: `${options.name}.holdfast.test`,
          clientConfig: {
            url: `https://127.0.0.1:${webhook.#port}/`,
            caBundle: Buffer.from(cluster.ca).toString("base64"),
          },
          rules: options.rules,
          sideEffects: "None",
          admissionReviewVersions: ["v1"],
          timeoutSeconds: 30,
        },
      ],
    });
    return webhook;
  }

  /** Nobody listens: the server answers 500. */
  async down(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  /** It listens again. */
  async up(): Promise<void> {
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
  }

  /** To be called once the server is gone, or needs it no more. */
  async stop(): Promise<void> {
    if (this.#server.listening) await this.down();
  }
}
