import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { PORT_ADDRESS_FIRST, type PortAddress } from "../../guests/kernel/port-address.ts";
import { PortMemory } from "../../guests/port-memory.ts";
import { newDirectory } from "../harness/daemon.ts";

const port = (link: string, door = "main") => ({ driver: "ingress", link, ifindex: 7, door }) as const;
const SPACE = { netns: "/run/netns/guest", id: 4026532000 };
const MAC = "02:00:00:00:00:01";

function memories(random = 0): { directory: string; open: () => PortMemory } {
  const directory = newDirectory();
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const clock = { random: () => random, randomBytes: (count: number) => Buffer.alloc(count, 0x0f) };
  return { directory, open: () => new PortMemory(directory, clock) };
}

function block(address: PortAddress): number {
  return Math.floor((address - PORT_ADDRESS_FIRST) / 0x10000);
}

test("addresses are counted up and never used again, also after a restart", () => {
  const { open } = memories();
  const memory = open();
  const first = memory.add("a", port("veth1"), MAC, SPACE).address;
  memory.delete("a");
  const second = memory.add("a", port("veth1"), MAC, SPACE).address;
  expect(second).toBe(first + 1);
  memory.save();
  const next = open();
  expect(next.get("a")).toEqual({ address: second, port: port("veth1"), mac: MAC, space: SPACE });
  next.delete("a");
  next.save();
  expect(open().add("b", port("veth2"), MAC, SPACE).address).toBe(first + 2);
});

test("each door has blocks of its own, and another one when a block is used up", () => {
  const memory = memories().open();
  const main = block(memory.add("a", port("veth1"), MAC, SPACE).address);
  const other = block(memory.add("b", port("veth2", "ovs:br1"), MAC, SPACE).address);
  expect(other).not.toBe(main);
  for (let count = 0; count < 0x10000; count += 1) memory.add("c", port("veth3"), MAC, SPACE);
  const later = block((memory.get("c") as { address: PortAddress }).address);
  expect([main, other]).not.toContain(later);
  expect(memory.blocksOf("main")).toHaveLength(2);
  expect(memory.blocksOf("ovs:br1")).toHaveLength(1);
});

test("after the last block numbering wraps around, and skips blocks in use", () => {
  const memory = memories(0.9999).open();
  const blocks = ["a", "b", "c"].map((door) => memory.blocksOf(door)[0]);
  expect(blocks).toEqual([0xf7ff, 0xf000, 0xf001]);
});

test("the file is root's alone, and has what was wanted last", () => {
  const { directory, open } = memories();
  const memory = open();
  memory.add("a", port("veth1"), MAC, SPACE);
  memory.add("b", port("veth2"), MAC, SPACE);
  memory.keepOnly(new Set(["b"]));
  memory.save();
  expect(statSync(join(directory, "ports.json")).mode & 0o777).toBe(0o600);
  const next = open();
  expect(next.secretMac).toBe(memory.secretMac);
  expect([...next.entries()].map(([key]) => key)).toEqual(["b"]);
});

test("a memory that was lost begins with a block that haproxy's map does not have", () => {
  const { directory, open } = memories();
  writeFileSync(join(directory, "ports.map"), "F0000001 blue|a|10.0.0.1\nF0010007 blue|b|10.0.0.2\n");
  const memory = open();
  const blocks = ["main", "ovs:br1"].map((door) => memory.blocksOf(door)[0]);
  expect(blocks).toEqual([0xf002, 0xf003]);
});

test("a port is not written down until the file has been written", () => {
  const { directory, open } = memories();
  const memory = open();
  mkdirSync(join(directory, "ports.json.new"));
  memory.add("a", port("veth1"), MAC, SPACE);
  expect(() => memory.save()).toThrow("EISDIR");
  expect(memory.isUnwritten("a")).toBe(true);
  rmSync(join(directory, "ports.json.new"), { recursive: true });
  memory.save();
  expect(memory.hasUnwritten).toBe(false);
});

test("a file that is cut short or is another's is as none", () => {
  for (const text of ["", "{", "[]", '{"secretMac":"x"}', '{"ports":{"a":{"address":1}}}']) {
    const { directory, open } = memories();
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, "ports.json"), text);
    const memory = open();
    expect([...memory.entries()]).toEqual([]);
    expect(memory.secretMac).toBe("0e:0f:0f:0f:0f:0f");
  }
});

test("a port whose driver is no longer used is remembered without its address until it is found again", () => {
  const { directory, open } = memories();
  const memory = open();
  for (const key of ["blue abc net1", "blue abd net1"]) memory.add(key, port("veth1"), MAC, SPACE);
  memory.demote("blue abc net1");
  memory.demote("blue abd net1");
  memory.save();
  const next = open();
  expect(next.get("blue abc net1")).toBeUndefined();
  expect(next.demoted("blue abc net1")).toEqual({ link: "veth1", ifindex: 7, mac: MAC, space: SPACE });
  next.add("blue abc net1", port("veth1"), MAC, SPACE);
  expect(next.demoted("blue abc net1")).toBeUndefined();
  next.keepOnly(new Set());
  next.save();
  expect(JSON.parse(readFileSync(join(directory, "ports.json"), "utf8"))).toMatchObject({
    ports: {},
    demoted: {},
  });
});
