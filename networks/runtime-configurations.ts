import { type Difference, differenceFrom } from "../ipam/definition/definition-difference.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { BoundedMap } from "../platform/bounded-map.ts";
import { subnetsOf } from "./import-sources.ts";

/** Networks whose latest configuration is remembered. */
const NETWORKS_MAX = 1_000;

interface Applied {
  readonly definition: NetworkDefinition;
  /** Its manifest, `namespace/name`. */
  readonly by: string;
}

/**
 * What the runtime's configuration of applied networks said in the latest ADD, on a node without Kubernetes: an applied
 * definition counts, and whoever wrote the other one believes that theirs does.
 */
export class RuntimeConfigurations {
  readonly #latest = new BoundedMap<string, NetworkDefinition>(NETWORKS_MAX);

  note(definition: NetworkDefinition): void {
    if (definition.rangeSets.length > 0) this.#latest.set(definition.name, definition);
    else this.#latest.delete(definition.name);
  }

  notes(appliedDefinition: (network: string) => Applied | undefined): string[] {
    return [...this.#latest.entries()].flatMap(([network, definition]) => {
      const applied = appliedDefinition(network);
      const difference = applied === undefined ? null : differenceFrom(definition, applied.definition);
      return applied === undefined || difference === null
        ? []
        : [differs(network, { definition, applied, difference })];
    });
  }
}

function differs(
  network: string,
  {
    definition,
    applied,
    difference,
  }: { readonly definition: NetworkDefinition; readonly applied: Applied; readonly difference: Difference },
): string {
  const [there, here] = [subnetsOf(definition), subnetsOf(applied.definition)];
  const what = there === here ? `other ${difference}` : `${there} there, ${here} applied`;
  return `the runtime's configuration of network ${network} is not the applied ${applied.by}, which counts (${what}): containers get what was applied; correct the configuration (in /etc/cni/net.d) or remove its ranges, or apply another definition`;
}
