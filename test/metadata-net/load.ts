import { spawn } from "node:child_process";
import { once } from "node:events";
import type { PortGuest } from "./node.ts";

/** Asks again and again on new connections; at the end of its input it prints how often, and what was no answer. */
const LOAD = `
import http.client, json, sys, threading, time
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
keep = sys.argv[1] == "keep"
count, bad, c = 0, [], None
while not done.is_set():
    try:
        if c is None: c = http.client.HTTPConnection("169.254.169.254", 80, timeout=10)
        c.request("GET", "/load"); r = c.getresponse(); r.read()
        if r.status != 200: bad.append(r.status)
        if not keep or r.getheader("connection") == "close": c.close(); c = None
    except Exception as e: bad.append(repr(e)); c = None
    count += 1
    time.sleep(0.005)
print(json.dumps({"count": count, "bad": bad}))
`;

/** Starts the load; `stop` resolves with what became of it. */
export function load(
  guest: PortGuest,
  how: "new" | "keep",
): { stop: () => Promise<{ count: number; bad: unknown[] }> } {
  const child = spawn("ip", ["netns", "exec", guest.namespace, "python3", "-c", LOAD, how]);
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  return {
    stop: async () => {
      const closed = once(child, "close");
      child.stdin.end();
      await closed;
      return JSON.parse(text) as { count: number; bad: unknown[] };
    },
  };
}
