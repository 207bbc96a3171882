/** State directories that no copying and no single damage makes: what is no file, of somebody else's, or half done. */
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { readLog } from "../../store/journal/files/write-ahead-log.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import { want } from "../store/subjects.ts";

const NOTES = ["holdfast.answered", "holdfast.answered-copy"];

/** One node, whose daemon is closed, or killed, and started again. */
class Node {
  readonly root = mkdtempSync(join(tmpdir(), "holdfast-odd-"));
  readonly state = join(this.root, "state");
  readonly remembered = join(this.root, "remembered");
  readonly #time: VirtualTime;
  store!: SqliteStore;

  /** Another seed, another node. */
  constructor(seed = 1) {
    this.#time = new VirtualTime(seed);
    mkdirSync(this.state);
    onTestFinished(() => {
      this.store.close();
      rmSync(this.root, { recursive: true, force: true });
    });
  }

  async open(bootId = "boot-now"): Promise<SqliteStore> {
    const context = {
      clock: this.#time.clock(),
      node: "node",
      bootId,
      bootRecord: this.remembered,
      namespaceGone: () => false,
    };
    this.store = new SqliteStore(this.state, context, { info: () => {}, error: () => {} });
    await this.#time.run(this.store.open());
    return this.store;
  }

  async add(...names: string[]): Promise<void> {
    for (const name of names)
      expect(await this.#time.run(this.store.attach(want(name, { ipam: { subnets: "10.0.0.0/16" } })))).toMatchObject({
        kind: "attached",
      });
  }

  /** As after SIGKILL: what is there now. */
  kill(): void {
    const killed = join(this.root, "killed");
    cpSync(this.state, killed, { recursive: true });
    cpSync(this.remembered, `${killed}-remembered`);
    this.store.close();
    rmSync(this.state, { recursive: true });
    renameSync(killed, this.state);
    renameSync(`${killed}-remembered`, this.remembered);
  }

  /** What a start has, or the command that it names. */
  async start(): Promise<string[] | string> {
    const { status } = await this.open();
    if (status.kind === "rebuild-required") return /holdfast rebuild --from (\S+?),/.exec(status.reason)?.[1] ?? "";
    expect(status).toEqual({ kind: "ready" });
    return this.store.attachmentsAfter(0, 100).map((one) => one.containerId);
  }

  /** Goes on with the command that a start has named. */
  async rebuild(from: string): Promise<string[]> {
    await this.#time.run(this.store.rebuild(from, false));
    expect(this.store.status).toEqual({ kind: "ready" });
    return this.store.attachmentsAfter(0, 100).map((one) => one.containerId);
  }

  async backup(): Promise<string> {
    const path = join(this.root, "backup");
    await this.store.backup(path);
    return path;
  }

  path(name: string): string {
    return join(this.state, name);
  }
}

async function closedNode(...names: string[]): Promise<Node> {
  const node = new Node(names.length);
  await node.open();
  await node.add(...names);
  node.store.close();
  return node;
}

test.each([
  ["of a new directory", false],
  ["after a reboot", true],
])("the first answer %s is missed when it is lost", async (_when, isRebooted) => {
  const node = new Node();
  await node.open(isRebooted ? "boot-before" : "boot-now");
  if (isRebooted) {
    await node.add("old");
    node.store.close();
    rmSync(node.remembered);
    await node.open();
  }
  await node.add("first");
  node.kill();
  const log = node.path("holdfast.db-wal");
  const descriptor = openSync(log, "r");
  const { frames } = readLog(descriptor, 4_096);
  closeSync(descriptor);
  const bytes = readFileSync(log);
  const last = 32 + frames * 4_120 - 1;
  bytes[last] = (bytes[last] as number) ^ 1;
  writeFileSync(log, bytes);
  expect(await node.start()).toContain(".damaged-");
});

test("a log of another application's is kept aside where the database has everything", async () => {
  const node = await closedNode("a", "b");
  const other = join(node.root, "other.db");
  const db = new Database(other);
  db.exec("PRAGMA journal_mode = WAL; CREATE TABLE x (y INTEGER); INSERT INTO x VALUES (1)");
  cpSync(`${other}-wal`, node.path("holdfast.db-wal"));
  db.close();
  expect(await node.start()).toEqual(["a", "b"]);
  node.store.close();
  expect(await node.start()).toEqual(["a", "b"]);
});

test("a database that does not say how far it has come, and has no notes, is no first start", async () => {
  const node = await closedNode("a");
  for (const name of [...NOTES, "holdfast.pages"]) rmSync(node.path(name));
  rmSync(node.remembered);
  const bytes = readFileSync(node.path("holdfast.db"));
  // The ID of the row: SQLite takes any.
  bytes[4_096 + bytes.readUInt16BE(4_096 + 8) + 1] = 3;
  writeFileSync(node.path("holdfast.db"), bytes);
  expect(await node.rebuild((await node.start()) as string)).toEqual(["a"]);
});

test("the whole directory of another node is not believed in this boot, however far it has come", async () => {
  const node = await closedNode("a");
  const other = await closedNode("b", "c", "d", "e");
  rmSync(node.state, { recursive: true });
  cpSync(other.state, node.state, { recursive: true });
  expect(await node.start()).toContain(".damaged-");
});

test("a directory of before a rebuild is not believed after it, however far it had come", async () => {
  const node = new Node();
  await node.open();
  await node.add("a");
  const backup = await node.backup();
  await node.add("b", "c", "d", "e", "f");
  node.store.close();
  cpSync(node.state, join(node.root, "earlier"), { recursive: true });
  rmSync(node.path("holdfast.db"));
  expect(await node.start()).toBe("BACKUP");
  expect(await node.rebuild(backup)).toEqual(["a"]);
  await node.add("g");
  node.store.close();
  rmSync(node.state, { recursive: true });
  renameSync(join(node.root, "earlier"), node.state);
  expect(await node.start()).toContain(".damaged-");
});

test("one note of another node's, which had come further, is no reason to refuse what this boot remembers", async () => {
  const node = await closedNode("a");
  const other = await closedNode("b", "c", "d", "e");
  cpSync(other.path(NOTES[0] as string), node.path(NOTES[0] as string));
  expect(await node.start()).toEqual(["a"]);
});

test("a rebuild that was cut short does not write over what was put aside", async () => {
  const node = new Node();
  await node.open();
  await node.add("a");
  const backup = await node.backup();
  await node.add("b");
  node.store.close();
  for (const name of NOTES) rmSync(node.path(name));
  rmSync(node.remembered);
  const kept = (await node.start()) as string;
  const before = readFileSync(kept);
  node.store.close();
  cpSync(backup, node.path("holdfast.db"));
  expect(await node.start()).toBe(kept);
  expect(readFileSync(kept).equals(before)).toBe(true);
  expect(await node.rebuild(kept)).toEqual(["a", "b"]);
});

test("what was put aside and is moved back by hand is not believed either", async () => {
  const node = await closedNode("a");
  for (const name of NOTES) rmSync(node.path(name));
  rmSync(node.remembered);
  const kept = (await node.start()) as string;
  node.store.close();
  renameSync(kept, node.path("holdfast.db"));
  rmSync(node.path("rebuild-required"));
  expect(await node.start()).toContain(".damaged-");
});

test.each([...NOTES, "holdfast.pages", "holdfast.lock", "holdfast.db-wal", "holdfast.db-journal", "holdfast.lock-wal"])(
  "a directory in place of %s is out of the way",
  async (name) => {
    const node = await closedNode("a");
    rmSync(node.path(name), { force: true });
    mkdirSync(node.path(name));
    writeFileSync(join(node.path(name), "file"), "");
    expect(await node.start()).toEqual(["a"]);
  },
);

test("a lock that is a link empties nothing", async () => {
  const node = await closedNode("a");
  symlinkSync("holdfast.db", node.path("holdfast.lock"));
  expect(await node.start()).toEqual(["a"]);
});

test.each(["", "\0\0", "../holdfast.db.damaged-x", "/etc/passwd", "none"])(
  "a marker that says %j is no reason to lose anything",
  async (content) => {
    const node = await closedNode("a");
    writeFileSync(node.path("rebuild-required"), content);
    const from = (await node.start()) as string;
    const kept = readdirSync(node.state).filter((name) => /^holdfast\.db\.damaged-[^/]*Z$/.test(name));
    expect(kept).toHaveLength(1);
    expect(from).toBe(content === "none" ? "BACKUP" : node.path(kept[0] as string));
    if (content !== "none") expect(await node.rebuild(from)).toEqual(["a"]);
  },
);

test("what was put aside is found in a directory that was moved", async () => {
  const node = await closedNode("a");
  for (const name of NOTES) rmSync(node.path(name));
  rmSync(node.remembered);
  await node.start();
  node.store.close();
  const moved = join(node.root, "moved");
  renameSync(node.state, moved);
  Object.assign(node, { state: moved });
  const from = (await node.start()) as string;
  expect(existsSync(from)).toBe(true);
  expect(await node.rebuild(from)).toEqual(["a"]);
});
