import type { PortGuest } from "./node.ts";
import { startPython } from "./python-process.ts";

/** Asks again and again on new connections; at the end of its input it prints how often, and what was no answer. */
const LOAD = `
import http.client, json, sys, threading, time
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
keep = sys.argv[1] == "keep"
count, bad, c = 0, [], None
while count < 20 or not done.is_set():
    try:
        if c is None: c = http.client.HTTPConnection("169.254.169.254", 80, timeout=10)
        c.request("GET", "/load"); r = c.getresponse(); r.read()
        if r.status != 200: bad.append(r.status)
        if not keep or r.getheader("connection") == "close": c.close(); c = None
    except Exception as e: bad.append(repr(e)); c = None
    count += 1
    if count == 1: print("asking", flush=True)
    time.sleep(0.005)
print(json.dumps({"count": count, "bad": bad}))
`;

/**
 * Resolves once the guest has asked; `stop` resolves with what became of its requests, of which there are 20 at least.
 */
export async function load(
  guest: PortGuest,
  how: "new" | "keep",
): Promise<{ stop: () => Promise<{ count: number; bad: unknown[] }> }> {
  const asking = await startPython(guest.namespace, LOAD, [how]);
  return { stop: async () => JSON.parse((await asking.stop()).split("\n").at(-2) ?? "") };
}
