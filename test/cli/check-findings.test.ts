import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, expect, test } from "vitest";
import { network, newDirectory, TestDaemon } from "../harness/daemon.ts";
import { acceptEdits } from "../harness/edited-database.ts";

// Findings made by hand in the database of a stopped daemon; the hint of each mends it.
let daemon: TestDaemon;

afterEach(() => daemon.stop());

async function damage(sql: string): Promise<void> {
  await daemon.end();
  const db = new Database(join(daemon.state, "holdfast.db"));
  db.exec(sql);
  db.close();
  acceptEdits(daemon.state);
  daemon = await TestDaemon.start({ directory: daemon.directory });
}

test("check reports an allocation of an unknown container, and release frees it", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  await daemon.cni("ADD", "web", { config: network("blue") });
  await damage("DELETE FROM uses");
  expect(await daemon.cli("check")).toEqual({
    code: 1,
    stdout:
      "I3: 10.10.0.1/24 of network blue is held by container web (eth0), which nothing here knows any more\n" +
      "    fix: holdfast release 10.10.0.1 --network blue gives it back\n",
    stderr: "",
  });
  const { code, stdout } = await daemon.cli("check", "-o", "json");
  expect(code).toBe(1);
  expect(JSON.parse(stdout).findings).toMatchObject([{ invariant: "I3" }]);

  expect(await daemon.cli("release", "10.10.0.1", "--network", "blue")).toMatchObject({ code: 0 });
  expect(await daemon.cli("check")).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ok: /) });
});

test("check reports a claim that publishes an address which is not allocated to it", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  const metadata = { name: "vm1" };
  const claim = {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata,
    spec: { network: "blue" },
  };
  await daemon.post("/v1/apply", { objects: [{ ...claim, status: { ips: ["10.10.0.5/24"] } }] });
  await damage("DELETE FROM allocations");
  const { code, stdout } = await daemon.cli("check");
  expect(code).toBe(1);
  expect(stdout).toContain("I2: claim default/vm1 publishes 10.10.0.5/24, which is not allocated to it\n    fix: ");
  expect(await daemon.cli("who", "10.10.0.5")).toMatchObject({
    code: 1,
    stderr: "error: nobody holds 10.10.0.5: there are no networks\nlast holder: claim default/vm1 on network blue\n",
  });
});
