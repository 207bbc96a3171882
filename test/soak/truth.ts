import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { HOLDFAST, run } from "../harness/daemon.ts";
import type { KubeApi, KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { pause } from "../harness/wait.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import type { Ledger } from "./ledger.ts";
import type { SoakNode } from "./soak-node.ts";

const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
/** Longer than every grace, and than a watch that is silent without being noticed. */
const SETTLED_MS_MAX = 300_000;
const LOOK_AGAIN_MS = 1_000;
/** Of the check of a cluster: nothing that is settled is younger. */
const CHECK_GRACE_SECONDS = "3";

/** Looks again and again until nothing is wrong; what is wrong when it gives up. */
export async function settled(look: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const endMs = performance.now() + SETTLED_MS_MAX;
  for (;;) {
    const wrong = await look().catch((error: Error) => [error.message]);
    if (wrong.length === 0 || performance.now() > endMs) return wrong;
    await pause(LOOK_AGAIN_MS);
  }
}

/** `holdfast check` on every node, and of the cluster. */
export async function findings(nodes: readonly SoakNode[], kubeconfig: string): Promise<string[]> {
  const [cluster, ...all] = await Promise.all([
    run(process.execPath, [HOLDFAST, "--kubeconfig", kubeconfig, "check", "--grace", CHECK_GRACE_SECONDS]),
    ...nodes.map(({ node }) => node.daemon.cli("check")),
  ]);
  const named = [
    { name: "the cluster", answer: cluster },
    ...all.map((answer, at) => ({ name: nodes[at]?.name, answer })),
  ];
  return named.flatMap(({ name, answer }) =>
    answer?.code === 0 ? [] : [`check of ${name}: ${answer?.stdout}${answer?.stderr}`],
  );
}

/**
 * Compares what the API has with what was answered. Every address of a living container or a claim is Bound to its
 * owner, with the container among its attachments and listed by its claim; nothing else is Bound.
 */
export async function lostOrLeaked(api: KubeApi, ledger: Ledger): Promise<string[]> {
  const bound = new Map<string, KubeObject>();
  for (const object of await api.list(ALLOCATIONS_PATH))
    if (object.status?.state === "Bound") bound.set(`${object.spec.network} ${object.spec.address}`, object);
  const claims = new Map<string, KubeObject>();
  for (const claim of await api.list(pathOf(NAMESPACE, "ipamclaims", "", CLAIMS)))
    claims.set(claim.metadata.uid, claim);
  const wrong: string[] = [];
  const owned = new Set<string>();
  const see = ({ network, ip, owner, attachment }: Record<"network" | "ip" | "owner" | "attachment", string>) => {
    const key = `${network} ${ip}`;
    owned.add(key);
    const object = bound.get(key);
    if (object === undefined) wrong.push(`lost: ${key} of ${owner} is not Bound`);
    else if (object.spec.owner.uid !== owner) wrong.push(`${key} of ${owner} is Bound to ${object.spec.owner.uid}`);
    else if (attachment !== "" && object.status.attachments?.[attachment] === undefined)
      wrong.push(`${key} is not in use by ${attachment}`);
  };
  for (const { network, ips, owner, container, ifname } of ledger.living)
    for (const ip of ips) see({ network, ip, owner, attachment: `${container}/${ifname}` });
  for (const { network, ips, owner } of ledger.claims) {
    for (const ip of ips) see({ network, ip, owner, attachment: "" });
    const listed = (claims.get(owner)?.status?.ips ?? []).join(", ");
    if (listed !== ips.join(", ")) wrong.push(`claim ${owner} was given ${ips.join(", ")} and lists ${listed}`);
  }
  for (const [key, { spec, status }] of bound) {
    if (owned.has(key)) continue;
    const { kind, name } = spec.owner;
    wrong.push(`leaked: ${key} is Bound to ${kind} ${name}, in use by ${Object.keys(status.attachments ?? {})}`);
  }
  return wrong;
}
