/**
 * SIGTERM: what was asked is answered, what waits is left to the next daemon, and the end is clean. SIGSTOP: a DEL does
 * not wait for it.
 */
import { existsSync, readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { PATIENT } from "../harness/add-load.ts";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { claimManifest, podArgs, postCni, wireRequest } from "./wire.ts";

const PLAIN = network("plain", { subnets: "10.10.0.0/18" });
const VMS = network("vms", { subnets: "10.12.0.0/24" }, { allowPersistentIPs: true });
/** For the ADDs that wait, ms. */
const DEADLINE_MS = 50_000;
/** Well below their deadline, however slow the machine is: whoever waits must not hold up the end. */
const STOP_MS_MAX = DEADLINE_MS / 2;

test("at SIGTERM under load requests are answered, waiting ADDs are left to the next daemon, and the end is clean", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon({ args: ["--add-deadline-ms", String(DEADLINE_MS)] });
  const waiting = Array.from({ length: 20 }, (_, index) =>
    postCni(daemon, "ADD", `vm-${index}`, { config: VMS, args: podArgs(`vm-${index}`, `absent-${index}`) }),
  );
  // One that waits for no next daemon, and one that does.
  const asked = { config: VMS, args: podArgs("vm-binary", "absent") };
  const throughBinary = daemon.cni("ADD", "vm-binary", asked);
  const carried = daemon.cni("ADD", "vm-carried", {
    config: VMS,
    args: podArgs("vm-carried", "carried"),
    env: PATIENT,
  });
  await until(
    async () => (await daemon.get("/metrics")).body.includes("holdfast_waiting_requests 22"),
    "the ADDs to wait",
  );

  const answered = new Map<string, string>();
  let stopped = false;
  let next = 0;
  const worker = async () => {
    while (!stopped) {
      const id = `c-${next++}`;
      const answer = await postCni(daemon, "ADD", id, { config: PLAIN }).catch((error: NodeJS.ErrnoException) => error);
      if (answer instanceof Error) {
        // Nobody listens any more, or the connection was never taken.
        expect(answer.code).toMatch(/ECONNREFUSED|ENOENT|ECONNRESET|EPIPE/);
        return;
      }
      if (answer.status === 200) answered.set(id, answer.body);
      else expect({ status: answer.status, ...answer.json() }).toMatchObject({ status: 503, code: 11 });
    }
  };
  const load = Promise.all(Array.from({ length: 12 }, worker));
  // The signal comes in the middle of it, on a slow machine too.
  await until(async () => answered.size > 50, "answers under load");
  const startMs = performance.now();
  expect(await daemon.end("SIGTERM")).toBe(0);
  expect(performance.now() - startMs).toBeLessThan(STOP_MS_MAX);
  stopped = true;
  await load;

  for (const answer of await Promise.all(waiting)) {
    expect({ status: answer.status, ...answer.json() }).toMatchObject({ status: 503, code: 11 });
  }
  const { code, stdout } = await throughBinary;
  expect({ code, ...JSON.parse(stdout) }).toMatchObject({
    code: 11,
    msg: "the holdfast daemon of this node is ending, and leaves this request to the next one",
  });
  expect(existsSync(daemon.socket)).toBe(false);
  expect(readdirSync(daemon.state).filter((name) => name.startsWith("holdfast"))).toEqual([
    "holdfast.answered",
    "holdfast.answered-copy",
    "holdfast.db",
    "holdfast.pages",
  ]);

  const again = await node.daemon();
  // What came for the daemon that ended comes for the next one.
  const applied = await again.post("/v1/apply", { objects: [claimManifest("carried", "vms")] });
  expect(applied.status, applied.body).toBe(200);
  expect(await carried).toMatchObject({ code: 0 });
  expect(await attachedTo(again, "plain")).toEqual([...answered.keys()].sort());
  for (const [id, body] of [...answered].slice(0, 50)) {
    expect((await postCni(again, "ADD", id, { config: PLAIN })).body).toBe(body);
  }
  await expectSound(again);
});

test("requests that are in the sockets at SIGTERM are carried out or told to retry", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  // Everything below lies before the daemon when it runs again: connections with and without a request, and the signal.
  const silent = await Promise.all(Array.from({ length: 3 }, () => open(daemon)));
  daemon.process.kill("SIGSTOP");
  const asked = Array.from({ length: 30 }, (_, index) => postCni(daemon, "ADD", `c-${index}`, { config: PLAIN }));
  await pause(200);
  daemon.process.kill("SIGTERM");
  await pause(100);
  const late = silent.map((socket, index) => ask(socket, `late-${index}`));
  daemon.process.kill("SIGCONT");

  const settled = await Promise.allSettled(asked);
  const done: string[] = [];
  for (const [index, outcome] of settled.entries()) {
    if (outcome.status === "rejected") continue; // A connection the daemon had not taken yet ends with its listener.
    if (outcome.value.status === 200) done.push(`c-${index}`);
    else expect(outcome.value.json()).toMatchObject({ code: 11 });
  }
  for (const [index, text] of (await Promise.all(late)).entries()) {
    if (text === "") continue;
    const body = JSON.parse(text.slice(text.indexOf("\r\n\r\n")));
    if (text.startsWith("HTTP/1.1 200")) done.push(`late-${index}`);
    else expect(body).toMatchObject({ code: 11, msg: expect.any(String), cniVersion: expect.any(String) });
  }
  await until(
    () => daemon.process.exitCode !== null,
    () => `the end; log: ${daemon.log}`,
    STOP_MS_MAX,
  );
  expect(daemon.process.exitCode).toBe(0);
  const again = await node.daemon();
  const attached = await attachedTo(again, "plain");
  for (const id of done) expect(attached).toContain(id);
  await expectSound(again);
});

test("a client that never finishes its request does not delay the end", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  const half = await open(daemon);
  half.write("POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Length: 100\r\n\r\n{");
  await open(daemon);
  await pause(100);
  const startMs = performance.now();
  expect(await daemon.end("SIGTERM")).toBe(0);
  expect(performance.now() - startMs).toBeLessThan(STOP_MS_MAX);
});

test("a DEL is spooled while the daemon is stopped with SIGSTOP, and neither of its deliveries harms a later ADD", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  const hasty = { config: PLAIN, env: { HOLDFAST_SHIM_TIMEOUT_MS: "300" } };
  for (const id of ["again", "gone"]) expect((await daemon.cni("ADD", id, { config: PLAIN })).code).toBe(0);

  daemon.process.kill("SIGSTOP");
  for (const id of ["again", "gone"]) {
    const del = await daemon.cni("DEL", id, hasty);
    expect(del).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("did not answer in time"),
    });
  }
  expect(readdirSync(daemon.spool)).toHaveLength(2);
  const refused = await daemon.cni("ADD", "refused", hasty);
  expect(refused.json()).toMatchObject({ code: 11 });
  // Its requests lie in the socket behind the DELs; the spool is drained after it.
  const added = daemon.cni("ADD", "again", { config: PLAIN });
  await pause(100);
  daemon.process.kill("SIGCONT");
  const { code, stdout } = await added;
  expect(code, stdout).toBe(0);
  await until(() => readdirSync(daemon.spool).length === 0, "the spool to be drained");
  // The ADD whose caller gave up was in the socket too, and is there until its DEL.
  expect(await attachedTo(daemon, "plain")).toEqual(["again", "refused"]);
  expect((await daemon.cni("ADD", "again", { config: PLAIN })).stdout).toBe(stdout);
  expect((await daemon.cni("DEL", "refused", { config: PLAIN })).code).toBe(0);
  expect(await attachedTo(daemon, "plain")).toEqual(["again"]);
  await expectSound(daemon);
});

function open(daemon: TestDaemon): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(daemon.socket, () => resolve(socket));
    socket.on("error", reject);
  });
}

/** Sends an ADD over an open connection; resolves with all that comes back until it ends. */
function ask(socket: Socket, containerId: string): Promise<string> {
  const body = JSON.stringify(wireRequest("ADD", containerId, { config: PLAIN }));
  return new Promise((resolve) => {
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    socket.removeAllListeners("error");
    socket.on("error", () => resolve(text));
    socket.on("close", () => resolve(text));
    socket.write(
      `POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  });
}
