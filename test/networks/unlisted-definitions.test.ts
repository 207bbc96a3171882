import { expect, test } from "vitest";
import { NADS_PATH, namespacedPath } from "../../kube/objects.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { forgetUnlisted } from "../../networks/listed-definitions.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

function nadOf(name: string): object {
  const config = {
    cniVersion: "1.0.0",
    type: "bridge",
    name,
    ipam: { type: "holdfast-ipam", subnets: "10.1.0.0/24" },
  };
  const metadata = {
    namespace: "shop",
    name,
    uid: `${name}-uid`,
    resourceVersion: "1",
    creationTimestamp: "2026-01-01T00:00:00Z",
  };
  return { metadata, spec: { config: JSON.stringify(config) } };
}

test("a definition that an ADD has read is forgotten if it was deleted before the watch delivered it", async () => {
  const api = new KubeInMemory();
  const catalog = new DefinitionCatalog(new VirtualTime().clock());
  for (const name of ["listed", "newer", "deleted"]) catalog.upsert(projectNad(nadOf(name)));
  for (const name of ["listed", "newer"]) api.put(namespacedPath(NADS_PATH, "shop"), nadOf(name));
  await forgetUnlisted(api, catalog, new Set(["shop/listed"]));
  expect(catalog.keys()).toEqual(["shop/listed", "shop/newer"]);
  expect(catalog.definitionOf("deleted")).toBeNull();
});
