import { join } from "node:path";
import Fastify from "fastify";
import { listenOnSocket } from "../platform/socket.ts";
import { systemClock } from "../platform/time.ts";
import { openDatabase } from "../store/journal/files/database-file.ts";
import { Notes } from "../store/journal/files/notes.ts";
import { GroupCommit } from "../store/journal/group-commit.ts";
import { migrate } from "../store/journal/migrations.ts";

/*
 * What no daemon of this kind can be faster than: the same server on a unix socket reads the same request and answers
 * as much, after one insert into a database that is opened, synced and committed to in groups as Holdfast's is. It
 * decides nothing, and keeps one row that can be found again where an ADD keeps three.
 *
 *   bare-server DIRECTORY     serves DIRECTORY/s.sock, and says so on stdout
 */

/**
 * With the container ID as many bytes as the allocation, its history and the attachment of such an ADD: 596, by dbstat.
 */
const REST_BYTES = 596 - 64;
const ANSWER = { cniVersion: "1.0.0", ips: [{ address: "10.0.0.2/8", gateway: "10.0.0.1" }], dns: {} };

const log = { info: () => {}, error: () => {} };
const [directory = "."] = process.argv.slice(2);
const { db } = openDatabase(directory, {
  clock: systemClock,
  notes: new Notes(directory, { bootRecord: null, bootId: "any", log }),
  log,
  isRelaxed: false,
  isSound: () => false,
  migrate,
});
db.pragma("wal_autocheckpoint = 16000");
db.exec("CREATE TABLE bare (id INTEGER PRIMARY KEY, container_id TEXT NOT NULL UNIQUE, rest TEXT NOT NULL) STRICT");
const insert = db.prepare("INSERT INTO bare (container_id, rest) VALUES (?, ?)");
const rest = "r".repeat(REST_BYTES);
const commits = new GroupCommit(db, { clock: systemClock }, (fault) => {
  throw fault;
});

const server = Fastify({ logger: false });
server.post("/cni", async (request) => {
  const { containerId } = request.body as { containerId: string };
  await commits.submit(() => insert.run(containerId, rest), { canRepeat: true });
  return ANSWER;
});
await listenOnSocket(server, join(directory, "s.sock"));
process.stdout.write("serving\n");
