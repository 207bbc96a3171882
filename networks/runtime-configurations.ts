import { type Difference, differenceFrom } from "../ipam/definition/definition-difference.ts";
import { parsePassed } from "../ipam/definition/definition-keys.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../ipam/definition/plugin-config.ts";
import { BoundedMap } from "../platform/bounded-map.ts";
import { subnetsOf } from "./import-sources.ts";
import { NETWORKS_MAX } from "./node-configurations.ts";

/** Characters of their texts together, those of the configurations of a node's ADDs that `cni/request.ts` remembers. */
const CHARS_MAX = 4 * 1024 * 1024;

interface Passed {
  readonly text: string;
  readonly definition: NetworkDefinition;
}

interface Applied {
  readonly definition: NetworkDefinition;
  /** Its manifest, `namespace/name`. */
  readonly by: string;
}

/** Of the latest ADD, without Kubernetes: an applied definition counts, and who wrote this one believes it does. */
export class RuntimeConfigurations {
  /** Texts: a definition takes up to ten times its own, and hardly anybody asks. */
  readonly #latest = new BoundedMap<string, string>(NETWORKS_MAX, {
    sizeMax: CHARS_MAX,
    sizeOf: (text) => text.length,
  });

  note({ text, definition }: Passed): void {
    if (definition.rangeSets.length > 0) this.#latest.set(definition.name, text);
    else this.#latest.delete(definition.name);
  }

  notes(appliedDefinition: (network: string) => Applied | undefined): string[] {
    return [...this.#latest.entries()].flatMap(([network, text]) => {
      const applied = appliedDefinition(network);
      if (applied === undefined) return [];
      const definition = parsePluginConfig(parsePassed(text));
      const difference = differenceFrom(definition, applied.definition);
      return difference === null ? [] : [differs(network, { definition, applied, difference })];
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
