import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pause } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { answersOf, BOOT, BOOTS, type BootAnswer } from "./boot.ts";
import { GuestProgram } from "./guest-program.ts";
import { type AttachedGuest, MetadataNode } from "./metadata-node.ts";
import { MigratingVm } from "./migrating-vm.ts";

const MOVER = "11111111-1111-4111-8111-111111111111";
const OTHER = "22222222-2222-4222-8222-222222222222";
const MAC = "52:54:00:de:5b:bf";

/** A request that is sent in two parts, with a pause in which the guest moves; then what came of it. */
const SLOW = `
import socket, sys, time
s = socket.create_connection(("169.254.169.254", 80), 5)
s.sendall(b"GET /openstack/latest/meta_data.json HTTP/1.1\\r\\nHost: m\\r\\n")
print("half", flush=True)
sys.stdin.readline()
s.settimeout(6)
try:
    s.sendall(b"Connection: close\\r\\n\\r\\n"); got = b""
    while True:
        part = s.recv(65536)
        if not part: break
        got += part
    print(got.decode(), flush=True)
except OSError as error: print("failed:", error, flush=True)
`;

describe.skipIf(whyNotReal() !== null)("a VM that migrates", () => {
  let node: MetadataNode;
  let vm: MigratingVm;
  let other: AttachedGuest;
  beforeAll(async () => {
    node = await MetadataNode.start();
    const config = node.network("moving");
    vm = await MigratingVm.start(node, config, { name: "mover", uid: MOVER, mac: MAC });
    other = await node.vm("other", config, OTHER);
    await node.untilServed(other);
  });
  afterAll(() => node?.stop());

  test("during a boot's requests is answered as itself, and no failure outlives a retry", async () => {
    expect(JSON.parse((await vm.guest.ask("/openstack/latest/meta_data.json")).body).uuid).toBe(MOVER);
    const boots = [vm.guest, other].map((guest) => new GuestProgram(guest, BOOTS, [JSON.stringify(BOOT)]));
    for (const one of boots) await one.said("begun");
    try {
      for (let turn = 0; turn < 5 || boots.some((one) => one.times("whole") < 2); turn += 1) {
        await pause(200);
        await vm.migrate();
      }
      await pause(200);
    } finally {
      await Promise.all(boots.map((one) => one.stop()));
    }
    const outputs = await Promise.all(boots.map((one) => one.ended()));
    const answers = outputs.map(answersOf);
    for (const [index, uuid] of [MOVER, OTHER].entries()) {
      const own = answers[index] as BootAnswer[];
      expect(own.length).toBeGreaterThan(BOOT.length);
      expect(own.filter(({ status }) => status !== 200 && status !== 404)).toEqual([]);
      const told = own.filter(({ path }) => path.endsWith("/meta_data.json"));
      expect(told.length).toBeGreaterThan(0);
      expect(new Set(told.map(({ body }) => JSON.parse(body).uuid))).toEqual(new Set([uuid]));
      const ids = own.filter(({ path }) => path === "/latest/meta-data/instance-id").map(({ body }) => body);
      expect(new Set(ids)).toEqual(new Set([`i-${uuid.replaceAll("-", "")}`]));
    }
    // What is there before the move is there after it.
    const missing = (answers[0] as BootAnswer[]).filter(({ status }) => status === 404).map(({ path }) => path);
    const always = (answers[1] as BootAnswer[]).filter(({ status }) => status === 404).map(({ path }) => path);
    expect([...new Set(missing)].filter((path) => !always.includes(path))).toEqual([]);
  });

  test("in the middle of a request gets its own answer or none, and the next one at once", async () => {
    for (let turn = 0; turn < 3; turn += 1) {
      const slow = new GuestProgram(vm.guest, SLOW);
      await slow.said("half");
      try {
        await vm.migrate();
      } finally {
        slow.write("on\n");
      }
      const output = await slow.ended();
      expect(output).not.toContain(OTHER);
      if (output.includes("HTTP/1.1 200")) expect(output).toContain(MOVER);
      const next = await vm.guest.ask("/openstack/latest/meta_data.json");
      expect(JSON.parse(next.body).uuid).toBe(MOVER);
    }
  });

  test("is answered at source and target while it has a pod at both", async () => {
    const config = node.network("both");
    const source = await node.vm("source", config, MOVER, `;MAC=${MAC}`);
    const target = await node.vm("target", config, MOVER, `;MAC=${MAC}`);
    const uuid = async (guest: AttachedGuest) =>
      JSON.parse((await guest.ask("/openstack/latest/meta_data.json")).body).uuid;
    expect(target.mac).toBe(source.mac);
    for (let n = 0; n < 5; n += 1) expect(await Promise.all([uuid(source), uuid(target)])).toEqual([MOVER, MOVER]);
    await node.end(source);
    expect(await uuid(target)).toBe(MOVER);
    await node.end(target);
  });
});
