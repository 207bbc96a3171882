import type { Host, NamedObject, PoolResult, TemplateInputs } from "../../../metadata/documents/machine-template.ts";

/** Of what a test does not say: namespace NS, no labels, a host that was inspected and has no interface. */
export interface GivenInputs {
  readonly index?: number;
  readonly machine?: Partial<NamedObject> | null;
  readonly metal3Machine?: Partial<NamedObject> | null;
  readonly host?:
    | (Partial<Omit<Host, "nics">> & { readonly nics?: readonly { name?: string; mac?: string }[] | null })
    | null;
  readonly pools?: Readonly<Record<string, Partial<PoolResult>>>;
}

export function inputs(given: GivenInputs = {}): TemplateInputs {
  const { index = 0, machine, metal3Machine, host, pools = {} } = given;
  return {
    index,
    namespace: "NS",
    machine: machine === null ? null : { ...named("MACHINE"), ...machine },
    metal3Machine: metal3Machine === null ? null : { ...named("M3M"), ...metal3Machine },
    host: host === null ? null : { ...named("BMH"), bootMACAddress: "", ...host, nics: nicsOf(host?.nics) },
    pools: new Map(Object.entries(pools).map(([name, result]) => [name, { ...NOTHING, ...result }])),
  };
}

const NOTHING: PoolResult = { address: "", prefix: null, gateway: null, dnsServers: [] };

function named(name: string): NamedObject {
  return { namespace: "NS", name, labels: {}, annotations: {} };
}

function nicsOf(nics: readonly { name?: string; mac?: string }[] | null | undefined): Host["nics"] {
  if (nics === null) return null;
  return (nics ?? []).map(({ name = "", mac = "" }) => ({ name, mac }));
}
