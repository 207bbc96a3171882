import { describe, expect, test } from "vitest";
import { DefinitionCatalog, projectNad } from "../../claims/definition-catalog.ts";
import { recordOwner } from "../../claims/record-owner.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { allocationName } from "../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  LABEL_NETWORK,
  NADS_PATH,
  NETWORKS_PATH,
  namespacedPath,
  PODS_PATH,
} from "../../kube/objects.ts";
import { NETWORKS_ANNOTATION } from "../../kube/views/network-selection.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

const DEFAULT_NETWORK = "v1.multus-cni.io/default-network";
const BLUE = JSON.stringify({
  name: "blue",
  type: "bridge",
  ipam: { type: "holdfast-ipam", subnet: "10.0.0.0/24" },
});
const BY_FILE = "";

/** Network blue as 0.1.0 left it, defined by a NAD of `definer`, before whoever records its owner. */
class Upgrade {
  readonly api = new KubeInMemory();
  readonly catalog = new DefinitionCatalog(this.api.clock);
  #host = 1;

  constructor(definer = "shop") {
    this.nad(definer, "blue", BLUE);
    this.api.put(NETWORKS_PATH, {
      metadata: { name: "blue" },
      spec: { network: "blue" },
      status: { definedBy: `${definer}/blue` },
    });
  }

  nad(namespace: string, name: string, config: string): this {
    const metadata = { namespace, name, uid: `${namespace}-${name}`, resourceVersion: "1" };
    this.catalog.upsert(
      projectNad({ metadata: { ...metadata, creationTimestamp: "2026-01-01T00:00:00Z" }, spec: { config } }),
    );
    return this;
  }

  /** A pod, with an address of blue when `interface` says on which. */
  pod(
    namespace: string,
    annotations: Record<string, string>,
    { interface: name = null as string | null, phase = "Running" } = {},
  ): this {
    const at = { namespace, name: `pod-${this.#host++}` };
    const status = {
      phase,
      containerStatuses: [{ state: phase === "Running" ? { running: {} } : { terminated: {} } }],
    };
    const spec = { nodeName: "n" };
    const made = this.api.put(namespacedPath(PODS_PATH, namespace), {
      metadata: { ...at, annotations },
      spec,
      status,
    });
    return name === null ? this : this.holds({ ...at, uid: made.metadata.uid }, name);
  }

  holds(
    pod: { namespace: string; name: string; uid: string },
    interfaceName: string,
    imported = false,
  ): this {
    const address = `10.0.0.${this.#host++}`;
    const owner = { kind: "Pod", ...pod, interface: interfaceName };
    const attachment = { containerID: "c", interface: interfaceName, node: "n", pod, since: "" };
    const attachments = imported ? {} : { [`c.${interfaceName}`]: attachment };
    this.api.put(ALLOCATIONS_PATH, {
      metadata: {
        name: allocationName("blue", parseAddress(address)),
        labels: { [LABEL_NETWORK]: "blue" },
      },
      spec: { network: "blue", address: `${address}/24`, owner },
      status: { state: "Bound", attachments },
    });
    return this;
  }

  async sharedWith(): Promise<readonly string[] | undefined> {
    const silent = { info() {}, warn() {} };
    await recordOwner(this.api, "blue", {
      catalog: this.catalog,
      deadlineMs: this.api.clock.monotonicMs() + 60_000,
      log: silent,
    });
    return this.api.at(`${NETWORKS_PATH}/blue`).spec.sharedWith;
  }
}

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
    const owner = await recordOwner(api, "blue", { catalog, deadlineMs, log: { info() {}, warn() {} } });
    return owner?.definedIn;
  }

  test("is the namespace of the oldest definition, also of one that the watch has not delivered yet", async () => {
    expect(await ownerBy({ isAhead: true })).toBe("bank");
  });

  test("is told by what the watch has delivered, without a list", async () => {
    expect(await ownerBy({ isAhead: false })).toBe("shop");
  });
});

const through = (...nads: string[]) => ({ [NETWORKS_ANNOTATION]: nads.join(",") });

describe("the upgrade shares a network", () => {
  test("with namespaces whose pods attach through NADs that stand for files on the nodes", async () => {
    const upgrade = new Upgrade()
      .nad("bank", "blue", BY_FILE)
      .pod("bank", through("blue"))
      // Whatever its name is: the pod's address says it.
      .nad("store", "uplink", BY_FILE)
      .pod("store", through("uplink"), { interface: "net1" })
      .nad("imported", "blue", BY_FILE);
    const uid = "before";
    upgrade.holds({ namespace: "imported", name: "gone", uid }, "net1", true);
    expect(await upgrade.sharedWith()).toEqual(["bank", "imported", "store"]);
  });

  test("with no namespace whose NAD stands for another file, or whose pods have ended", async () => {
    const upgrade = new Upgrade()
      .nad("bank", "red", BY_FILE)
      .pod("bank", through("red"))
      .nad("store", "blue", BY_FILE)
      .pod("store", through("blue"), { phase: "Succeeded" });
    expect(await upgrade.sharedWith()).toBeUndefined();
  });

  test("with namespaces whose pods have it on a primary interface, without a NAD", async () => {
    const upgrade = new Upgrade()
      .pod("bank", {}, { interface: "eth0" })
      // By the owner's own definition, for which nothing has to be shared.
      .pod("store", { [DEFAULT_NETWORK]: "shop/blue" }, { interface: "eth0" })
      .pod("mart", through("shop/blue"), { interface: "net1" })
      .pod("shop", {}, { interface: "eth0" });
    expect(await upgrade.sharedWith()).toEqual(["bank"]);
  });

  test("with namespaces through whose NAD a pod has its primary interface", async () => {
    const upgrade = new Upgrade().nad("bank", "blue", BLUE).pod("store", { [DEFAULT_NETWORK]: "bank/blue" });
    expect(await upgrade.sharedWith()).toEqual(["bank"]);
  });

  test("with no namespace where Multus's own namespace defines it, because every primary interface may use it", async () => {
    const upgrade = new Upgrade("kube-system").pod("bank", {}, { interface: "eth0" });
    expect(await upgrade.sharedWith()).toBeUndefined();
  });

  test("with all namespaces, where more use it than an IPNetwork can list", async () => {
    const upgrade = new Upgrade();
    for (let index = 0; index <= 1_000; index += 1)
      upgrade.nad(`ns-${index}`, "blue", BY_FILE).pod(`ns-${index}`, through("blue"));
    expect(await upgrade.sharedWith()).toEqual(["*"]);
  });
});
