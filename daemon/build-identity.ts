import { guestRouteToTell } from "../guests/ports/guest-route.ts";
import type { PortService } from "../guests/ports/port-service.ts";
import { type AttachmentSummary, type NetworkFacts, NotLearnt } from "../identity/compose.ts";
import { IdentityService } from "../identity/service.ts";
import { ClusterIdentities } from "../identity/sources/cluster.ts";
import { ClusterVms } from "../identity/sources/cluster-vms.ts";
import { StandaloneIdentities } from "../identity/sources/standalone.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Route } from "../ipam/definition/routes-and-dns.ts";
import type { ResolverFiles } from "../platform/resolv-conf.ts";
import { SqliteStore } from "../store/standalone/standalone-store.ts";
import type { ClusterNode } from "./cluster-node.ts";

export function buildIdentityService(
  behind: ClusterNode | SqliteStore,
  ports: IdentityPorts,
  resolverFiles: ResolverFiles,
  notReady: () => string | null,
): IdentityService {
  const isAlone = behind instanceof SqliteStore;
  const store = isAlone ? behind : behind.store;
  const facts: NetworkFacts = {
    definition: (network) => {
      const definition = store.definition(network);
      return definition && ports.here(definition);
    },
    dns({ dns, resolvConf }) {
      if (resolvConf === undefined) return dns;
      const known = resolverFiles.known(resolvConf);
      if (known === undefined) throw new NotLearnt(() => resolverFiles.learn(resolvConf));
      return known;
    },
    mtu: (network) => store.pluginMtu(network),
    mac: (pod, name) => (isAlone ? null : behind.pods.reportedMac(pod, name)),
    asked: (pod, name) => (isAlone ? [] : behind.pods.askedOn(pod, name)),
    routes: (definition, attachment, earlier) => identityRoutes(ports, definition, attachment, earlier),
  };
  if (isAlone) {
    const source = new StandaloneIdentities(behind, facts);
    return new IdentityService({ store, source, vms: source, facts, notReady });
  }
  const cluster = behind;
  const vms = new ClusterVms(cluster.api, cluster.pods, { readsVms: false });
  const source = new ClusterIdentities({
    api: cluster.api,
    facts,
    vms,
    networks: () => [...new Set([...cluster.catalog.networks(), ...cluster.store.attachmentCounts().keys()])],
    hasEnded: (network, { node, containerID, interface: name }) =>
      node === cluster.node && store.attachment(network, containerID, name) === undefined,
  });
  return new IdentityService({ store, source, vms, facts, others: [cluster.ovn.pods], notReady });
}

type IdentityPorts = Pick<PortService, "enabled" | "here" | "leadsToMetadata" | "isNeverServed">;

/** As in the answer to a repeated ADD. */
function identityRoutes(
  ports: IdentityPorts,
  definition: NetworkDefinition,
  attachment: AttachmentSummary | null,
  earlier: readonly AttachmentSummary[],
): readonly Route[] {
  const { routes, metadata } = definition;
  if (metadata === null || attachment === null || !ports.enabled) return routes;
  if (ports.isNeverServed(attachment)) return routes;
  const route = guestRouteToTell({
    ips: attachment.ips,
    routes,
    isLater: earlier.some((one) => ports.leadsToMetadata(one)),
  });
  return route === null ? routes : [...routes, route];
}
