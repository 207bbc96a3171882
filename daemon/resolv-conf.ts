import { readFileSync } from "node:fs";
import type { Dns } from "../ipam/network-definition.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";

/** The DNS part of a result from a resolver configuration, as host-local's `resolvConf` (resolv.conf(5)). Throws RefusalError CONFIG_INVALID. */
export function readResolvConf(path: string): Dns {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new RefusalError(
      refuse("CONFIG_INVALID", {
        key: "ipam.resolvConf",
        value: path,
        remedy: `a readable resolv.conf is wanted (${(error as Error).message})`,
      }),
    );
  }
  const nameservers: string[] = [];
  const search: string[] = [];
  const options: string[] = [];
  let domain: string | undefined;
  for (const line of text.split("\n")) {
    const [key, ...values] = line.trim().split(/\s+/);
    if (key === "nameserver" && values[0] !== undefined) nameservers.push(values[0]);
    else if (key === "domain" && values[0] !== undefined) domain = values[0];
    else if (key === "search") search.push(...values);
    else if (key === "options") options.push(...values);
  }
  return {
    ...(nameservers.length > 0 ? { nameservers } : {}),
    ...(domain === undefined ? {} : { domain }),
    ...(search.length > 0 ? { search } : {}),
    ...(options.length > 0 ? { options } : {}),
  };
}
