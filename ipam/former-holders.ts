import type { FormerPart } from "./claim-conditions.ts";
import type { NetworkDefinition } from "./definition/network-definition.ts";
import { formerParts, type HeldState } from "./former-state.ts";

/** Holders that one note names. */
const NAMED_MAX = 3;

const SAY: Readonly<Record<FormerPart, { readonly what: string; readonly remedy: string }>> = {
  "prefix-length": {
    what: "another prefix length than the subnet has now",
    remedy: "stop and start the VM, or recreate the container",
  },
  family: {
    what: "no address of a family that the network has now",
    remedy: "stop and start the VM, or recreate the container",
  },
  gateway: {
    what: "another gateway than the network has now",
    remedy: "stop and start the VM, or recreate the container",
  },
  outside: {
    what: "an address that the network does not give any more",
    remedy:
      "it stays theirs; to get another one delete the VM's claim, or recreate the container; or put the former range back",
  },
};

/** Whoever has addresses as a former definition of their network gave them, by network. */
export class FormerHolders {
  readonly #networks = new Map<string, Map<FormerPart, Set<string>>>();

  /** Notes a holder, `claim default/vm1`, if it stays behind the definition. */
  judge(definition: NetworkDefinition, holder: string, held: readonly HeldState[]): void {
    for (const part of formerParts(definition, held)) {
      const parts = this.#networks.get(definition.name) ?? new Map<FormerPart, Set<string>>();
      this.#networks.set(definition.name, parts);
      parts.set(part, (parts.get(part) ?? new Set()).add(holder));
    }
  }

  count(network: string): number {
    return new Set([...(this.#networks.get(network)?.values() ?? [])].flatMap((holders) => [...holders])).size;
  }

  /** One line for each network and kind of difference, with the remedy. */
  notes(): string[] {
    return [...this.#networks]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([network, parts]) =>
        [...parts].map(([part, holders]) => {
          const { what, remedy } = SAY[part];
          const names = [...holders].sort();
          const more = names.length > NAMED_MAX ? `, and ${names.length - NAMED_MAX} more` : "";
          const have = `${names.slice(0, NAMED_MAX).join(", ")}${more} ${names.length === 1 ? "has" : "have"}`;
          return `network ${network} was changed: ${have} ${what}; ${remedy}`;
        }),
      );
  }
}
