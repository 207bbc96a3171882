import type { PoolResults } from "./pools.ts";
import type { TemplateServices } from "./template.ts";
import { TemplateProblem } from "./template-problem.ts";

export interface MachineService {
  readonly type: "dns";
  readonly address: string;
}

/** Name servers in their order, then those of the pool. Throws TemplateProblem. */
export function machineServices(template: TemplateServices | undefined, pools: PoolResults): MachineService[] {
  const { dns = [], dnsFromIPPool } = template ?? {};
  return [...dns, ...(dnsFromIPPool ? dnsOfPool(dnsFromIPPool, pools) : [])].map((address) => ({
    type: "dns",
    address,
  }));
}

function dnsOfPool(name: string, pools: PoolResults): readonly string[] {
  const result = pools.get(name);
  if (result === undefined) throw new TemplateProblem(`dnsFromIPPool: pool not found in cache: ${name}`);
  return result.dnsServers;
}
