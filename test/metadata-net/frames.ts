import { pause } from "../harness/wait.ts";
import type { PortGuest } from "./node.ts";
import { type Place, startPython } from "./python-process.ts";

export interface ArpFrame {
  readonly operation: "request" | "reply";
  readonly senderAddress: string;
  readonly targetAddress: string;
  /** Default: the broadcast address. */
  readonly to?: string;
  /** Priority tags in front; 802.1Q, VLAN 0. */
  readonly tags?: number;
  /** As IEEE 802 has it: with its length, and LLC and SNAP before the type. */
  readonly snap?: boolean;
  /** MAC that it says it comes from. Default: the guest's own. */
  readonly from?: string;
}

const SEND = `
import json, socket, struct, sys, time
frames, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0))
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
def frame(f):
    to = bytes.fromhex(f.get("to", "ff:ff:ff:ff:ff:ff").replace(":", ""))
    source = bytes.fromhex(f["from"].replace(":", "")) if "from" in f else mac
    arp = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1 if f["operation"] == "request" else 2)
    arp += source + socket.inet_aton(f["senderAddress"]) + to + socket.inet_aton(f["targetAddress"])
    body = b"\\x08\\x06" + arp
    if f.get("snap"): body = struct.pack("!H", len(body) + 6) + b"\\xaa\\xaa\\x03\\0\\0\\0" + body
    return to + source + b"\\x81\\x00\\x00\\x00" * f.get("tags", 0) + body
end = time.monotonic() + seconds
while True:
    for f in frames: s.send(frame(f))
    if time.monotonic() > end: break
    time.sleep(0.01)
`;

/** Sends ARP frames, again and again for so long; 0: once. */
export async function sendArp(guest: PortGuest, frames: readonly ArpFrame[], seconds = 0): Promise<void> {
  const { code, stderr } = await guest.python(SEND, [JSON.stringify(frames), String(seconds)]);
  if (code !== 0) throw new Error(stderr);
}

const LISTEN = `
import socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
# SO_RCVBUFFORCE: nothing is lost of a burst.
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24); s.bind((sys.argv[1], 0))
print("listening", flush=True)
s.settimeout(0.1)
import threading
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
while True:
    # What has arrived by the end is told, also where this process had no turn in time.
    if done.is_set(): s.setblocking(False)
    try: got = s.recvfrom(2048)
    except OSError:
        if s.gettimeout() == 0: break
        continue
    if got[1][2] != 4: print(got[0].hex(), flush=True)
`;

/** Collects the frames that arrive at a link until `stop`, which resolves with them in hexadecimal digits. */
export async function listenTo(link: string, place: Place): Promise<{ stop: () => Promise<readonly string[]> }> {
  const listener = await startPython(place, LISTEN, [link]);
  return {
    stop: async () => {
      // What is under way arrives.
      await pause(200);
      return (await listener.stop())
        .split("\n")
        .slice(1)
        .filter((line) => line !== "");
    },
  };
}

/** An address as it stands in a frame. */
export function hexOf(address: string): string {
  return address.includes(":")
    ? address.replaceAll(":", "")
    : address
        .split(".")
        .map((part) => Number(part).toString(16).padStart(2, "0"))
        .join("");
}
