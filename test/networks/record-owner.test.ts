import { describe, expect, test } from "vitest";
import { NADS_PATH, namespacedPath } from "../../kube/objects.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { recordOwner } from "../../networks/record-owner.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

const BLUE = JSON.stringify({
  name: "blue",
  type: "bridge",
  ipam: { type: "holdfast-ipam", subnet: "10.0.0.0/24" },
});

describe("the owner of a network that nobody has recorded", () => {
  const nad = (namespace: string, creationTimestamp: string) => ({
    metadata: { namespace, name: "blue", creationTimestamp },
    spec: { config: BLUE },
  });
  const older = nad("bank", "2026-01-01T00:00:00Z");
  const younger = nad("shop", "2026-01-01T00:00:01Z");

  /** `watched`: what the watch has delivered when an ADD reads the younger one by itself. */
  async function ownerBy({ isAhead }: { isAhead: boolean }): Promise<string | undefined> {
    const api = new KubeInMemory();
    const catalog = new DefinitionCatalog(api.clock);
    for (const one of [older, younger])
      api.put(namespacedPath(NADS_PATH, one.metadata.namespace), structuredClone(one));
    const read = api.at(namespacedPath(NADS_PATH, "shop", "blue"));
    catalog.upsert(projectNad(read), { isAhead });
    const deadlineMs = api.clock.monotonicMs() + 60_000;
    const owner = await recordOwner(api, "blue", { catalog, deadlineMs, log: { info() {} } });
    return owner?.definedIn;
  }

  test("is the namespace of the oldest definition, also of one that the watch has not delivered yet", async () => {
    expect(await ownerBy({ isAhead: true })).toBe("bank");
  });

  test("is found in the watch's cache without a list", async () => {
    expect(await ownerBy({ isAhead: false })).toBe("shop");
  });
});
