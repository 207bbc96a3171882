import { afterAll, beforeAll, expect, test } from "vitest";
import type { KubeTenantSource } from "../../metadata/tenant/kube-tenant-source.ts";
import { ApiProxy } from "../harness/api-proxy.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { Tenants, type TenantVm, userDataOf } from "./tenants.ts";

/*
 * The metadata service reads the Secrets and ConfigMaps that annotations of VMs name, and nothing else: whoever steals
 * its token learns no more than what tenants have named for it.
 */

const RBAC = "rbac.authorization.k8s.io/v1";

let tenants: Tenants;
let source: KubeTenantSource;

beforeAll(async () => {
  tenants = await Tenants.start();
  source = await tenants.source();
});
afterAll(() => tenants?.stop());

const userData = (vm: TenantVm, from = source) => userDataOf(from, vm);

test("a stolen token can read only the Secrets that the tenant's Role names", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "served" });
  await tenants.secret(namespace, "database", { password: "secret!" }, false);
  const guest = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
  expect(await userData(guest)).toBe("served");
  const thief = tenants.cluster.apiAs("holdfast-metadata");
  const status = async (path: string) => (await thief.call("GET", path)).status;
  const secrets = pathOf(namespace, "secrets");
  expect(await status(`${secrets}/boot`)).toBe(200);
  expect(await status(`${secrets}/database`)).toBe(403);
  for (const query of ["", "?watch=true", "?labelSelector=metadata.holdfast.dev/serve%3Dtrue"])
    for (const path of [secrets, pathOf(namespace, "configmaps"), "/api/v1/secrets"])
      expect(await status(`${path}${query}`), `${path}${query}`).toBe(403);
  thief.close();
});

test("a Secret that the Role does not name: the event says how to name it, and that is enough", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "first" });
  await tenants.secret(namespace, "late", { userdata: "late" });
  const annotations = { "user-data": "secret/boot", meta: "secret/late/userdata" };
  const guest = await tenants.vm(namespace, "web", { annotations });
  expect(await source.viewOf(guest.identity)).toMatchObject({ meta: {} });
  expect(await userData(guest)).toBe("first");
  const message = await tenants.event(guest, "MetadataForbidden");
  expect(message).toContain(`may not read Secret late of namespace ${namespace}`);
  const [, patch] = /kubectl patch role -n \S+ holdfast-metadata --type=json -p '(.*)'/.exec(message) ?? [];
  const role = pathOf(namespace, "roles", "holdfast-metadata", RBAC);
  await tenants.cluster.api.patch(role, JSON.parse(patch as string), "json");
  await tenants.until(async () => (await source.viewOf(guest.identity)).meta.userdata === "late", "the named Secret");
  expect(await userData(guest)).toBe("first");
});

test("a guest that asks again and again costs the API server one read of each object in three seconds", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "served" });
  const guest = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
  const proxy = await ApiProxy.start(tenants.cluster);
  const ours = await tenants.source({}, proxy.url);
  try {
    const startMs = tenants.clock.monotonicMs();
    for (let n = 0; n < 100; n += 1) await Promise.all([userData(guest, ours), userData(guest, ours)]);
    const periods = 1 + Math.ceil((tenants.clock.monotonicMs() - startMs) / 3_000);
    const reads = proxy.log.filter(({ path }) => path.includes("/secrets"));
    expect(reads.length).toBeGreaterThan(0);
    expect(reads.length).toBeLessThanOrEqual(periods);
    expect(reads.every(({ path }) => path.endsWith("/secrets/boot"))).toBe(true);
  } finally {
    await ours.stop();
    await proxy.stop();
  }
});
