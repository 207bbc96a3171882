import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { OvsdbClient } from "../../guests/ovs/ovsdb-client.ts";
import { integers, optionalInteger, text, textMap, toMap, uuids } from "../../guests/ovs/ovsdb-values.ts";
import type { Log } from "../../platform/log.ts";
import { systemClock } from "../../platform/time.ts";
import { requireTool } from "../harness/needs.ts";
import { Ovs } from "../harness/ovs/ovs.ts";
import { pause, until } from "../harness/wait.ts";

const TABLES = {
  Bridge: { name: text, ports: uuids },
  Port: { name: text, tag: optionalInteger, trunks: integers, external_ids: textMap },
};

let ovs: Ovs;
let lines: string[];
let changes: number;
const clients: OvsdbClient<typeof TABLES>[] = [];

beforeEach(async (context) => {
  requireTool(context, "ovsdb-server", "--version");
  ovs = await Ovs.database();
  lines = [];
  changes = 0;
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await ovs?.stop();
});

function follow(socket = ovs.socket, database = "Open_vSwitch"): OvsdbClient<typeof TABLES> {
  const line = (...words: readonly unknown[]) => void lines.push(words.map((word) => JSON.stringify(word)).join(" "));
  const log = { debug: line, info: line, warn: line, error: line } as Log;
  const changed = () => {
    changes += 1;
  };
  const client = new OvsdbClient({ socket, database, tables: TABLES, clock: systemClock, log, changed });
  clients.push(client);
  client.start();
  return client;
}

function names(client: OvsdbClient<typeof TABLES>, table: "Bridge" | "Port" = "Port"): string[] {
  return [...client.rows(table).values()].map(({ name }) => name).sort();
}

test("rows that are there at the start are read, and every change of them", async () => {
  await ovs.vsctl("--no-wait", "add-br", "br0", "--", "add-port", "br0", "p1", "tag=7");
  const client = follow();
  expect(await client.contact(20_000)).toBe(true);
  expect(names(client)).toEqual(["br0", "p1"]);
  await ovs.vsctl("--no-wait", "set", "port", "p1", "trunks=[1,2]", 'external_ids:"a key"="a \\"value\\" {}"');
  const find = (name: string) => [...client.rows("Port").values()].find((row) => row.name === name);
  await until(() => find("p1")?.trunks.length === 2, "the change");
  expect(find("p1")).toEqual({
    name: "p1",
    tag: 7,
    trunks: [1, 2],
    external_ids: new Map([["a key", 'a "value" {}']]),
  });
  expect(find("br0")).toMatchObject({ tag: null, trunks: [] });
  const [bridge] = [...client.rows("Bridge").values()];
  expect([...(bridge?.ports ?? [])].sort()).toEqual([...client.rows("Port").keys()].sort());
  await ovs.vsctl("--no-wait", "del-port", "p1");
  await until(() => find("p1") === undefined, "the row to go");
  await ovs.vsctl("--no-wait", "del-br", "br0");
  await until(() => client.rows("Bridge").size === 0 && client.rows("Port").size === 0, "all rows to go");
});

test("a transaction is carried out whole, or rejected and not at all", async () => {
  await ovs.vsctl("--no-wait", "add-br", "br0");
  const client = follow();
  await client.contact(20_000);
  const mark = (value: string) => ({
    op: "update",
    table: "Port",
    where: [["name", "==", "br0"]],
    row: { external_ids: toMap([["mark", value]]) },
  });
  expect(await client.transact([mark("one"), { op: "comment", comment: "a test" }])).toEqual([{ count: 1 }, {}]);
  await expect(client.transact([mark("two"), { op: "insert", table: "Port", row: { nme: 1 } }])).rejects.toThrow(
    /unknown column|No column nme/,
  );
  await expect(client.transact([mark("three"), { op: "abort" }])).rejects.toThrow("aborted");
  const [selected] = await client.transact([
    { op: "select", table: "Port", where: [["name", "==", "br0"]], columns: ["external_ids"] },
  ]);
  expect(selected?.rows).toEqual([{ external_ids: ["map", [["mark", "one"]]] }]);
});

test("a lost connection is reopened, and the rows are read again", async () => {
  await ovs.vsctl("--no-wait", "add-br", "br0");
  const client = follow();
  await client.contact(20_000);
  await ovs.endDatabase("SIGKILL");
  await until(() => !client.connected, "the loss to be noticed");
  expect(names(client, "Bridge")).toEqual(["br0"]);
  await expect(client.transact([])).rejects.toThrow("no connection");
  await ovs.startDatabase();
  await ovs.vsctl("--no-wait", "del-br", "br0", "--", "add-br", "br1");
  await until(() => client.connected && names(client, "Bridge").join() === "br1", "the new rows");
  expect(lines.filter((line) => line.includes("is lost"))).toHaveLength(1);
});

test("a server that is not running yet causes no warning, and is connected when it starts", async () => {
  await ovs.endDatabase();
  rmSync(ovs.socket, { force: true });
  const client = follow();
  expect(await client.contact(500)).toBe(false);
  expect(lines).toEqual([]);
  await ovs.startDatabase();
  expect(await client.contact(20_000)).toBe(true);
});

test("a missing database is logged once, and requested again", async () => {
  const client = follow(ovs.socket, "OVN_Northbound");
  expect(await client.contact(1_000)).toBe(false);
  expect(lines.filter((line) => line.includes("cannot be used"))).toHaveLength(1);
  expect(lines.join()).toContain("unknown database");
});

test("a thousand rows in one transaction arrive whole", async () => {
  const client = follow();
  await client.contact(20_000);
  const ports = Array.from({ length: 1_000 }, (_, index) => ["--", "add-port", "br0", `port-${index}`]);
  await ovs.vsctl("--no-wait", "add-br", "br0", ...ports.flat());
  await until(() => client.rows("Port").size === 1_001, "all rows");
  const late = follow();
  await late.contact(20_000);
  expect(names(late)).toEqual(names(client));
});

test("the server's echo is answered, in whatever pieces it comes, and what is no JSON ends the connection", async () => {
  const path = join(ovs.directory, "played.sock");
  const sockets: Socket[] = [];
  const heard: string[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => void heard.push(chunk.toString()));
  });
  server.listen(path);
  await once(server, "listening");
  try {
    follow(path);
    await until(() => heard.join("").includes('"monitor"'), "the monitor request");
    for (const piece of [
      '{"id":"ech',
      'o","method":"echo","par',
      'ams":["}{\\""]}{"id":"2","method":"echo","params":[]}',
    ]) {
      sockets[0]?.write(piece);
      await pause(20);
    }
    await until(() => heard.join("").includes('{"id":"2","result":[],"error":null}'), "both answers");
    expect(heard.join("")).toContain('{"id":"echo","result":["}{\\""],"error":null}');
    const closed = once(sockets[0] as Socket, "close");
    sockets[0]?.write("{nonsense}");
    await closed;
    await until(() => sockets.length === 2, "the next connection");
    expect(lines.join()).toContain("cannot be used");
  } finally {
    for (const client of clients.splice(0)) client.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  }
});

test("listeners are notified of changed rows, a lost connection and a new one", async () => {
  const client = follow();
  await client.contact(20_000);
  expect(changes).toBe(1);
  await ovs.vsctl("--no-wait", "add-br", "br0");
  await until(() => client.rows("Bridge").size === 1, "the bridge");
  const before = changes;
  expect(before).toBeGreaterThan(1);
  await ovs.endDatabase();
  await until(() => changes === before + 1, "the loss");
  await ovs.startDatabase();
  await until(() => changes === before + 2, "the return");
});
