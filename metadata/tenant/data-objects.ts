import { Buffer } from "node:buffer";
import type { ObjectReading } from "../../kube/answers.ts";
import { ApiAway, FORBIDDEN, type KubeApi } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH, DATA_TEMPLATES_PATH, MACHINE_DATAS_PATH } from "../../kube/metal3.ts";
import { ADDRESS_POOLS_PATH, namespacedPath } from "../../kube/objects.ts";
import { type AddressPoolView, projectAddressPool } from "../../kube/views/address-pool-view.ts";
import {
  type DataClaimView,
  type DataTemplateView,
  type MachineDataView,
  projectDataClaim,
  projectDataTemplate,
  projectMachineData,
} from "../../kube/views/machine-data-view.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import { type MachineTemplateSpec, readMachineTemplate } from "../documents/machine-template.ts";
import { CachedReads } from "./cached-reads.ts";
import type { Place } from "./named-objects.ts";

/** Why there is no object. `not-served`: its kind has no definition. */
export type Absence = "absent" | "not-served" | "forbidden";
type ReadObject<T> = T | Absence;

/** One edition of a template: the same object as long as it is not edited. */
export interface TemplateEdition {
  readonly resourceVersion: string;
  readonly spec: MachineTemplateSpec;
  /** Why nothing is rendered from it; null: it is sound. */
  readonly problem: string | null;
}

/** How long it is believed that something is not there yet, ms. */
const AWAITED_MS = 500;
/** As JSON: to read so much takes some 40 ms, in which no guest is answered. */
const TEMPLATE_BYTES_MAX = 128 << 10;
const TEMPLATES_REMEMBERED_MAX = 100;

/** Machine data, each object read by its name when a guest's request needs it, and remembered for all namespaces. */
export class DataReader {
  readonly #reads: CachedReads<ReadObject<unknown>>;
  readonly #editions = new BoundedMap<string, TemplateEdition>(TEMPLATES_REMEMBERED_MAX);

  constructor(api: KubeApi, firstReadMsMax?: number) {
    this.#reads = new CachedReads(api, firstReadMsMax);
  }

  of(place: Place): DataObjects {
    return new DataObjects(this, place);
  }

  /** Throws ApiAway. */
  read<T>(
    collection: string,
    { namespace, uid }: Place,
    name: string,
    project: (object: unknown) => T,
    believedMs?: number,
  ): Promise<ReadObject<T>> {
    const path = namespacedPath(collection, namespace, name);
    const judge = (reading: ObjectReading): ReadObject<T> => {
      if (reading.kind === "present") return project(reading.object);
      if (reading.kind !== "refused") return reading.kind;
      const { status } = reading.answer;
      if (status === FORBIDDEN) return "forbidden";
      throw new ApiAway(`${path} cannot be read: ${status}`);
    };
    return this.#reads.readObject(path, uid, judge, believedMs) as Promise<ReadObject<T>>;
  }

  editionOf({ uid, resourceVersion, spec }: DataTemplateView): TemplateEdition {
    const known = this.#editions.get(uid);
    const edition = known?.resourceVersion === resourceVersion ? known : readEdition(resourceVersion, spec);
    this.#editions.set(uid, edition);
    return edition;
  }
}

/** Machine data of one namespace. Methods throw ApiAway. */
export class DataObjects {
  readonly #reader: DataReader;
  readonly #place: Place;

  constructor(reader: DataReader, place: Place) {
    this.#reader = reader;
    this.#place = place;
  }

  template(name: string): Promise<ReadObject<TemplateEdition>> {
    const project = (object: unknown) => this.#reader.editionOf(projectDataTemplate(object));
    return this.#read(DATA_TEMPLATES_PATH, name, project);
  }

  /** Read again after half a second as long as it is not `usable`: the controller may have just made it so. */
  claim(name: string, usable: (claim: DataClaimView) => boolean): Promise<ReadObject<DataClaimView>> {
    return this.#awaited(DATA_CLAIMS_PATH, name, projectDataClaim, usable);
  }

  data(name: string, usable: (data: MachineDataView) => boolean): Promise<ReadObject<MachineDataView>> {
    return this.#awaited(MACHINE_DATAS_PATH, name, projectMachineData, usable);
  }

  pool(name: string): Promise<ReadObject<AddressPoolView>> {
    return this.#read(ADDRESS_POOLS_PATH, name, projectAddressPool);
  }

  async #awaited<T extends object>(
    collection: string,
    name: string,
    project: (object: unknown) => T,
    usable: (object: T) => boolean,
  ): Promise<ReadObject<T>> {
    const read = await this.#read(collection, name, project);
    if (typeof read !== "string" && usable(read)) return read;
    return this.#read(collection, name, project, AWAITED_MS);
  }

  #read<T>(
    collection: string,
    name: string,
    project: (object: unknown) => T,
    believedMs?: number,
  ): Promise<ReadObject<T>> {
    return this.#reader.read(collection, this.#place, name, project, believedMs);
  }
}

function readEdition(resourceVersion: string, written: object): TemplateEdition {
  const bytes = Buffer.byteLength(JSON.stringify(written));
  if (bytes > TEMPLATE_BYTES_MAX) {
    const problem = `its spec has ${bytes} bytes, and one for VMs ${TEMPLATE_BYTES_MAX} at most`;
    return { resourceVersion, spec: {}, problem };
  }
  const spec = readMachineTemplate(written);
  return "problem" in spec
    ? { resourceVersion, spec: {}, problem: spec.problem }
    : { resourceVersion, spec, problem: null };
}
