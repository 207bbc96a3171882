import { createServer, type Server } from "node:http";
import { isIP } from "node:net";
import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";

/** The identity of a VM with one interface; override what matters to the test. */
export function identity(given: Partial<IdentityView> = {}, one: Partial<IdentityInterface> = {}): IdentityView {
  return {
    state: "running",
    vm: {
      namespace: "default",
      name: "vm1",
      uid: "11111111-1111-4111-8111-111111111111",
      vmiUid: null,
      firmwareUuid: "5D1A8B1E-7C52-4B7E-9A1F-3F2F1D6B0C11",
    },
    pods: [
      {
        namespace: "default",
        name: "virt-launcher-vm1-abcde",
        uid: "22222222-2222-4222-8222-222222222222",
        node: "node-a",
        containerID: "c".repeat(64),
        since: "2026-01-01T00:00:00Z",
      },
    ],
    interfaces: [
      {
        network: "blue",
        interface: "net1",
        owner: {
          kind: "claim",
          uid: "33333333-3333-4333-8333-333333333333",
          interface: "",
          namespace: "default",
          name: "vm1.blue",
        },
        claim: "default/vm1.blue",
        addresses: [{ address: "10.10.0.5/24", gateway: "10.10.0.1" }],
        mac: "52:54:00:de:5b:bf",
        mtu: 1450,
        routes: [{ dst: "169.254.169.254/32", gw: "10.10.0.254" }],
        dns: { nameservers: ["10.10.0.53"] },
        metadata: { address: "10.10.0.254", tokens: "optional" },
        source: "holdfast",
        ...one,
      },
    ],
    ...given,
  };
}

export const UUID = "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11";

/** A VM of another name and UUID at the same place. */
export function otherVm(uuid: string, name = "vm2"): IdentityView {
  const base = identity();
  return { ...base, vm: base.vm && { ...base.vm, name, firmwareUuid: uuid } };
}

/** The daemon's read-only socket, with answers that a test sets. */
export class FakeIdentity {
  readonly #socketPath: string;
  /**
   * `network container/ID/INTERFACE` or `network pod/UID` → who is there; `network address`: the one behind a
   * connection from there, and net1 of a container that is called so.
   */
  readonly known = new Map<string, IdentityView>();
  /** When set, the answer to everything. */
  fault: { readonly status: number; readonly code: string } | null = null;
  /** Queries so far. */
  readonly asked: string[] = [];
  connections = 0;
  #server: Server | null = null;

  private constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  static async start(socketPath: string): Promise<FakeIdentity> {
    const fake = new FakeIdentity(socketPath);
    await fake.listen();
    return fake;
  }

  async listen(): Promise<void> {
    this.#server = createServer((request, response) => {
      const send = (status: number, body: object) => {
        const text = JSON.stringify(body);
        const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
        response.writeHead(status, headers).end(text);
      };
      const url = new URL(request.url ?? "", "http://localhost");
      this.asked.push(url.search);
      if (this.fault) return send(this.fault.status, { code: this.fault.code, message: "as the test says" });
      if (url.pathname === "/readyz") return send(200, {});
      const network = url.searchParams.get("network") ?? "";
      const found = this.known.get(`${network} ${subjectOf(url.searchParams)}`);
      if (url.searchParams.get("here") !== "true" || found === undefined)
        return send(404, { code: "NOT_FOUND", message: "nobody" });
      return send(200, { network, identity: found });
    });
    this.#server.on("connection", () => {
      this.connections += 1;
    });
    await new Promise<void>((resolve) => this.#server?.listen(this.#socketPath, resolve));
  }

  /** As when the daemon ends: the socket goes, and so do all connections. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }
}

function subjectOf(query: URLSearchParams): string | null {
  if (query.has("pod-uid")) return `pod/${query.get("pod-uid")}`;
  const [container, name] = [query.get("container") ?? "", query.get("interface")];
  if (isIP(container) && name === "net1") return container;
  return container ? `container/${container}/${name}` : query.get("address");
}
