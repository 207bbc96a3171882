import type { AnsweredAddress } from "../allocations/records.ts";
import type { CniError } from "../cni-shim/wire.ts";
import type { Dns, Route } from "../ipam/definition/routes-and-dns.ts";
import type { Refusal } from "../ipam/refusals.ts";

export interface ResultParts {
  readonly ips: readonly AnsweredAddress[];
  readonly routes: readonly Route[];
  readonly dns: Dns;
}

/** The result of a delegated IPAM plugin in the version asked for: never `interfaces`, never `ips[].interface`. */
export function formatResult(cniVersion: string, parts: ResultParts): object {
  if (cniVersion === "0.1.0" || cniVersion === "0.2.0") return formatEarly(cniVersion, parts);
  const withFamily = cniVersion.startsWith("0.");
  return {
    cniVersion,
    ips: parts.ips.map((ip) => (withFamily ? { version: isV6(ip.address) ? "6" : "4", ...ip } : ip)),
    ...(parts.routes.length === 0 ? {} : { routes: parts.routes.map((route) => formatRoute(route, cniVersion)) }),
    dns: parts.dns,
  };
}

/** 0.1.0 and 0.2.0 have one place for each family. */
function formatEarly(cniVersion: string, parts: ResultParts): object {
  const family = (v6: boolean) => {
    const ip = parts.ips.find((one) => isV6(one.address) === v6);
    if (!ip) return undefined;
    const routes = parts.routes.filter((route) => isV6(route.dst) === v6);
    return {
      ip: ip.address,
      ...(ip.gateway === undefined ? {} : { gateway: ip.gateway }),
      ...(routes.length === 0 ? {} : { routes: routes.map((route) => formatRoute(route, cniVersion)) }),
    };
  };
  const ip4 = family(false);
  const ip6 = family(true);
  return { cniVersion, ...(ip4 ? { ip4 } : {}), ...(ip6 ? { ip6 } : {}), dns: parts.dns };
}

/** mtu, advmss, priority, table and scope came with 1.1.0. */
function formatRoute(route: Route, cniVersion: string): object {
  if (cniVersion === "1.1.0") return route;
  return route.gw === undefined ? { dst: route.dst } : { dst: route.dst, gw: route.gw };
}

export function formatError(cniVersion: string, refusal: Refusal): CniError {
  return { cniVersion, code: refusal.cniCode, msg: refusal.message, details: refusal.hint };
}

function isV6(address: string): boolean {
  return address.includes(":");
}
