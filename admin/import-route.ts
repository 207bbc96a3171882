import { isAbsolute } from "node:path";
import type { FastifyInstance } from "fastify";
import { isNetworkName } from "../ipam/definition/plugin-config.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { invalid, readBody, readQuery } from "../platform/api-query.ts";
import { type ImportRequest, importLeases } from "../store/host-local/report.ts";
import type { NodeStore } from "../store/node-store.ts";

/** `POST /v1/import`: what was in use on this node before its networks were ours. */
export function addImportRoute(
  server: FastifyInstance,
  { store, notReady }: { readonly store: NodeStore; notReady(): string | null },
): void {
  server.post("/v1/import", async (request) => {
    readQuery(request.query, []);
    const wanted = readImportRequest(request.body);
    const reason = notReady();
    if (reason !== null) throw new RefusalError(refuse("NOT_READY", { reason }));
    return importLeases(store.hostLocal, wanted);
  });
}

/** The body of an import. Throws RefusalError REQUEST_INVALID. */
function readImportRequest(body: unknown): ImportRequest {
  const { network, dataDir, dryRun = false } = readBody(body, ["network", "dataDir", "dryRun"]);
  if (network !== undefined && (typeof network !== "string" || !isNetworkName(network)))
    invalid("network", network, "expected the name of a network");
  if (dataDir !== undefined && (typeof dataDir !== "string" || !isAbsolute(dataDir)))
    invalid("dataDir", dataDir, "expected an absolute path");
  if (dataDir !== undefined && network === undefined)
    invalid("dataDir", dataDir, "name the network too: each may have its own");
  if (typeof dryRun !== "boolean") invalid("dryRun", dryRun, "expected true or false");
  return {
    ...(typeof network === "string" ? { network } : {}),
    ...(typeof dataDir === "string" ? { dataDir } : {}),
    dryRun,
  };
}
