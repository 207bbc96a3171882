import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished } from "vitest";
import { PortClient, withMetadata } from "../harness/port-client.ts";
import { pause } from "../harness/wait.ts";
import { ipsOf } from "../harness/world/network.ts";
import { addressesOf, expectDone, processTest, type TestDaemon, until } from "./fixtures.ts";
import { nad } from "./manifests.ts";

/*
 * A guest of an earlier release has its route to 169.254.169.254 by an address that its network reserved then. Edits of
 * the definition that would reserve another one change neither the guest nor what is kept for it.
 */

const GATEWAY = "10.10.0.3";
const TINY = { subnets: "10.10.0.0/29", cooldownSeconds: 0 };
const DEFINED = { ...TINY, metadata: { address: GATEWAY } };

/** As the upgrade leaves what an earlier release has recorded: by which address is not known yet. */
async function upgraded(daemon: TestDaemon): Promise<void> {
  await daemon.end();
  const db = new Database(join(daemon.folder, "state", "holdfast.db"));
  db.prepare("UPDATE attachments SET via_reserved = 1").run();
  db.close();
}

processTest(
  "edits of the definition move neither the gateway of a former guest nor its protection",
  async ({ daemon: before }) => {
    const config = withMetadata("blue", DEFINED);
    addressesOf(await before.cni("ADD", "c1", { config }));
    await upgraded(before);
    const { TestDaemon } = await import("../harness/daemon.ts");
    const daemon = await TestDaemon.start({ folder: before.folder });
    onTestFinished(() => daemon.stop());
    const client = PortClient.start(daemon);
    onTestFinished(() => client.stop());
    const gateways = () => client.wanted.find(({ containerId }) => containerId === "c1")?.formerGateways;
    const messages = async () =>
      ((await daemon.get("/v1/check")).json() as { findings: { message: string }[] }).findings.map(
        ({ message }) => message,
      );
    const apply = (ipam: object) =>
      daemon.post("/v1/apply", { objects: [nad("blue", withMetadata("blue", ipam))] });
    const isRefused = async () => {
      const answer = await daemon.cni("ADD", "asks", { config, args: `IP=${GATEWAY}` });
      expect(answer.json().code, answer.stdout).toBe(122);
    };

    await until(() => gateways()?.[0] === GATEWAY, "the port to be wanted");
    // Nobody is told to remove an address that a guest needs.
    expect(await messages()).toEqual([]);
    // It is recorded at once, without anything that shows from outside.
    await pause(1_000);

    for (const ipam of [
      { ...TINY, metadata: true },
      { ...TINY, metadata: false },
      { ...TINY, excludeSubnets: "10.10.0.6/32", metadata: true },
    ]) {
      await apply(ipam);
      if (ipam.metadata)
        await until(() => gateways()?.[0] === GATEWAY, `${GATEWAY} with ${JSON.stringify(ipam)}`);
      else await client.untilWanted([]);
      expect(gateways() ?? [GATEWAY]).toEqual([GATEWAY]);
      await isRefused();
    }
    await apply(DEFINED);
    expect((await daemon.cli("show", "blue")).stdout).toContain(`${GATEWAY} is kept for guests`);
    expectDone(await daemon.cni("DEL", "c1", { config }));
    expect(ipsOf(await daemon.cni("ADD", "asks", { config, args: `IP=${GATEWAY}` }))).toEqual([
      `${GATEWAY}/29`,
    ]);
    expect(await messages()).toEqual([
      expect.stringContaining("metadata.address is of no use to new guests"),
    ]);
    expectDone(await daemon.cni("DEL", "asks", { config }));
    await apply({ ...TINY, metadata: true });
  },
);
