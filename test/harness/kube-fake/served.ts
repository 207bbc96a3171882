import type { Etcd } from "./etcd.ts";
import { noSuchPath, noSuchVersion } from "./failure.ts";
import type { KubeObject } from "./objects.ts";
import { apiVersionOf, builtIns, DEFINITIONS, groupPath, type Resource, resourcesOf } from "./resources.ts";

export const DEFINITIONS_STORAGE = `${DEFINITIONS.group}/${DEFINITIONS.plural}`;

/** What the server serves now: Kubernetes' own resources, and those of the CustomResourceDefinitions in etcd. */
export class Served {
  readonly #builtIns: readonly Resource[];
  /** `group/plural` of resources that are not served although their definition is there. */
  readonly withheld = new Set<string>();
  #all = new Map<string, Resource>();

  constructor(minor: number) {
    this.#builtIns = builtIns(minor);
    this.#all = new Map(this.#builtIns.map((one) => [pathOf(one), one]));
  }

  /** Reads the definitions anew. */
  read(etcd: Etcd): void {
    const custom = etcd
      .range(DEFINITIONS_STORAGE, "")
      .filter(({ object }) => isEstablished(object))
      .flatMap(({ object }) => resourcesOf(object));
    this.#all = new Map([...this.#builtIns, ...custom].map((one) => [pathOf(one), one]));
  }

  get all(): readonly Resource[] {
    return [...this.#all.values()].filter((one) => !this.withheld.has(one.storage));
  }

  /** Throws Failure, as the server answers paths that it does not know. */
  find(wanted: Pick<Resource, "group" | "version" | "plural">): Resource {
    const found = this.#all.get(pathOf(wanted));
    if (found === undefined || this.withheld.has(found.storage)) throw noSuchPath();
    return found;
  }

  /** The resource of a kind; null: that version does not serve it. */
  ofKind(apiVersion: string, kind: string): Resource | null {
    return this.all.find((one) => apiVersionOf(one) === apiVersion && one.kind === kind) ?? null;
  }

  /**
   * What the list of a group's resources says. Throws Failure where there is no such group, or none of that version.
   */
  ofGroup(group: string, version: string): KubeObject {
    const resources = this.all.filter((one) => one.group === group && one.version === version);
    const isKnown = this.all.some((one) => one.group === group);
    if (resources.length === 0) throw isKnown ? noSuchVersion() : noSuchPath();
    return {
      kind: "APIResourceList",
      apiVersion: "v1",
      groupVersion: group === "" ? version : `${group}/${version}`,
      resources: resources.map(({ plural, kind, namespaced, custom }) => ({
        name: plural,
        singularName: custom ? kind.toLowerCase() : "",
        namespaced,
        kind,
        verbs: ["create", "delete", "get", "list", "patch", "update", "watch"],
      })),
    };
  }
}

function isEstablished({ status }: KubeObject): boolean {
  return (status?.conditions ?? []).some((one: KubeObject) => one.type === "Established" && one.status === "True");
}

const pathOf = (one: Pick<Resource, "group" | "version" | "plural">) => `${groupPath(one)}/${one.plural}`;
