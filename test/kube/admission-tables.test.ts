import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AdmissionServer, asDaemonOf, review, widerRights } from "../harness/admission.ts";
import { ALLOCATION_CASES } from "../harness/admission-cases/allocations.ts";
import { type AdmissionCase, requestOf } from "../harness/admission-cases/objects.ts";
import { CLAIM_CASES, NETWORK_CASES } from "../harness/admission-cases/others.ts";
import { TestCluster } from "../harness/cluster.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { collectionOf, readManifests } from "../harness/kube-manifests.ts";
import { until } from "../harness/wait.ts";

/*
 * The tables of test/harness/admission-cases, written to a real API server. One of Kubernetes 1.30 or newer
 * (KUBEBUILDER_ASSETS) evaluates the policies itself; an older one asks the evaluator in JavaScript about what it would
 * store.
 */

const MINOR_WITH_POLICIES = 30;
const POLICIES = ["admission", "udn"].map((part) => join(import.meta.dirname, `../../deploy/${part}/policies.yaml`));

let cluster: TestCluster;
let admission: AdmissionServer | null = null;

beforeAll(async () => {
  cluster = await TestCluster.start({ controllers: false });
  await cluster.apply(widerRights());
  const { minor } = await cluster.api.get("/version");
  if (Number.parseInt(minor, 10) >= MINOR_WITH_POLICIES) await cluster.apply(POLICIES.flatMap(readManifests));
  else admission = await AdmissionServer.start(cluster);
  const probe = [...NETWORK_CASES].filter(({ node }) => node === null);
  await until(async () => (await write(probe[0] as AdmissionCase)).status === 403, "the server to ask the policies");
});
afterAll(async () => {
  await cluster?.stop();
  await admission?.stop();
});

/** What the server answers to the daemon; nothing is stored. */
async function write({ before, after, node = "a", resource }: AdmissionCase) {
  const sent = after as KubeObject;
  const collection = collectionOf(sent);
  const headers = { "content-type": "application/json", ...asDaemonOf(node) };
  if (before === undefined) return cluster.api.call("POST", `${collection}?dryRun=All`, sent, headers);
  const path = `${collection}/${sent.metadata.name}`;
  let stored = await put(path, before as KubeObject);
  const isBeingDeleted = sent.metadata.deletionTimestamp !== undefined;
  if (isBeingDeleted) {
    await cluster.api.call("DELETE", path);
    stored = (await cluster.api.get(path)).metadata;
  }
  const { uid, resourceVersion, deletionTimestamp, deletionGracePeriodSeconds } = stored;
  const deletion = isBeingDeleted ? { deletionTimestamp, deletionGracePeriodSeconds } : {};
  const metadata = { ...sent.metadata, ...deletion, uid, resourceVersion };
  const target = resource === "ipamclaims" ? `${path}/status` : path;
  const answer = await cluster.api.call("PUT", `${target}?dryRun=All`, { ...sent, metadata }, headers);
  await remove(path);
  return answer;
}

/** Stores an object as an administrator; returns its metadata. */
async function put(path: string, object: KubeObject): Promise<KubeObject> {
  const { uid: _, resourceVersion: __, ...metadata } = object.metadata;
  const { metadata: created } = await cluster.api.create(collectionOf(object), { ...object, metadata });
  if (object.kind !== "IPAMClaim" || object.status === undefined) return created;
  const headers = { "content-type": "application/merge-patch+json" };
  return (await cluster.api.call("PATCH", `${path}/status`, { status: object.status }, headers)).body.metadata;
}

async function remove(path: string): Promise<void> {
  await cluster.api.patch(path, { metadata: { finalizers: null } });
  await cluster.api.delete(path);
}

describe.each([
  ["an IPAllocation", ALLOCATION_CASES],
  ["an IPNetwork", NETWORK_CASES],
  ["the status of an IPAMClaim", CLAIM_CASES],
] as const)("what a daemon writes of %s to a real server:", (_, cases) => {
  test.each(cases.filter(({ refused }) => refused === null))("it may $name", async (one) => {
    const answer = await write(one);
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  });

  test.each(cases.filter(({ refused }) => refused !== null))("a stolen token may not $name", async (one) => {
    const { status, body } = await write(one);
    expect(status, body.message).toBe(403);
    // A server with policies tells one of the rules that refuse, whichever it is.
    const told = review(requestOf(one)).refusals.filter((rule) => body.message.includes(rule));
    expect(told, body.message).not.toEqual([]);
  });
});
