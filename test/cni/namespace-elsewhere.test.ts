import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { namespaceIdAt } from "../../platform/namespaces.ts";
import { errorOf, expectDone, held, network, newDirectory, run, test, until } from "./fixtures.ts";

/** A network namespace is gone when nothing on the node has it any more, not when one path to it is. */

const config = network("blue", { cooldownSeconds: 0 }, { cniVersion: "1.1.0" });
const asking = { config: { ...config, runtimeConfig: { ips: ["10.10.0.7"] } } };

/** A process in a network namespace: in a new one, or in that of a path. */
async function inNamespace(path: string | null, onCleanup: (act: () => Promise<void>) => void) {
  const before = namespaceIdAt("/proc/self/ns/net");
  const [command, ...args] = path === null ? ["unshare", "-n"] : ["nsenter", `--net=${path}`];
  const child = spawn(command as string, [...args, "sleep", "1000"], { stdio: "ignore" });
  const end = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  onCleanup(end);
  const netns = `/proc/${child.pid}/ns/net`;
  await until(async () => ![before, "", null].includes(namespaceIdAt(netns)), "a process in its namespace");
  return { netns, end };
}

/** What else can have a namespace whose path goes; each returns what takes that away. */
const HOLDERS: [
  string,
  (path: string, onCleanup: (act: () => Promise<void>) => void) => Promise<() => Promise<void>>,
][] = [
  ["a process", async (path, onCleanup) => (await inNamespace(path, onCleanup)).end],
  [
    "another mount",
    async (path, onCleanup) => {
      const directory = newDirectory();
      const other = join(directory, "netns");
      writeFileSync(other, "");
      expect(await run("mount", ["--bind", path, other])).toMatchObject({ code: 0 });
      let isMounted = true;
      const end = async () => {
        if (isMounted) expect(await run("umount", [other])).toMatchObject({ code: 0 });
        isMounted = false;
      };
      onCleanup(async () => {
        await end();
        rmSync(directory, { recursive: true });
      });
      return end;
    },
  ],
];

describe.for(HOLDERS)("a namespace whose path is removed while %s has it", ([, hold]) => {
  test("keeps its address from GC and from whoever asks for it by name, until that ends", async ({
    daemon,
    namespaces,
    onTestFinished,
  }) => {
    const netns = await namespaces.add();
    await daemon.cni("ADD", "c1", { ...asking, netns });
    const end = await hold(netns, onTestFinished);
    await namespaces.remove(netns);
    expect(errorOf(await daemon.cni("ADD", "c2", asking)).msg).toContain("10.10.0.7 is held by container c1");
    const gc = { ...config, "cni.dev/valid-attachments": [] };
    expectDone(await daemon.cni("GC", "", { config: gc, ifname: "", netns: "" }));
    expect(await held(daemon, "blue")).toEqual(["10.10.0.7/24 Bound container c1 (eth0)"]);
    await end();
    await until(async () => (await daemon.cni("ADD", "c2", asking)).code === 0, "an address without a holder");
    expect(await held(daemon, "blue")).toEqual(["10.10.0.7/24 Bound container c2 (eth0)"]);
  });
});

test("a namespace named by a process that has ended lives on with its other processes", async ({
  daemon,
  namespaces,
  onTestFinished,
}) => {
  await namespaces.add();
  const first = await inNamespace(null, onTestFinished);
  await daemon.cni("ADD", "c1", { ...asking, netns: first.netns });
  const second = await inNamespace(first.netns, onTestFinished);
  await first.end();
  expect(errorOf(await daemon.cni("ADD", "c2", asking)).msg).toContain("10.10.0.7 is held by container c1");
  await second.end();
  await until(async () => (await daemon.cni("ADD", "c2", asking)).code === 0, "an address without a holder");
});
