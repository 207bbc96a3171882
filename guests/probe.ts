import { createConnection } from "node:net";
import type { Log } from "../platform/log.ts";
import type { Clock } from "../platform/time.ts";
import { BridgeDriver } from "./drivers/bridge/bridge-driver.ts";
import type { DatapathDriver, ListenerDoors } from "./drivers/driver.ts";
import { IngressDriver } from "./drivers/ingress/ingress-driver.ts";
import { OpenflowDriver } from "./drivers/openflow/openflow-driver.ts";
import { namesOf } from "./kernel/names.ts";
import { run } from "./kernel/run.ts";
import { findNorthbound } from "./ovn/northbound.ts";
import { OvsPorts } from "./ovs/ovs-ports.ts";
import type { NetSettings } from "./settings.ts";

/** What a node can do for its guests, or a part that is needed for it. */
export interface Ability {
  readonly name: string;
  readonly serves: string;
  readonly ok: boolean;
  /** Why not; or what is missing although it works. */
  readonly notes: readonly string[];
}

export interface NodeAbilities {
  readonly items: readonly Ability[];
  /** Can guests on Linux bridges be served? */
  readonly served: boolean;
}

const SERVES: Readonly<Record<DatapathDriver["kind"], string>> = {
  ingress: "interfaces with a host-side veth or tap",
  openflow: "Open vSwitch with the userspace datapath",
  bridge: "Linux bridges",
};

const ANSWER_MS_MAX = 2_000;

/** A probe opens none. */
const NO_DOORS: ListenerDoors = {
  serviceMac: "",
  secretMac: "",
  doorMac: "",
  nobodyMac: "",
  ensure: () => Promise.reject(new Error("a probe opens no door")),
  remove: () => Promise.resolve(),
};

/** Tries everything on links of its own, and asks the switches that are there. Nothing of it is left. */
export async function probeNode(settings: NetSettings, log: Log, clock: Clock): Promise<NodeAbilities> {
  const { table, tag } = namesOf(settings.runDir);
  const { ovsdbSocket: socket, ovnNorthbound } = settings;
  const ovs = socket === "off" ? null : new OvsPorts({ socket, clock, log });
  ovs?.start();
  const parts = { table, doors: NO_DOORS, clock };
  const drivers: readonly DatapathDriver[] = [
    new IngressDriver(parts),
    ...(ovs === null ? [] : [new OpenflowDriver({ tag, doors: NO_DOORS, ovs, clock })]),
    new BridgeDriver(parts),
  ];
  const haproxy = await probeHaproxy(settings.haproxy);
  const items: Ability[] = [haproxy];
  for (const driver of drivers) {
    const probe = await driver.probe();
    driver.close();
    const notes = probe.ok ? probe.notes : [probe.why];
    items.push({ name: driver.kind, serves: SERVES[driver.kind], ok: probe.ok, notes });
  }
  ovs?.close();
  if (ovnNorthbound !== "off") items.push(await probeNorthbound(findNorthbound(ovnNorthbound ?? null)));
  const can = new Set(items.filter(({ ok }) => ok).map(({ name }) => name));
  return { items, served: can.has("haproxy") && (can.has("ingress") || can.has("bridge")) };
}

/** Balancers of OVN-Kubernetes are rows in this node's own database. */
async function probeNorthbound(socket: string | null): Promise<Ability> {
  const why = socket === null ? "there is no northbound database of this node" : await whySilent(socket);
  const notes = why === null ? [`${socket} answers`] : [why];
  return { name: "ovn", serves: "networks with a Service, on OVN-Kubernetes", ok: why === null, notes };
}

/** null: somebody listens there. */
function whySilent(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    const connection = createConnection(path);
    const end = (why: string | null) => {
      connection.destroy();
      resolve(why);
    };
    connection.setTimeout(ANSWER_MS_MAX, () => end(`${path} does not answer`));
    connection.on("error", (error) => end(`${path} cannot be connected to: ${error.message}`));
    connection.on("connect", () => end(null));
  });
}

async function probeHaproxy(program: string): Promise<Ability> {
  const { code, stdout, stderr } = await run(program, ["-vv"]);
  const whole = (ok: boolean, note: string) => ({ name: "haproxy", serves: "everybody", ok, notes: [note] });
  if (code !== 0) return whole(false, stderr.trim());
  const version = /^HA-?Proxy version (\S+)/i.exec(stdout)?.[1] ?? "of an unknown version";
  if (!/\+NS\b/.test(stdout)) return whole(false, `haproxy ${version} was built without network namespaces (USE_NS)`);
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < 2 || (major === 2 && minor < 6)) return whole(false, `haproxy ${version} is older than 2.6`);
  return whole(true, `version ${version}`);
}
