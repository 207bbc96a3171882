import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HOLDFAST, run, SHIM } from "../harness/daemon.ts";
import { skippedFor } from "../harness/needs.ts";

const PAGE = join(import.meta.dirname, "../../docs/switching.md");

/** Every block of commands of a section of docs/switching.md, in order, as it stands there. */
export function commandsOf(section: string): string[] {
  const text = readFileSync(PAGE, "utf8");
  const start = text.indexOf(`\n### ${section}\n`);
  if (start < 0) throw new Error(`docs/switching.md has no section "${section}"`);
  const end = text.indexOf("\n##", start + 4);
  const body = text.slice(start, end < 0 ? undefined : end);
  return [...body.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] as string);
}

/** Why the page cannot be tried; null when it can. In CI it must be. */
export function whyNotTried(...needed: readonly string[]): string | null {
  const missing = needed.filter((path) => !existsSync(path));
  if (process.getuid?.() !== 0) return skippedFor("not root");
  return skippedFor(missing.length > 0 ? `not installed: ${missing.join(", ")}` : null);
}

/**
 * A machine of its own for the commands of a page: its own /etc, /var, /opt and /run, its own network, the daemon on
 * its default paths. Nothing of it is left when the process ends: it is a mount, network and PID namespace.
 */
const MACHINE = `
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$DIRECTORY"
for path in etc var opt; do
  mkdir -p /$path "$DIRECTORY/$path/upper" "$DIRECTORY/$path/work"
  mount -t overlay overlay -o "lowerdir=/$path,upperdir=$DIRECTORY/$path/upper,workdir=$DIRECTORY/$path/work" /$path
done
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
ip link set lo up
rm -rf /etc/cni/net.d /var/lib/cni /var/lib/holdfast /etc/holdfast
mkdir -p /etc/cni/net.d /opt/cni/bin "$DIRECTORY/bin"
cp "$SHIM" /opt/cni/bin/holdfast-ipam
printf '#!/bin/sh\\nexec "%s" "%s" "$@"\\n' "$NODE" "$HOLDFAST" > "$DIRECTORY/bin/holdfast"
chmod +x "$DIRECTORY/bin/holdfast"
export PATH="$DIRECTORY/bin:$PATH:/usr/sbin:/sbin"
say() { echo; echo "=== $*"; }
daemon() {
  holdfast daemon > "$DIRECTORY/daemon.log" 2>&1 &
  DAEMON=$!
  until holdfast networks > /dev/null 2>&1; do
    kill -0 $DAEMON || { cat "$DIRECTORY/daemon.log"; exit 1; }
    sleep 0.1
  done
}
# In vain for a minute: then something is wrong.
wait_for() {
  for _ in $(seq 200); do
    if eval "$1" > /dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  echo "gave up waiting for: $1"; cat "$DIRECTORY/daemon.log"; exit 1
}
`;

/**
 * podman without systemd, without cgroups and without registries, on what Debian has. The image is made here: one
 * busybox.
 */
const PODMAN = `
# crun refuses a machine that has version 1 and 2 of cgroups side by side; it sees only the first here.
for unified in $(awk '$3 == "cgroup2" && $2 != "/sys/fs/cgroup" {print $2}' /proc/mounts); do umount -l "$unified"; done
cat > /etc/containers/containers.conf <<END
[network]
network_backend = "cni"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
END
cat > /etc/containers/storage.conf <<END
[storage]
driver = "vfs"
graphroot = "$DIRECTORY/images"
runroot = "/run/containers"
END
mkdir -p "$DIRECTORY/image/bin"
cp "$(command -v busybox)" "$DIRECTORY/image/bin/busybox"
for name in sh sleep; do ln -sf busybox "$DIRECTORY/image/bin/$name"; done
tar -C "$DIRECTORY/image" -c . | podman import --change ENTRYPOINT= - localhost/busybox:latest > /dev/null 2>&1
printf 'unqualified-search-registries = []\\nshort-name-mode = "permissive"\\n[aliases]\\n"busybox" = "localhost/busybox"\\n' > /etc/containers/registries.conf
rm -rf /etc/containers/registries.conf.d
`;

export interface Machine {
  /** What each step printed, by its name. */
  readonly steps: ReadonlyMap<string, string>;
  readonly log: string;
}

/** Runs steps on a machine of its own. Throws with everything that was printed when a command of them fails. */
export async function onMachine(
  steps: readonly (readonly [name: string, commands: string])[],
  { podman = false } = {},
): Promise<Machine> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-switch-"));
  const script = join(directory, "script");
  const body = steps.map(([name, commands]) => `say ${name}\n${commands}`).join("\n");
  writeFileSync(script, `${MACHINE}${podman ? PODMAN : ""}${body}\nsay end\n`);
  try {
    const { code, stdout, stderr } = await run(
      "timeout",
      [
        "-k",
        "5",
        "240",
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "bash",
        script,
      ],
      { DIRECTORY: directory, SHIM, HOLDFAST, NODE: process.execPath, TMPDIR: "/run" },
    );
    if (code !== 0) throw new Error(`the commands ended with ${code}:\n${stdout}\n${stderr}`);
    const found = new Map<string, string>();
    for (const part of stdout.split("\n=== ").slice(1)) {
      const end = part.indexOf("\n");
      found.set(part.slice(0, end), part.slice(end + 1));
    }
    return { steps: found, log: stderr };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
