import type { CniWireRequest } from "../cni-shim/wire.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { CniContext } from "./context.ts";
import { readDefinedConfig } from "./request.ts";

/** STATUS: whether ADD can be served. Throws RefusalError UNAVAILABLE. */
export async function cniStatus(context: CniContext, wire: CniWireRequest): Promise<void> {
  const { definition: given } = readDefinedConfig(wire.config, "STATUS", "1.1.0");
  const reason = context.notReady();
  if (reason !== null) throw new RefusalError(refuse("UNAVAILABLE", { reason }));
  const definition = context.store.definition(given.name) ?? given;
  if (definition.statusWhenFull !== "fail") return;
  const view = (await context.store.networks()).find((network) => network.name === given.name);
  const full = view?.ranges.find((range) => range.free === "0" && range.cooling === "0");
  if (full) {
    const said = `network ${given.name} has no free address in ${full.subnets.join(", ")}`;
    throw new RefusalError(refuse("UNAVAILABLE", { reason: said }));
  }
}
