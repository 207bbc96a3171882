import type { ApiServer } from "../api-server.ts";
import { type HasClock, KubeClient, type OnList } from "../port.ts";
import type { User } from "../requests.ts";
import { FakeTransport } from "./fake-transport.ts";
import type { Link } from "./link.ts";

export interface FakeKubeApiOptions extends HasClock {
  /** May be another one after a while, as behind a load balancer. */
  readonly server: () => ApiServer;
  readonly user?: User;
  readonly link?: Link;
  /** Bytes are those of the JSON that a server would send. */
  readonly onList?: OnList | undefined;
}

/** The product's client of an ApiServer in the same process, without a socket. */
export class FakeKubeApi extends KubeClient {
  /** What becomes of requests under way; see there. */
  readonly link: Link;
  readonly #transport: FakeTransport;

  constructor({ clock, server, user, link = {}, onList }: FakeKubeApiOptions) {
    const who = user ?? { username: "admin", groups: ["system:masters"] };
    const transport = new FakeTransport({ clock, server, user: who, link });
    super(transport, { onList });
    this.link = link;
    this.#transport = transport;
  }

  /** Ends everything that is under way; what comes later fails. */
  close(): void {
    this.#transport.close();
  }

  /** The connections of the open watches end. */
  cutWatches(): void {
    for (const watch of [...this.#transport.watches]) watch.cut();
  }

  /** Nobody is there any more to hear anything: what is under way never ends. */
  abandon(): void {
    for (const watch of this.#transport.watches) watch.abandon();
    this.#transport.watches.clear();
  }

  /** The open watches stay open, and nothing comes from them any more. */
  silenceWatches(): void {
    for (const watch of this.#transport.watches) watch.silence();
  }
}
