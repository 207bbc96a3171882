import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { BridgeDriver } from "./drivers/bridge/bridge-driver.ts";
import type { DatapathDriver, ListenerDoors } from "./drivers/driver.ts";
import { IngressDriver } from "./drivers/ingress/ingress-driver.ts";
import { namesOf } from "./kernel/names.ts";
import { run } from "./kernel/run.ts";
import type { NetSettings } from "./settings.ts";

/** What a node can do for its guests, or a part that is needed for it. */
export interface Ability {
  readonly name: string;
  /** Whom it is for. */
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
export async function probeNode(settings: NetSettings, _log: Log, clock: Clock): Promise<NodeAbilities> {
  const { table } = namesOf(settings.runDir);
  const parts = { table, doors: NO_DOORS, clock };
  const drivers: readonly DatapathDriver[] = [new IngressDriver(parts), new BridgeDriver(parts)];
  const haproxy = await probeHaproxy(settings.haproxy);
  const items: Ability[] = [haproxy];
  for (const driver of drivers) {
    const probe = await driver.probe();
    driver.close();
    const notes = probe.ok ? probe.notes : [probe.why];
    items.push({ name: driver.kind, serves: SERVES[driver.kind], ok: probe.ok, notes });
  }
  const can = new Set(items.filter(({ ok }) => ok).map(({ name }) => name));
  return { items, served: can.has("haproxy") && (can.has("ingress") || can.has("bridge")) };
}

async function probeHaproxy(program: string): Promise<Ability> {
  const { code, stdout, stderr } = await run(program, ["-vv"]);
  const whole = (ok: boolean, note: string) => ({ name: "haproxy", serves: "everybody", ok, notes: [note] });
  if (code !== 0) return whole(false, stderr.trim());
  const version = /^HA-?Proxy version (\S+)/i.exec(stdout)?.[1] ?? "of an unknown version";
  if (!/\+NS\b/.test(stdout))
    return whole(false, `haproxy ${version} was built without network namespaces (USE_NS)`);
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < 2 || (major === 2 && minor < 6)) return whole(false, `haproxy ${version} is older than 2.6`);
  return whole(true, `version ${version}`);
}
