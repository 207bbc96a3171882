import { isDeepStrictEqual } from "node:util";
import { type Address, parseAddress } from "../../ipam/space/address.ts";
import { cidrContains } from "../../ipam/space/cidr.ts";
import type { EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { DATA_TEMPLATES_PATH, SHOWN_INDEXES_MAX } from "../../kube/metal3.ts";
import type { DataTemplateView, MachineDataView } from "../../kube/views/machine-data-view.ts";
import type { MachineTemplateSpec } from "../../metadata/documents/machine-template.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";
import { eventObject } from "./data-bodies.ts";
import type { DataStatus } from "./data-status.ts";
import type { DataWorld } from "./data-world.ts";

export interface TemplateStatusOptions {
  readonly api: KubeApi;
  readonly world: DataWorld;
  readonly status: DataStatus;
  readonly events: Pick<EventWriter, "warn">;
  readonly log: Pick<Log, "warn">;
  /** Networks of which the template computes addresses by itself, which Holdfast does not know to be used. */
  readonly computedIn: (spec: MachineTemplateSpec) => readonly string[];
}

interface ShownIndex {
  readonly name: string;
  readonly index: number;
}

/** In the order of the index, by `spec`: names decide nothing. One claim may have several. */
function shownIndexes(datas: Iterable<MachineDataView>): ShownIndex[] {
  const byIndex = new Map<number, ShownIndex>();
  for (const { index, claim } of datas) if (!byIndex.has(index)) byIndex.set(index, { name: claim.name, index });
  return [...byIndex.values()].sort((a, b) => a.index - b.index);
}

export class TemplateStatus {
  readonly #options: TemplateStatusOptions;
  /** Keys of templates that have changed, or whose indexes have. */
  readonly #changed = new Set<string>();

  constructor(options: TemplateStatusOptions) {
    this.#options = options;
  }

  touch(key: string): void {
    this.#changed.add(key);
  }

  get isDue(): boolean {
    return this.#changed.size > 0;
  }

  async runPass(signal: AbortSignal, mayGoOn: () => Promise<boolean>): Promise<void> {
    const { templates, datas } = this.#options.world.caches;
    if (!templates.known || !datas.known || !this.isDue) return;
    const keys = [...this.#changed];
    this.#changed.clear();
    const members = new Map<string, MachineDataView[]>(keys.map((key) => [key, []]));
    for (const data of datas.items.values()) members.get(`${data.namespace}/${data.template.name}`)?.push(data);
    for (const [key, of] of members) {
      if (signal.aborted || !(await mayGoOn())) {
        for (const left of keys) this.#changed.add(left);
        return;
      }
      const template = templates.items.get(key);
      if (template !== undefined && !template.paused && template.deletionTimestamp === null)
        await this.#tryWrite(template, of);
    }
  }

  /** Whatever one template meets, the others are shown. */
  async #tryWrite(template: DataTemplateView, datas: readonly MachineDataView[]): Promise<void> {
    try {
      await this.#write(template, datas);
    } catch (error) {
      const problem = (error as Error).message;
      this.#options.log.warn({ template: template.key, problem }, "no status written; will retry");
      this.#changed.add(template.key);
    }
  }

  async #write(template: DataTemplateView, datas: readonly MachineDataView[]): Promise<void> {
    const { api, world, status, events } = this.#options;
    const indexes = shownIndexes(datas);
    const shown = indexes.slice(0, SHOWN_INDEXES_MAX);
    const { spec, problem } = world.readTemplate(template);
    const object = eventObject("Metal3DataTemplate", template);
    if (problem !== null) events.warn(object, "TemplateInvalid", problem);
    const networks = this.#options.computedIn(spec);
    if (networks.length > 0) {
      const message = `it computes addresses within ${networks.join(", ")}, which Holdfast gives to others too: exclude them there, or name a pool`;
      events.warn(object, "ComputedAddressesInNetwork", message);
    }
    const base = status.conditions(template.conditions, {
      type: "Ready",
      status: problem === null ? "True" : "False",
      reason: problem === null ? "Serving" : "TemplateInvalid",
      message: problem ?? "",
    });
    const isCut = shown.length < indexes.length;
    const conditions = status.conditions(base, {
      type: "IndexesComplete",
      status: isCut ? "False" : "True",
      reason: isCut ? "TooManyIndexes" : "AllShown",
      message: isCut ? `the lowest ${shown.length} of ${indexes.length} indexes are shown` : "",
    });
    const isSame = isDeepStrictEqual(shown, template.indexes);
    if (isSame && isDeepStrictEqual(conditions, template.conditions)) return;
    const changed = {
      indexes: shown.length === 0 ? null : shown,
      lastUpdated: isoTime(api.clock.wallMs()),
    };
    await status.write(DATA_TEMPLATES_PATH, template, { ...(isSame ? {} : changed), conditions });
  }
}

/** Holdfast's networks in which a template computes addresses: nobody allocates those. */
export function computedNetworks(
  { metaData, networkData }: MachineTemplateSpec,
  catalog: Pick<DefinitionCatalog, "networks" | "definitionOf">,
): string[] {
  const { ipv4 = [], ipv6 = [] } = networkData?.networks ?? {};
  const ranges = [...(metaData?.ipAddresses ?? []), ...[...ipv4, ...ipv6].flatMap((one) => one.ipAddress ?? [])];
  const firsts = ranges.flatMap(({ start, subnet = "" }) => addressOf(start ?? subnet.replace(/\/.*$/, "")));
  if (firsts.length === 0) return [];
  return catalog.networks().filter((network) => {
    const sets = catalog.definitionOf(network)?.definition.rangeSets ?? [];
    const subnets = sets.flatMap((set) => set.subnets);
    return subnets.some(({ cidr }) => firsts.some((first) => cidrContains(cidr, first)));
  });
}

/** Empty for what is no address: rendering says so. */
function addressOf(text: string): Address[] {
  try {
    return [parseAddress(text)];
  } catch {
    return [];
  }
}
