import { expect, test } from "vitest";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { NetNode } from "./node.ts";
import { askAs, self } from "./who.ts";

test.skipIf(whyNotReal() !== null)(
  "a port that cannot be saved to disk is not served until it is, and the others are",
  async () => {
    const node = await NetNode.start([], { apart: true });
    try {
      const [first, second] = [await node.guest(null, "10.30.0.5/24"), await node.guest(null, "10.30.0.6/24")];
      expect(await node.wanted(first.on("blue"))).toEqual({});
      const hindrance = `${node.runDir}/ports.json.new`;
      await node.mustRun("mkdir", [hindrance]);
      const problems = await node.wanted(first.on("blue"), second.on("blue"));
      expect(Object.entries(problems)).toEqual([
        [
          `container-${second.namespace} eth0`,
          expect.stringMatching(/^pending: its port cannot be written down: EISDIR/),
        ],
      ]);
      expect(await askAs(second, ["--max-time", "1"])).toBe("status 0");
      expect(await askAs(first)).toBe(self(first));
      await node.mustRun("rmdir", [hindrance]);
      await until(
        () => Object.keys(node.problems()).length === 0,
        () => JSON.stringify(node.problems()),
        10_000,
      );
      // Its kernel may still be giving up what it asked before.
      await until(
        async () => (await askAs(second)) === self(second),
        () => node.log,
      );
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  },
);
