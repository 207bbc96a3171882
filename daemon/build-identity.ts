import { type AttachmentSummary, type NetworkFacts, NotLearnt } from "../identity/compose.ts";
import { IdentityService } from "../identity/service.ts";
import { ClusterIdentities } from "../identity/sources/cluster.ts";
import { ClusterVms } from "../identity/sources/cluster-vms.ts";
import { StandaloneIdentities } from "../identity/sources/standalone.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Route } from "../ipam/definition/routes-and-dns.ts";
import { formatAddress } from "../ipam/space/address.ts";
import { isOnLink } from "../metadata/listeners/admission.ts";
import { parsePlan } from "../metadata/listeners/bridge-plan.ts";
import type { ListenerService } from "../metadata/listeners/listener-service.ts";
import { ipv4Of } from "../metadata/listeners/need.ts";
import { METADATA_ROUTE_DST } from "../metadata/listeners/wire.ts";
import type { ResolverFiles } from "../platform/resolv-conf.ts";
import { SqliteStore } from "../store/standalone/standalone-store.ts";
import type { ClusterNode } from "./cluster-node.ts";

/** The service of a daemon, over its own store or, in Kubernetes, over the API and the store beside it. */
export function buildIdentityService(
  behind: ClusterNode | SqliteStore,
  listeners: Pick<ListenerService, "enabled" | "serves">,
  resolverFiles: ResolverFiles,
  notReady: () => string | null,
): IdentityService {
  const isAlone = behind instanceof SqliteStore;
  const store = isAlone ? behind : behind.store;
  const facts: NetworkFacts = {
    definition: (network) => store.definition(network),
    dns({ dns, resolvConf }) {
      if (resolvConf === undefined) return dns;
      const known = resolverFiles.known(resolvConf);
      if (known === undefined) throw new NotLearnt(() => resolverFiles.learn(resolvConf));
      return known;
    },
    mtu: (network) => {
      const plan = store.listenerPlan(network);
      return plan === null ? null : parsePlan(plan).mtu;
    },
    mac: (pod, name) => (isAlone ? null : behind.pods.reportedMac(pod, name)),
    routes: (definition, attachment, earlier) => identityRoutes(listeners, definition, attachment, earlier),
  };
  if (isAlone) {
    const source = new StandaloneIdentities(behind, facts);
    return new IdentityService({ store, source, vms: source, facts, notReady });
  }
  const cluster = behind;
  const vms = new ClusterVms(cluster.api, cluster.pods);
  const source = new ClusterIdentities({
    api: cluster.api,
    facts,
    vms,
    networks: () => [...new Set([...cluster.catalog.networks(), ...cluster.store.attachmentCounts().keys()])],
    hasEnded: (network, { node, containerID, interface: name }) =>
      node === cluster.node && store.attachment(network, containerID, name) === undefined,
  });
  return new IdentityService({ store, source, vms, facts, notReady });
}

/** As in the answer to a repeated ADD. */
function identityRoutes(
  listeners: Pick<ListenerService, "enabled" | "serves">,
  definition: NetworkDefinition,
  attachment: AttachmentSummary | null,
  earlier: readonly AttachmentSummary[],
): readonly Route[] {
  const { routes, metadata } = definition;
  if (metadata?.kind !== "on" || attachment === null || !listeners.enabled) return routes;
  const serves = (one: AttachmentSummary) => listeners.serves(one) && ipv4Of(one).length > 0;
  const hasRoute = routes.some(({ dst }) => dst === METADATA_ROUTE_DST);
  if (hasRoute || !serves(attachment) || !isOnLink(attachment, definition) || earlier.some(serves))
    return routes;
  return [...routes, { dst: METADATA_ROUTE_DST, gw: formatAddress(metadata.address.address) }];
}
