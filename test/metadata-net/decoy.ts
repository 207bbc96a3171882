import type { NamespaceGuest } from "../harness/metadata/guest.ts";
import { startPython } from "./python-process.ts";

/**
 * What clouds and local proxies have: credentials of the node at its own 169.254.169.254, at port 80 and at another
 * one. Prints how often it was asked.
 */
export const DECOY = `
import http.server, sys, threading
asked = 0
class Decoy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        self.send_response(200); self.end_headers(); self.wfile.write(b"NODE-IAM-CREDENTIALS")
    def log_message(self, *words): pass
for port in (80, 5000):
    server = http.server.ThreadingHTTPServer(("169.254.169.254", port), Decoy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("listening", flush=True)
sys.stdin.read(); print(asked)
`;

/**
 * Asks at both ports without a pause on ever new connections, of which each has little time; prints how often and who
 * answered.
 */
const ASK = `
import itertools, json, socket, sys, threading
done, counts, lock = threading.Event(), {"asked": 0, "node": 0, "own": 0}, threading.Lock()
def ask():
    ports = itertools.cycle((80, 5000))
    while not done.is_set() or counts["asked"] < 20:
        got = b""
        try:
            s = socket.create_connection(("169.254.169.254", next(ports)), 0.2)
            s.sendall(b"GET /guest HTTP/1.0\\r\\n\\r\\n")
            while part := s.recv(65536): got += part
        except OSError: pass
        with lock:
            counts["asked"] += 1
            counts["node"] += b"NODE-IAM" in got
            counts["own"] += b'"url":"/guest"' in got
threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads: thread.start()
print("asking", flush=True)
sys.stdin.read(); done.set()
for thread in threads: thread.join()
print(json.dumps(counts))
`;

export interface Counts {
  readonly asked: number;
  readonly node: number;
  readonly own: number;
}

/** Who answers guests that ask all the time meanwhile. */
export async function askedWhile(
  guests: readonly NamespaceGuest[],
  work: () => Promise<void>,
): Promise<readonly Counts[]> {
  const asking = await Promise.all(guests.map(({ namespace }) => startPython(namespace, ASK, [])));
  await work();
  const printed = await Promise.all(asking.map((one) => one.stop()));
  return printed.map((text) => JSON.parse(text.split("\n").at(-2) ?? "") as Counts);
}
