import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";

const QUERIES = [
  ...["list", "list -o json", "list --pod a/b", "show big", "claims", "claims -o json", "content", "check"],
  "networks",
];

test("the memory of a daemon does not grow with the rows of an answer", async () => {
  const daemon = await TestDaemon.start();
  try {
    const peakAfter = async (from: number, to: number) => {
      await applyClaims(daemon, from, to);
      for (const query of QUERIES)
        expect(await daemon.cli(...query.split(" ")), query).toMatchObject({
          // There is no such pod.
          code: query.includes("--pod") ? 1 : 0,
        });
      await Promise.all(["list", "list", "check", "check"].map((query) => daemon.cli(query)));
      const status = readFileSync(`/proc/${daemon.process.pid}/status`, "utf8");
      return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024;
    };
    const few = await peakAfter(0, 3_000);
    const many = await peakAfter(3_000, 12_000);
    // MiB. SQLite's cache fills up to 16, and a claim takes a fraction of a KiB; all claims in one answer took 179
    // more.
    console.log("PEAK", few, many);
    expect(many - few).toBeLessThan(40);
  } finally {
    await daemon.stop();
  }
});

async function applyClaims(daemon: TestDaemon, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += 1_000) {
    const objects = Array.from({ length: 1_000 }, (_, n) => ({
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: { name: `c${at + n}`, annotations: { text: "x".repeat(500) } },
      spec: { network: "big" },
      status: { ips: [`10.20.${(at + n) >> 8}.${(at + n) & 255}/16`] },
    }));
    expect((await daemon.post("/v1/apply", { objects })).status).toBe(200);
  }
}
