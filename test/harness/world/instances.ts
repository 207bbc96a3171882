import type { KubeApi, KubeObject } from "../kube-api.ts";
import { pathOf } from "../kube-pods.ts";
import { activePodsOf, CREATED_BY_LABEL, KUBEVIRT, NODE_LABEL, VMI_FINALIZERS } from "./kubevirt-objects.ts";

const PLURAL = "virtualmachineinstances";
const FINAL = ["Succeeded", "Failed"];
/** The name of a node may be longer than a label, which no cluster with KubeVirt has. */
const LABEL_CHARS_MAX = 63;

/**
 * VMIs as virt-controller and virt-handler keep them: their status follows the launcher pods that exist, and one that
 * is being deleted goes when the last of these has ended.
 */
export class Instances {
  readonly #api: KubeApi;

  constructor(api: KubeApi) {
    this.#api = api;
  }

  /** Phase Pending, and no node: virt-controller has seen it. `status`: what it has beside that. */
  async create(object: KubeObject, status: object = {}): Promise<KubeObject> {
    const { metadata } = object;
    const path = pathOf(metadata.namespace, PLURAL, "", KUBEVIRT);
    const finalizers = VMI_FINALIZERS;
    await this.#api.create(path, { ...object, metadata: { ...metadata, finalizers }, status: {} });
    return this.#api.patch(pathOf(metadata.namespace, PLURAL, metadata.name, KUBEVIRT), {
      status: { ...status, phase: "Pending" },
    });
  }

  /** After a write of a launcher pod; with `isLeaving` before one that ends it. */
  async follow(pod: KubeObject, isLeaving = false): Promise<void> {
    const { namespace, ownerReferences = [] } = pod.metadata;
    const owner = ownerReferences.find(({ kind }: KubeObject) => kind === "VirtualMachineInstance");
    if (owner !== undefined) await this.reconcile(namespace, owner, isLeaving ? pod.metadata.uid : null);
  }

  /** `leaving`: UID of a launcher pod that is about to end. */
  async reconcile(
    namespace: string,
    { name, uid }: { readonly name: string; readonly uid: string },
    leaving: string | null = null,
  ): Promise<void> {
    const path = pathOf(namespace, PLURAL, name, KUBEVIRT);
    const vmi = await this.#api.find(path);
    if (vmi?.metadata.uid !== uid) return;
    const selector = encodeURIComponent(`${CREATED_BY_LABEL}=${uid}`);
    const listed = await this.#api.list(`${pathOf(namespace, "pods")}?labelSelector=${selector}`);
    const pods = listed.filter((one) => isOwnedBy(one, uid)).sort(byAge);
    const [current] = pods.filter((one) => !FINAL.includes(one.status?.phase) && one.metadata.uid !== leaving);
    const isEnding = vmi.metadata.deletionTimestamp !== undefined;
    const activePods = leaving === null ? newsOf(vmi.status?.activePods ?? {}, activePodsOf(pods)) : {};
    const news = isEnding || current === undefined ? {} : whereItRuns(vmi, current);
    const hasEnded = current === undefined && leaving === null;
    const phase = hasEnded && !FINAL.includes(vmi.status?.phase) ? lastPhase(isEnding, vmi, pods) : {};
    const status = { ...news.status, ...phase, ...activePods };
    if (Object.keys(status).length > 0) await this.#api.patch(path, { ...news, status });
    // What virt-handler adds.
    if (status.phase === "Scheduled") await this.#api.patch(path, { status: { phase: "Running" } });
    if (!hasEnded || !isEnding) return;
    const finalizers = (vmi.metadata.finalizers ?? []).filter((one: string) => !VMI_FINALIZERS.includes(one));
    await this.#api.patch(path, { metadata: { finalizers } });
  }
}

interface News {
  readonly metadata?: object;
  readonly status?: { readonly phase?: string; readonly nodeName?: string };
}

/** The guest is in its oldest launcher pod: a target has it once the source ends. */
function whereItRuns({ status }: KubeObject, pod: KubeObject): News {
  const { phase, nodeName } = status ?? {};
  if (!isReady(pod)) return phase === "Running" || phase === "Scheduling" ? {} : { status: { phase: "Scheduling" } };
  const node: string = pod.spec.nodeName;
  const onNode = { metadata: { labels: node.length > LABEL_CHARS_MAX ? {} : { [NODE_LABEL]: node } } };
  if (phase === "Running") return nodeName === node ? {} : { ...onNode, status: { nodeName: node } };
  return { ...onNode, status: { nodeName: node, phase: "Scheduled" } };
}

/** It has no launcher pod that lives. */
function lastPhase(isEnding: boolean, { status }: KubeObject, pods: readonly KubeObject[]): { phase?: string } {
  if (isEnding) return { phase: "Succeeded" };
  const hasBegun = status?.phase !== undefined && status.phase !== "Pending";
  return hasBegun ? { phase: pods.at(-1)?.status.phase ?? "Failed" } : {};
}

/** `activePods` as it is patched: what is gone is null. */
function newsOf(before: KubeObject, now: Readonly<Record<string, string>>): { activePods?: object } {
  const gone = Object.keys(before).filter((uid) => !(uid in now));
  if (gone.length === 0 && Object.entries(now).every(([uid, node]) => before[uid] === node)) return {};
  return { activePods: { ...now, ...Object.fromEntries(gone.map((uid) => [uid, null])) } };
}

function isOwnedBy({ metadata }: KubeObject, uid: string): boolean {
  return (metadata.ownerReferences ?? []).some((one: KubeObject) => one.uid === uid);
}

function isReady({ status }: KubeObject): boolean {
  return (status?.conditions ?? []).some(({ type, status: is }: KubeObject) => type === "Ready" && is === "True");
}

/** The names of pods that are made in one second are numbered. */
function byAge({ metadata: a }: KubeObject, { metadata: b }: KubeObject): number {
  if (a.creationTimestamp !== b.creationTimestamp) return a.creationTimestamp < b.creationTimestamp ? -1 : 1;
  return a.name.localeCompare(b.name, "en", { numeric: true });
}
