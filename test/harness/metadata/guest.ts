import { run } from "../daemon.ts";

/** What a guest was answered. */
export interface GuestAnswer {
  /** 0: no HTTP answer. */
  readonly status: number;
  /** Without an answer: what curl says of that. */
  readonly body: string;
}

export interface GuestPlace {
  readonly namespace: string;
  /** Without its prefix length. */
  readonly address: string;
  readonly mac: string;
}

/** A container or VM on a network: a network namespace that asks at 169.254.169.254 who it is. */
export class NamespaceGuest {
  readonly namespace: string;
  readonly address: string;
  readonly mac: string;

  constructor({ namespace, address, mac }: GuestPlace) {
    this.namespace = namespace;
    this.address = address;
    this.mac = mac;
  }

  /** Runs a command in it. */
  run(command: string, args: readonly string[], input = "") {
    return run("ip", ["netns", "exec", this.namespace, command, ...args], {}, input);
  }

  python(script: string, args: readonly string[] = [], input = "") {
    return this.run("python3", ["-c", script, ...args], input);
  }

  /** One request with curl. `args` are more of curl's. */
  ask(path: string, args: readonly string[] = []): Promise<GuestAnswer> {
    return ask(this.namespace, path, args);
  }

  /**
   * Bytes as they are, and everything that comes back until the other side closes or, after its first byte, is quiet
   * for `quietMs`.
   */
  async raw(bytes: string, quietMs = 1_000): Promise<string> {
    const { stdout, stderr } = await this.python(RAW, [String(quietMs / 1_000)], bytes);
    return stdout + stderr;
  }
}

const RAW = `
import socket, sys
# What does not answer at all ends the test; how long an answer takes is no matter of it.
s = socket.create_connection(("169.254.169.254", 80), 60)
got = b""
# Whoever is refused while it still sends has an answer to read all the same.
try: s.sendall(sys.stdin.buffer.read())
except OSError: pass
try:
    while True:
        part = s.recv(65536)
        if not part: break
        got += part
        s.settimeout(float(sys.argv[1]))
except OSError: pass
sys.stdout.buffer.write(got)
`;

/** One request with curl from a network namespace. `args` are more of curl's. */
export async function ask(namespace: string, path: string, args: readonly string[] = []): Promise<GuestAnswer> {
  const url = path.startsWith("http") ? path : `http://169.254.169.254${path}`;
  const { stdout, stderr } = await run("ip", [
    "netns",
    "exec",
    namespace,
    "curl",
    "-sS",
    "--path-as-is",
    "--max-time",
    "20",
    "-w",
    "\n%{http_code}",
    ...args,
    url,
  ]);
  const at = stdout.lastIndexOf("\n");
  const status = Number(stdout.slice(at + 1)) || 0;
  return { status, body: status === 0 ? stderr : stdout.slice(0, at) };
}

/** The MAC address of a namespace's eth0. */
export async function macOf(namespace: string): Promise<string> {
  const { code, stdout, stderr } = await run("ip", ["-n", namespace, "-json", "link", "show", "dev", "eth0"]);
  if (code !== 0) throw new Error(`no eth0 in ${namespace}: ${stderr}`);
  return (JSON.parse(stdout) as { address: string }[])[0]?.address ?? "";
}
