import { describe, expect, test } from "vitest";
import { DefinitionBook, projectNad } from "../../claims/definition-book.ts";
import { ImportCandidates } from "../../claims/import-candidates.ts";
import { formatInterfaceAddress } from "../../ipam/cidr.ts";
import { parsePluginConfig } from "../../ipam/network-definition.ts";
import { pod } from "./objects.ts";

const conf = { name: "blue", type: "bridge", ipam: { type: "holdfast-ipam", subnets: "10.31.0.0/24" } };

/** Network blue, which namespace shop defines by a NetworkAttachmentDefinition. */
function ownedByShop(): DefinitionBook {
  const book = new DefinitionBook();
  const metadata = { namespace: "shop", name: "blue", uid: "u", resourceVersion: "1" };
  const creationTimestamp = "2026-01-01T00:00:00Z";
  book.upsert(
    projectNad({ metadata: { ...metadata, creationTimestamp }, spec: { config: JSON.stringify(conf) } }),
  );
  book.setOwner("blue", { definedIn: "shop", sharedWith: [] });
  return book;
}

/** A pod of another namespace that reports an address on a network, by an entry of its network-status. */
function reporting(entry: object) {
  const status = JSON.stringify([{ interface: "eth9", ips: ["10.31.0.77"], ...entry }]);
  return pod({
    metadata: {
      namespace: "evil",
      name: "liar",
      annotations: { "k8s.v1.cni.cncf.io/network-status": status },
    },
  });
}

function found(candidates: ImportCandidates): string[] {
  return candidates.all().map(({ one, foundIn }) => `${formatInterfaceAddress(one)} ${foundIn}`);
}

describe("a status entry that names a network without a NAD", () => {
  test.each([{ name: "blue" }, { name: "blue", default: true }, { name: "evil/blue" }])(
    "%j reserves nothing on a network that the nodes' configuration does not define",
    (entry) => {
      const candidates = new ImportCandidates("blue", { definitions: ownedByShop(), nodes: null });
      candidates.addPod(reporting(entry));
      expect(found(candidates)).toEqual([]);
    },
  );

  test("counts where the nodes' configuration defines the network", () => {
    const options = { definitions: new DefinitionBook(), nodes: parsePluginConfig(conf) };
    const candidates = new ImportCandidates("blue", options);
    candidates.addPod(reporting({ name: "blue" }));
    expect(found(candidates)).toEqual(["10.31.0.77/24 Pod evil/liar"]);
  });
});
