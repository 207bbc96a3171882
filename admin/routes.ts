/*
 * admin/: what operators ask, with one set of routes for a node and for a cluster
 *
 *   routes        the socket API of a daemon
 *   import-route  POST /v1/import
 *   backup-path   where a backup may be written
 *   cluster/      the same answers, made from a cluster's objects
 */

import { isAbsolute } from "node:path";
import type { FastifyInstance } from "fastify";
import { readManifest, readReference } from "../claims/manifest.ts";
import { claimKey, type WaitingRoom } from "../claims/waiting-room.ts";
import type { IdentityDesk } from "../identity/desk.ts";
import { readIdentityQuery } from "../identity/query.ts";
import type { NetworkMetadata } from "../ipam/definition/metadata-key.ts";
import type { Finding } from "../ipam/finding.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { invalid, readAddress, readBody, readLimit, readQuery } from "../platform/api-query.ts";
import { checkResolverFiles, type ResolverFiles } from "../platform/resolv-conf.ts";
import type { ApplyAction } from "../store/manifests.ts";
import type { NodeStore } from "../store/node-store.ts";
import { refusalOf } from "../store/refusal-of.ts";
import { refuseOtherFolder } from "./backup-path.ts";
import { addImportRoute } from "./import-route.ts";

export interface ApiContext {
  readonly store: NodeStore;
  readonly waiting: WaitingRoom;
  readonly version: string;
  readonly identity: IdentityDesk;
  readonly resolverFiles: ResolverFiles;
  notReady(): string | null;
  spool(): { readonly waiting: number; readonly bad: number };
  /** What of the daemon itself, beside its store, somebody has to look at. */
  findings(): Promise<Finding[]> | Finding[];
  /** Goes on with a backup, or with nothing; serves again after the spool is drained. `replace`: also when its state is sound. */
  rebuild(backup: string | null, replace: boolean): Promise<void>;
}

/** What was done with one object of a manifest. */
export type AppliedResult = { readonly kind: string; readonly namespace: string; readonly name: string } & (
  | { readonly action: ApplyAction | "deleted" | "terminating"; readonly note?: string }
  | { readonly error: { readonly code: string; readonly message: string; readonly hint: string } }
);

const ALLOCATION_FILTERS = ["network", "address", "pod", "claim", "vm", "node", "limit", "continue"];

/** The admin API of the socket (everything but `/cni`). Errors are thrown as RefusalError and sent by the server. */
export function addApiRoutes(server: FastifyInstance, context: ApiContext): void {
  addReadRoutes(server, context);
  addWriteRoutes(server, context);
  addImportRoute(server, context);
}

function addReadRoutes(server: FastifyInstance, context: ApiContext): void {
  const { store, version, identity, spool, resolverFiles } = context;
  server.get("/v1/version", async () => ({ version }));

  server.get("/v1/networks", async (request) => {
    readQuery(request.query, []);
    return { items: await store.networks() };
  });

  server.get<{ Params: { name: string } }>("/v1/networks/:name", async (request) => {
    readQuery(request.query, []);
    const found = (await store.networks()).find((network) => network.name === request.params.name);
    if (!found) throw new RefusalError(refuse("NOT_FOUND", { what: `network ${request.params.name}` }));
    return found;
  });

  server.get("/v1/allocations", async (request) => {
    const { address, limit, continue: token, ...filter } = readQuery(request.query, ALLOCATION_FILTERS);
    const wanted = address === undefined ? undefined : readAddress("address", address);
    return store.list({ ...filter, address: wanted }, { limit: readLimit(limit), continue: token });
  });

  server.get("/v1/claims", async (request) => {
    const { namespace, name } = readQuery(request.query, ["namespace", "name"]);
    const items = (await store.claims())
      .filter((claim) => namespace === undefined || claim.metadata.namespace === namespace)
      .filter((claim) => name === undefined || claim.metadata.name === name);
    return { items };
  });

  server.get("/v1/history", async (request) => {
    const { address, network, limit } = readQuery(request.query, ["address", "network", "limit"]);
    const items = store.history({
      ...(network === undefined ? {} : { network }),
      ...(address === undefined ? {} : { address: readAddress("address", address) }),
      limit: readLimit(limit),
    });
    return { items };
  });

  server.get("/v1/identity", async (request) => identity.answer(readIdentityQuery(request.query)));

  server.get("/v1/check", async (request) => {
    readQuery(request.query, []);
    const resolvers = await checkResolverFiles(store, resolverFiles);
    const found = [
      ...(await store.check()),
      ...checkSpool(spool()),
      ...resolvers,
      ...(await context.findings()),
    ];
    const findings = [...found, ...checkReady(context.notReady(), found)];
    return { findings: findings.map(({ invariant, message, hint }) => ({ invariant, message, hint })) };
  });
}

/** Why no ADD is served now, unless a finding says it already. */
function checkReady(reason: string | null, found: readonly Finding[]): Finding[] {
  if (reason === null || found.some(({ whyNotReady }) => whyNotReady === reason)) return [];
  return [
    {
      invariant: "ready",
      message: `the daemon gives no address now: ${reason}`,
      hint: "mend what the reason names; the daemon serves again by itself, and its log says more",
    },
  ];
}

function checkSpool({ bad }: { bad: number }): Finding[] {
  if (bad === 0) return [];
  return [
    {
      invariant: "spool",
      message: `${bad} spooled requests are not understood; the addresses of their containers may still be held`,
      hint: "read the *.bad files in the spool folder, see holdfast list for their containers, then delete the files",
    },
  ];
}

function addWriteRoutes(server: FastifyInstance, context: ApiContext): void {
  const { store } = context;
  server.post("/v1/apply", async (request) => {
    readQuery(request.query, []);
    const { objects } = readBody(request.body, ["objects"]);
    if (!Array.isArray(objects)) invalid("objects", objects, "expected a list of Kubernetes objects");
    const results: AppliedResult[] = [];
    for (const object of objects) results.push(await applyOne(context, object));
    return { results };
  });

  server.post("/v1/delete", async (request) => {
    readQuery(request.query, []);
    const { objects } = readBody(request.body, ["objects"]);
    if (!Array.isArray(objects)) invalid("objects", objects, "expected a list of Kubernetes objects");
    const results: AppliedResult[] = [];
    for (const object of objects) results.push(await deleteOne(context, object));
    return { results };
  });

  server.delete<{ Params: { namespace: string; name: string } }>(
    "/v1/claims/:namespace/:name",
    async (request) => {
      readQuery(request.query, []);
      const { namespace, name } = request.params;
      const deleted = await store.deleteClaim(namespace, name);
      if (!deleted) throw new RefusalError(refuse("NOT_FOUND", { what: `claim ${namespace}/${name}` }));
      return deleted;
    },
  );

  server.post("/v1/release", async (request) => {
    readQuery(request.query, []);
    const { network, address, force = false } = readBody(request.body, ["network", "address", "force"]);
    if (typeof network !== "string") invalid("network", network, "expected the name of a network");
    if (typeof force !== "boolean") invalid("force", force, "expected true or false");
    const outcome = await store.release({ network, address: readAddress("address", address), force });
    if (outcome.kind === "refused") throw new RefusalError(outcome.refusal);
    return { addresses: outcome.addresses, holder: outcome.holder };
  });

  server.post("/v1/backup", async (request) => {
    readQuery(request.query, []);
    const { path, folder } = readBody(request.body, ["path", "folder"]);
    if (typeof path !== "string" || !isAbsolute(path)) invalid("path", path, "expected an absolute path");
    refuseOtherFolder(path, folder);
    return { path, bytes: await store.backup(path) };
  });

  server.get("/v1/rebuild", async (request) => {
    readQuery(request.query, []);
    return { comparable: store.isComparable };
  });

  server.post("/v1/rebuild", async (request) => {
    readQuery(request.query, []);
    const { from, empty = false, replace = false } = readBody(request.body, ["from", "empty", "replace"]);
    if (typeof replace !== "boolean" || (replace && from === undefined))
      invalid("replace", replace, "expected true, together with from, or false");
    if ((from === undefined) === (empty !== true))
      invalid("from", from, "expected either from (a backup) or empty: true");
    if (from !== undefined && (typeof from !== "string" || !isAbsolute(from))) {
      invalid("from", from, "expected the absolute path of a backup");
    }
    await context.rebuild(typeof from === "string" ? from : null, replace);
    return { rebuilt: true };
  });
}

async function applyOne({ store, waiting }: ApiContext, object: unknown): Promise<AppliedResult> {
  try {
    const read = readManifest(object);
    if (read.kind === "IPAMClaim") {
      const action = await store.applyClaim(read.claim);
      waiting.wake(claimKey(read.claim));
      return { ...named(object), action };
    }
    const action = await store.applyDefinition(read.definition);
    const note = noteOn(store.definition(read.definition.network)?.metadata ?? null);
    return { ...named(object), action, ...(note === null ? {} : { note }) };
  } catch (error) {
    return { ...named(object), error: errorOf(error) };
  }
}

/** What somebody who asks for metadata may not expect of it; null: nothing. */
function noteOn(metadata: NetworkMetadata | null): string | null {
  if (metadata?.kind === "refused") return `its VMs get no metadata: ${metadata.reason}`;
  if (metadata?.kind !== "on" || metadata.tokens !== "required") return null;
  return "metadata.tokens is required: of cloud-init only the Ec2 source in a VM that looks like one of AWS asks for a token; others get nothing (docs/metadata.md, Tokens)";
}

async function deleteOne({ store }: ApiContext, object: unknown): Promise<AppliedResult> {
  try {
    const { kind, namespace, name } = readReference(object);
    const missing = () => new RefusalError(refuse("NOT_FOUND", { what: `${kind} ${namespace}/${name}` }));
    if (kind === "IPAMClaim") {
      const deleted = await store.deleteClaim(namespace, name);
      if (!deleted) throw missing();
      return { kind, namespace, name, action: deleted.state };
    }
    if (!(await store.deleteDefinition(namespace, name))) throw missing();
    return { kind, namespace, name, action: "deleted" };
  } catch (error) {
    return { ...named(object), error: errorOf(error) };
  }
}

function errorOf(error: unknown): { code: string; message: string; hint: string } {
  const { code, message, hint } = refusalOf(error);
  return { code, message, hint };
}

/** What an object calls itself, for the answer, however wrong the rest of it is. */
function named(object: unknown): { kind: string; namespace: string; name: string } {
  const { kind, metadata } = (object ?? {}) as {
    kind?: unknown;
    metadata?: { namespace?: unknown; name?: unknown };
  };
  return {
    kind: String(kind ?? "object"),
    namespace: String(metadata?.namespace ?? "default"),
    name: String(metadata?.name ?? ""),
  };
}
