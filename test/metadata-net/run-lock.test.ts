import { once } from "node:events";
import { chownSync, mkdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { namesOf } from "../../guests/kernel/names.ts";
import { lockRunDir } from "../../guests/run-lock.ts";
import { newDirectory } from "../harness/daemon.ts";
import { whyNotReal } from "../network/containers.ts";
import { NetNode } from "./node.ts";

function directory(): string {
  const made = newDirectory();
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return join(made, "net");
}

test.skipIf(whyNotReal() !== null)("a run directory is locked once, until its holder ends", () => {
  const runDir = directory();
  const unlock = lockRunDir(runDir);
  expect(statSync(runDir).mode & 0o777).toBe(0o711);
  expect(statSync(join(runDir, "lock")).mode & 0o777).toBe(0o600);
  expect(() => lockRunDir(runDir)).toThrow("another holdfast metadata-net works with");
  unlock();
  lockRunDir(runDir)();
});

test.skipIf(whyNotReal() !== null)("a run directory of somebody else is refused, with its owner named", () => {
  const runDir = directory();
  mkdirSync(runDir);
  chownSync(runDir, 65_534, 65_534);
  expect(() => lockRunDir(runDir)).toThrow("belongs to user 65534");
});

test.skipIf(whyNotReal() !== null)(
  "abstract sockets in the host's network namespace do not prevent the lock",
  async () => {
    const node = await NetNode.start();
    try {
      await node.endNet("SIGKILL");
      // The names that earlier versions had: any process of the network namespace could take them.
      for (const name of ["holdfast-metadata-net", "holdfast-waiting-room"]) {
        const squatter = createServer((connection) => connection.destroy());
        squatter.listen(`\0${name}-${namesOf(node.runDir).tag}`);
        await once(squatter, "listening");
        onTestFinished(() => void squatter.close());
      }
      node.startNet();
      const vm = await node.guest(null, "10.30.0.5/24");
      expect(await node.wanted(vm.on("blue"))).toEqual({});
      expect((await vm.ask("/")).status).toBe(200);
      // The way by the second socket: nobody answers behind it, so a guest is told so after a while.
      await node.stopUpstream();
      expect((await vm.ask("/")).status).toBe(503);
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  },
);
