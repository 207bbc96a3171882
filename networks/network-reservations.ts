import { ANNOTATION_CHARS_MAX, parseBoundedJson } from "../ipam/definition/bounded-json.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { redefined } from "../ipam/definition/plugin-config.ts";
import { readReservations, withReserved } from "../ipam/definition/reservations.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { IPNetwork } from "../kube/objects.ts";

/** On an IPNetwork: a list as `reservations` of a configuration, for one that is too long for it. */
export const RESERVATIONS_ANNOTATION = "ipam.holdfast.dev/reservations";

interface AnnotatedList {
  /** For messages: the annotation and its object. */
  readonly key: string;
  readonly text: string;
  /** What the list makes of each definition that it was read for, or why it makes none. */
  readonly read: WeakMap<NetworkDefinition, NetworkDefinition | RefusalError>;
}

/**
 * By MAC, part of their networks' definitions, with the same rules as those of a configuration: a network whose list
 * cannot be read is not given.
 */
export class NetworkReservations {
  /** By network. */
  readonly #lists = new Map<string, AnnotatedList>();

  /** null: the network has no IPNetwork. */
  set(network: string, object: Pick<IPNetwork, "metadata"> | null): void {
    const text = reservedText(object);
    if (object === null || text === "") this.#lists.delete(network);
    else if (this.#lists.get(network)?.text !== text) {
      const key = `annotation ${RESERVATIONS_ANNOTATION} of IPNetwork ${object.metadata.name}`;
      this.#lists.set(network, { key, text, read: new WeakMap() });
    }
  }

  /** With what is reserved on the IPNetwork; without a list, itself. Throws RefusalError CONFIG_INVALID. */
  within(definition: NetworkDefinition): NetworkDefinition {
    const list = this.#lists.get(definition.name);
    if (list === undefined) return definition;
    const known = list.read.get(definition) ?? readFor(definition, list);
    list.read.set(definition, known);
    if (known instanceof RefusalError) throw known;
    return known;
  }
}

/** The list as it stands there; "": none. */
export function reservedText(object: Pick<IPNetwork, "metadata"> | null | undefined): string {
  return object?.metadata.annotations?.[RESERVATIONS_ANNOTATION]?.trim() ?? "";
}

function readFor(definition: NetworkDefinition, { key, text }: AnnotatedList): NetworkDefinition | RefusalError {
  try {
    const { rangeSets, reservations } = definition;
    const all = readReservations({ key, value: parsed(key, text) }, rangeSets, reservations);
    return redefined({ ...definition, reservations: all }, withReserved(rangeSets, all));
  } catch (error) {
    if (error instanceof RefusalError) return error;
    throw error;
  }
}

function parsed(key: string, text: string): unknown {
  try {
    return parseBoundedJson(text, ANNOTATION_CHARS_MAX);
  } catch (error) {
    const remedy = 'expected JSON: [{"mac": "02:00:00:00:00:01", "ips": [ADDRESS]}]';
    throw new RefusalError(refuse("CONFIG_INVALID", { key, value: (error as Error).message, remedy }));
  }
}
