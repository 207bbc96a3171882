import { request } from "node:http";
import { expect } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";
import { pause } from "../harness/wait.ts";
import { type Look, TestBrowser, UiProcess } from "./page.ts";

export const NAMESPACE = "shop";

/** A daemon, `holdfast ui` on its socket, and a browser. */
export class UiOfDaemon {
  readonly daemon: TestDaemon;
  readonly ui: UiProcess;
  readonly browser: TestBrowser;

  private constructor(daemon: TestDaemon, ui: UiProcess, browser: TestBrowser) {
    this.daemon = daemon;
    this.ui = ui;
    this.browser = browser;
  }

  /** `args` are flags of the daemon. */
  static async start(seed: (daemon: TestDaemon) => Promise<void>, args: readonly string[] = []): Promise<UiOfDaemon> {
    const daemon = await TestDaemon.start({ args });
    let ui: UiProcess | null = null;
    try {
      await seed(daemon);
      ui = await UiProcess.start("--socket", daemon.socket);
      return new UiOfDaemon(daemon, ui, await TestBrowser.start());
    } catch (error) {
      await ui?.stop();
      await daemon.stop();
      throw error;
    }
  }

  /** A page of a reader who has just opened the printed URL and then gone to this path. */
  async open(path = "/", look: Look = {}) {
    const page = await this.browser.open(this.ui.url, look);
    if (path !== "/") await page.goto(this.ui.origin + path);
    return page;
  }

  async stop(): Promise<void> {
    await this.browser.stop();
    await this.ui.stop();
    await this.daemon.stop();
  }
}

export function nad(name: string, ipam: object): object {
  const config = {
    ...{ cniVersion: "1.0.0", name, type: "bridge", allowPersistentIPs: true },
    ipam: { type: "holdfast-ipam", ...ipam },
  };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: NAMESPACE },
    spec: { config: JSON.stringify(config) },
  };
}

/** A VM's claim, which has these addresses already. */
export function claim(network: string, vm: string, ips: readonly string[] = [], name = `${vm}.${network}`) {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: vm, uid: `uid-${vm}` };
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name, namespace: NAMESPACE, ownerReferences: [owner] },
    spec: { network, interface: "net1" },
    ...(ips.length === 0 ? {} : { status: { ips } }),
  };
}

/** Applies objects that must be taken, however many. */
export async function apply(daemon: TestDaemon, objects: readonly object[]): Promise<void> {
  for (let from = 0; from < objects.length; from += 500) {
    const answer = await daemon.post("/v1/apply", { objects: objects.slice(from, from + 500) });
    expect(answer.status, answer.body).toBe(200);
    for (const result of answer.json().results) expect(result).not.toHaveProperty("error");
  }
}

/** What a runtime says for an interface: `claim` is of NAMESPACE, `more` are further CNI_ARGS. */
export function attachment(
  network: string,
  { pod, claim, more = "" }: { pod?: string; claim?: string; more?: string } = {},
) {
  const args = [
    "IgnoreUnknown=1",
    ...(pod === undefined ? [] : [`K8S_POD_NAMESPACE=${NAMESPACE}`, `K8S_POD_NAME=${pod}`, `K8S_POD_UID=u-${pod}`]),
    ...(claim === undefined ? [] : [`IPAM_CLAIM=${NAMESPACE}/${claim}`]),
    ...(more === "" ? [] : [more]),
  ];
  const config = { cniVersion: "1.0.0", name: network, type: "bridge", ipam: { type: "holdfast-ipam" } };
  return { config, args: args.join(";"), ifname: "net1" };
}

/** ADD that succeeds; the addresses without prefix lengths. */
export async function attach(
  daemon: TestDaemon,
  containerId: string,
  ...of: Parameters<typeof attachment>
): Promise<string[]> {
  const answer = await daemon.cni("ADD", containerId, attachment(...of));
  expect(answer.code, answer.stdout).toBe(0);
  return answer.json().ips.map(({ address }: { address: string }) => address.split("/")[0]);
}

export async function detach(
  daemon: TestDaemon,
  containerId: string,
  ...of: Parameters<typeof attachment>
): Promise<void> {
  const answer = await daemon.cni("DEL", containerId, attachment(...of));
  expect(answer.code, answer.stdout).toBe(0);
}

/**
 * Networks of all kinds: `blue` with both families, a gateway, what is excluded, VMs that run and that do not, and a
 * container with a MAC; `tiny` is nearly full; `large` has tiles; `six` intervals; `quiet` cools down; `kept` keeps
 * what a claim had.
 */
export async function seedAll(daemon: TestDaemon): Promise<void> {
  const networks = [
    nad("blue", {
      ranges: [[{ subnet: "192.168.10.0/24", gateway: "192.168.10.1" }], [{ subnet: "fd10::/64", gateway: "fd10::1" }]],
      excludeSubnets: "192.168.10.64/27",
      routes: [{ dst: "10.0.0.0/8" }],
    }),
    nad("tiny", { subnets: "10.9.0.0/28" }),
    nad("large", { subnets: "10.20.0.0/16" }),
    nad("six", { subnets: "fd66::/64" }),
    nad("quiet", { subnets: "172.16.0.0/22", cooldownSeconds: 3_600 }),
    nad("kept", { subnets: "172.20.0.0/24", retainSeconds: 86_400 }),
  ];
  const count = <T>(length: number, make: (n: number) => T) => Array.from({ length }, (_, n) => make(n));
  await apply(daemon, [
    ...networks,
    ...count(12, (n) => claim("blue", `vm${n}`, [`192.168.10.${n + 100}/24`, `fd10::${n + 1}5/64`])),
    ...count(200, (n) => claim("large", `big${n}`, [`10.20.${(n * 7) % 256}.${n + 10}/16`])),
    ...count(11, (n) => claim("tiny", `t${n}`, [`10.9.0.${n + 2}/28`])),
    ...count(9, (n) => claim("six", `s${n}`, [`fd66::${(n * n * 16 + 1).toString(16)}/64`])),
    claim("kept", "gone", ["172.20.0.7/24"]),
  ]);
  // Times are whole seconds: what comes after another has a later one, so that lists of the past have one order.
  await pause(1_100);
  for (let n = 0; n < 5; n++)
    await attach(daemon, `sandbox${n}`, "blue", { pod: `virt-launcher-vm${n}`, claim: `vm${n}.blue` });
  await attach(daemon, "feedc0de", "blue", { pod: "web", more: "MAC=02:00:00:00:aa:0f" });
  for (let n = 0; n < 6; n++) await attach(daemon, `plain${n}`, "quiet", { pod: `plain-${n}` });
  for (let n = 0; n < 3; n++) await detach(daemon, `plain${n}`, "quiet", { pod: `plain-${n}` });
  const deleted = await daemon.delete(`/v1/claims/${NAMESPACE}/gone.kept`);
  expect(deleted.status, deleted.body).toBe(200);
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** One request to a port of the loopback, as it is written here: no browser or URL parser makes the path better. */
export function ask(
  origin: string,
  path: string,
  options: {
    readonly method?: string;
    readonly headers?: Record<string, string>;
    readonly body?: string;
  } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(origin);
  const { method = "GET", headers = {}, body } = options;
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method, headers, agent: false }, (answer) => {
      let text = "";
      // A stream of events does not end by itself.
      const done = () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text });
      answer.on("data", (chunk: Buffer) => {
        text += chunk.toString();
        if (!/event-stream/.test(answer.headers["content-type"] ?? "")) return;
        done();
        sent.destroy();
      });
      answer.on("end", done);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
