import type { NetworkConfig } from "./networks.ts";

/** The configuration of a definition, of whichever plugin; null: it cannot be read. */
export function configOf({ spec }: { readonly spec: { readonly config: string } }): NetworkConfig | null {
  try {
    const config = JSON.parse(spec.config);
    return typeof config?.ipam === "object" ? config : null;
  } catch {
    return null;
  }
}

/** With other keys in its `ipam` block. */
export function withIpam(config: NetworkConfig, ipam: object): NetworkConfig {
  return { ...config, ipam: { ...config.ipam, ...ipam } };
}

/** Every subnet with another prefix length. */
export function withSubnets(config: NetworkConfig, bitsOf: (bits: number, size: number) => number): NetworkConfig {
  const resized = (subnet: string) => {
    const [first = "", bits] = subnet.split("/");
    const size = first.includes(":") ? 128 : 32;
    return `${first}/${Math.min(bitsOf(Number(bits), size), size - 2)}`;
  };
  const { subnets, ranges } = config.ipam;
  if (subnets !== undefined) return withIpam(config, { subnets: subnets.split(",").map(resized).join() });
  return withIpam(config, {
    ranges: (ranges ?? []).map((set: { subnet: string }[]) => set.map(({ subnet }) => ({ subnet: resized(subnet) }))),
  });
}

/** With its mask. */
export function firstSubnet({ ipam }: NetworkConfig): string {
  return ipam.subnets?.split(",")[0] ?? ipam.ranges?.[0]?.[0]?.subnet ?? "192.0.2.0/24";
}

/** An address counted from the beginning of the first subnet, also beyond its end. */
export function nthAddress(config: NetworkConfig, n: number): string {
  const [first = ""] = firstSubnet(config).split("/");
  if (first.includes(":")) return `${first}${n.toString(16)}`;
  const number = first.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0) + n;
  return [24, 16, 8, 0].map((bits) => Math.floor(number / 2 ** bits) % 256).join(".");
}
