import { hostname } from "node:os";
import { join } from "node:path";
import type { HostPort } from "../../platform/host-port.ts";
import { type Cluster, clusterOf } from "../../platform/settings/cluster.ts";
import { type Environment, type Given, loadSettings, type SettingsError } from "../../platform/settings/load.ts";
import type { METADATA_SETTINGS } from "../../platform/settings/metadata.ts";
import type { ValuesOf } from "../../platform/settings/setting.ts";

/** The values of platform/settings/metadata.ts, and what follows from them. */
export interface MetadataSettings
  extends Omit<
    ValuesOf<typeof METADATA_SETTINGS>,
    "kubeconfig" | "listen" | "network" | "novaUrl" | "keyFile" | "node"
  > {
  readonly keyFile: string;
  /** Was a key file asked for? Only the default one is made. */
  readonly makeKeys: boolean;
  readonly node: string;
  readonly novaUrl: URL | null;
  readonly kubernetes: Cluster;
  /** null: the unix socket is served. */
  readonly fixed: { readonly network: string; readonly listen: HostPort } | null;
}

/** Flags win over the environment. Throws SettingsError. */
export function loadMetadataSettings(flags: Given, env: Environment): MetadataSettings {
  const { values, refused } = loadSettings("metadata", flags, env);
  const { kubeconfig, network, listen, novaUrl, ...rest } = values;
  if ((network === undefined) !== (listen === undefined)) {
    const [given, missing] =
      network === undefined ? (["listen", "network"] as const) : (["network", "listen"] as const);
    throw refused(given, `it goes together with ${missing}, which is not given`);
  }
  if (rest.tokens !== undefined && network === undefined)
    throw refused("tokens", "it goes together with network; else tokens are a matter of each network's definition");
  return {
    ...rest,
    keyFile: rest.keyFile ?? join(rest.state, "keys"),
    makeKeys: rest.keyFile === undefined,
    node: rest.node ?? hostname(),
    novaUrl: novaUrl === undefined ? null : readBackendUrl(novaUrl, (why) => refused("novaUrl", why)),
    kubernetes: clusterOf(kubeconfig, env),
    fixed: network === undefined || listen === undefined ? null : { network, listen },
  };
}

/** Only scheme, host and port: a path would let guests climb out of it, and credentials would be logged. */
function readBackendUrl(given: string, refused: (why: string) => SettingsError): URL {
  if (!URL.canParse(given)) throw refused("expected a URL, such as http://10.0.0.5:8775");
  const url = new URL(given);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw refused("expected http or https");
  if (url.username !== "" || url.password !== "") throw refused("it must not contain credentials");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "")
    throw refused(`the path of the guest's request goes to it; write ${url.origin}`);
  return url;
}
