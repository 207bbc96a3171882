import { problemOf, type WriteOutcome } from "./answers.ts";
import { ApiAway, type KubeAnswer, type KubeApi, type Priority } from "./kube-api.ts";
import { ObjectClient } from "./object-client.ts";
import { networkObjectName } from "./object-names.ts";
import { API_VERSION, type IPNetwork, NETWORK_FINALIZER, NETWORKS_PATH, objectPath } from "./objects.ts";

/** Conflicts after which it gives up: only a few controllers and daemons write the object. */
const ATTEMPTS_MAX = 10;

type ByName = (objectName: string) => IPNetwork | null | undefined;

/** The IPNetwork of a network; null: there is none, or its name is taken. */
export function networkObjectOf(network: string, byName: ByName): IPNetwork | null {
  const object = byName(networkObjectName(network));
  return object?.spec?.network === network ? object : null;
}

/** The network whose IPNetwork has the name that this network's object needs; null: the name is free, or its own. */
export function nameTakenBy(network: string, byName: ByName): string | null {
  const other = byName(networkObjectName(network))?.spec?.network;
  return other === undefined || other === network ? null : other;
}

/** A quorum read; null: it does not exist yet. Throws ApiAway, also when another network's object has its name. */
export async function readNetworkObject(api: KubeApi, network: string, deadlineMs?: number): Promise<IPNetwork | null> {
  const name = networkObjectName(network);
  const found: IPNetwork | null = await new ObjectClient(api).find(objectPath(NETWORKS_PATH, name), deadlineMs);
  const other = nameTakenBy(network, () => found);
  if (other !== null) throw new ApiAway(`IPNetwork ${name} is of network ${other}; delete it`);
  return networkObjectOf(network, () => found);
}

/** Fields of an IPNetwork to set; null removes one. */
interface NetworkFields {
  readonly annotations?: Readonly<Record<string, string | null>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: { readonly [key in keyof IPNetwork["spec"]]?: IPNetwork["spec"][key] | null };
  readonly status?: Readonly<Record<string, unknown>>;
}

/** Creates the IPNetwork of a network, or changes the one that was read (`known`) at its version. Throws ApiAway. */
export function writeNetworkObject(
  objects: ObjectClient,
  network: string,
  known: IPNetwork | null,
  { annotations, labels, ...fields }: NetworkFields,
  deadlineMs?: number,
): Promise<WriteOutcome> {
  const more = { ...(annotations && { annotations }), ...(labels && { labels }) };
  if (known !== null) {
    const { name, resourceVersion } = known.metadata;
    const body = { metadata: { resourceVersion, ...more }, ...fields };
    return objects.patch(objectPath(NETWORKS_PATH, name), body, deadlineMs);
  }
  const metadata = { name: networkObjectName(network), finalizers: [NETWORK_FINALIZER], ...more };
  const object = { apiVersion: API_VERSION, kind: "IPNetwork", metadata, ...fields };
  return objects.create(NETWORKS_PATH, { ...object, spec: { network, ...fields.spec } }, deadlineMs);
}

/** The decision about an IPNetwork that was just read: nothing to do, with a result, or fields to write. */
type NetworkChange<T> =
  | { readonly kind: "leave"; readonly result: T }
  | { readonly kind: "write"; readonly fields: NetworkFields; readonly afterWrite: (object: IPNetwork) => T };

interface ChangeOptions<T> {
  readonly decide: (known: IPNetwork | null) => NetworkChange<T> | Promise<NetworkChange<T>>;
  /** The failure when others keep writing, as the beginning of a sentence: `network blue could not be moved`. */
  readonly failed: string;
  readonly priority?: Priority;
  /** An instant of the API's clock, ms; without it each read and write has HOUSEKEEPING_DEADLINE_MS. */
  readonly deadlineMs?: number;
  /** The error to throw when the server refuses the write for good; default: ApiAway. */
  readonly refused?: (answer: KubeAnswer, objectName: string) => Error;
}

/** Writes at the version that was read. Others write the object, too: a conflict is decided again. Throws ApiAway. */
export async function changeNetworkObject<T>(
  api: KubeApi,
  network: string,
  { decide, failed, priority, deadlineMs, refused }: ChangeOptions<T>,
): Promise<T> {
  const objects = new ObjectClient(api, priority);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const known = await readNetworkObject(api, network, deadlineMs);
    const change = await decide(known);
    if (change.kind === "leave") return change.result;
    if (deadlineMs !== undefined && api.clock.monotonicMs() >= deadlineMs) break;
    const written = await writeNetworkObject(objects, network, known, change.fields, deadlineMs);
    if (written.kind === "done") return change.afterWrite(written.object);
    if (written.kind !== "refused") continue;
    const name = known?.metadata.name ?? networkObjectName(network);
    throw refused?.(written.answer, name) ?? new ApiAway(`IPNetwork ${name}: ${problemOf(written.answer)}`);
  }
  throw new ApiAway(`${failed}: others kept writing its IPNetwork`);
}
