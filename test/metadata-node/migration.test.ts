import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pause } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { BOOT } from "./boot.ts";
import { type AttachedGuest, MetadataNode } from "./metadata-node.ts";
import { MigratingVm } from "./migrating-vm.ts";

const MOVER = "11111111-1111-4111-8111-111111111111";
const OTHER = "22222222-2222-4222-8222-222222222222";
const MAC = "52:54:00:de:5b:bf";

/**
 * Boots until its standard input ends. Each request is made like cloud-init's, on a connection of its own, and again
 * after a failure or a status that it takes as one, at most five times. Prints each answer: path, status, body.
 */
const BOOTS = `
import http.client, json, sys, threading, time
paths = json.loads(sys.argv[1]); ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
def ask(path):
    for attempt in range(6):
        if attempt: time.sleep(1)
        try:
            connection = http.client.HTTPConnection("169.254.169.254", timeout=5)
            connection.request("GET", path); answer = connection.getresponse(); body = answer.read().decode()
            connection.close()
            if answer.status not in (408, 429, 500, 502, 503, 504): return answer.status, body
        except (OSError, http.client.HTTPException) as error: failure = repr(error)
    return 0, failure
print("begun", flush=True)
while not ended.is_set():
    for path in paths:
        status, body = ask(path)
        print(json.dumps({"path": path, "status": status, "body": body}), flush=True)
`;

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

interface Answer {
  readonly path: string;
  readonly status: number;
  readonly body: string;
}

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
    const boots = [vm.guest, other].map((guest) => guest.start(BOOTS, [JSON.stringify(BOOT)]));
    for (const one of boots) await one.said("begun");
    for (let turn = 0; turn < 5; turn += 1) {
      await pause(200);
      await vm.migrate();
    }
    await pause(200);
    const outputs = await Promise.all(boots.map((one) => one.stop()));
    const answers = outputs.map((output) =>
      output
        .split("\n")
        .filter((line) => line.startsWith("{"))
        .map((line): Answer => JSON.parse(line)),
    );
    for (const [index, uuid] of [MOVER, OTHER].entries()) {
      const own = answers[index] as Answer[];
      expect(own.length).toBeGreaterThan(BOOT.length);
      expect(own.filter(({ status }) => status !== 200 && status !== 404)).toEqual([]);
      const told = own.filter(({ path }) => path.endsWith("/meta_data.json"));
      expect(told.length).toBeGreaterThan(0);
      expect(new Set(told.map(({ body }) => JSON.parse(body).uuid))).toEqual(new Set([uuid]));
      const ids = own.filter(({ path }) => path === "/latest/meta-data/instance-id").map(({ body }) => body);
      expect(new Set(ids)).toEqual(new Set([`i-${uuid.replaceAll("-", "")}`]));
    }
    // What is there before the move is there after it.
    const missing = (answers[0] as Answer[]).filter(({ status }) => status === 404).map(({ path }) => path);
    const always = (answers[1] as Answer[]).filter(({ status }) => status === 404).map(({ path }) => path);
    expect([...new Set(missing)].filter((path) => !always.includes(path))).toEqual([]);
  });

  test("in the middle of a request gets its own answer or none, and the next one at once", async () => {
    for (let turn = 0; turn < 3; turn += 1) {
      const slow = vm.guest.start(SLOW);
      await slow.said("half");
      await vm.migrate();
      slow.write("on\n");
      const output = await slow.ended();
      expect(output).not.toContain(OTHER);
      if (output.includes("HTTP/1.1 200")) expect(output).toContain(MOVER);
      const next = await vm.guest.ask("/openstack/latest/meta_data.json");
      expect(JSON.parse(next.body).uuid).toBe(MOVER);
    }
  });

  test("is answered at source and target while it has a pod at both", async () => {
    const config = node.network("both");
    const source = await node.vm("twice", config, MOVER, `;MAC=${MAC}`);
    const target = await node.guest("twice-target", config, source.args);
    const uuid = async (guest: AttachedGuest) =>
      JSON.parse((await guest.ask("/openstack/latest/meta_data.json")).body).uuid;
    expect(target.address).toBe(source.address);
    for (let n = 0; n < 5; n += 1)
      expect(await Promise.all([uuid(source), uuid(target)])).toEqual([MOVER, MOVER]);
    await node.end(source);
    expect(await uuid(target)).toBe(MOVER);
    await node.end(target);
  });
});
