import { existsSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { Machine, whyNoMachine } from "../harness/machine.ts";
import { installHoldfast } from "../harness/machine-parts.ts";
import { until } from "../harness/wait.ts";

/*
 * The shipped units on a system container that is rebooted, whose node has a 169.254.169.254 of its own. Its guests ask
 * all the time: of a network whose bridge had a guest before the reboot (blue), of one that is new after it (green),
 * and of one without metadata (red), which shows that the node answers.
 */

const reason = whyNoMachine() ?? (existsSync("/usr/lib/cni/bridge") ? null : "needs the bridge plugin");
const MINUTES = 60_000;

/** The node's own service, and who asks it. */
const PROGRAMS = `mkdir -p /opt/test && cd /opt/test
cat > decoy.py <<'END'
import http.server
class Decoy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"NODE-IAM-CREDENTIALS")
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("169.254.169.254", 80), Decoy).serve_forever()
END
cat > ask.py <<'END'
import socket, sys
asked = node = other = 0
while True:
    got = b""
    try:
        s = socket.create_connection(("169.254.169.254", 80), 0.2)
        s.settimeout(0.5); s.sendall(b"GET /openstack HTTP/1.0\\r\\n\\r\\n")
        while part := s.recv(65536): got += part
    except OSError: pass
    asked += 1; node += b"NODE-IAM" in got; other += got != b"" and b"NODE-IAM" not in got
    open(sys.argv[1], "w").write(f"{asked} {node} {other}")
END
# Attaches a guest of each network, which asks from its first moment on, and tries again as a kubelet does.
cat > runtime.sh <<'END'
export CNI_PATH=/opt/cni/bin:/usr/lib/cni CNI_IFNAME=eth0
ip -4 rule > /opt/test/rules-$1
one() {
  for try in $(seq 300); do
    id=$1-$try; export CNI_CONTAINERID=$id CNI_NETNS=/run/netns/$id
    ip netns add $id; ip -n $id link set lo up
    ip netns exec $id python3 /opt/test/ask.py /opt/test/asked-$id &
    if CNI_COMMAND=ADD /usr/lib/cni/bridge < /opt/test/$1.conf >> /opt/test/log-$1 2>&1; then echo $id > /opt/test/up-$1; wait; fi
    CNI_COMMAND=DEL /usr/lib/cni/bridge < /opt/test/$1.conf > /dev/null 2>&1; kill $!; ip netns del $id; sleep 0.2
  done
}
[ "$1" = ordered ] || for conf in /opt/test/*.conf; do one $(basename $conf .conf) & done
wait
END
unit() { printf '%s\\n' '[Unit]' "$2" '[Service]' "ExecStartPre=$3" "ExecStart=$4" '[Install]' WantedBy=multi-user.target > /etc/systemd/system/$1.service; }
unit decoy Before=holdfast.service '-ip address add 169.254.169.254/32 dev lo' 'python3 /opt/test/decoy.py'
# As a kubelet whose listener is a pod: it waits for nothing but the daemon.
unit early After=holdfast.service /bin/true 'bash /opt/test/runtime.sh early'
# One of those that the shipped units are ordered before.
unit nomad After=decoy.service /bin/true 'bash /opt/test/runtime.sh ordered'
systemctl daemon-reload && systemctl enable -q --now decoy`;

const conf = (name: string, number: number, metadata: boolean) => `cat > /opt/test/${name}.conf <<'END'
${JSON.stringify({
  cniVersion: "1.0.0",
  name,
  type: "bridge",
  bridge: `br-${name}`,
  isDefaultGateway: true,
  ipam: { type: "holdfast-ipam", subnets: `10.9.${number}.0/24`, metadata },
})}
END`;

let machine: Machine | null = null;
afterAll(() => machine?.stop());

test.skipIf(reason !== null)(
  "no guest reaches the node's own metadata from a reboot on until its own is there",
  { timeout: 10 * MINUTES },
  async () => {
    const here = await Machine.start({ bootId: "own" });
    machine = here;
    await installHoldfast(here);
    await here.out("systemctl enable -q --now holdfast-metadata.target");
    await here.out(`${PROGRAMS}\n${conf("blue", 1, true)}\n${conf("red", 3, false)}\nsystemctl enable -q nomad early`);
    /** Asked, answered by the node, answered by ours: of all guests of the network that there were. */
    const counts = async (name: string) => {
      const rows = (
        await here.out(
          `cat /opt/test/asked-${name}-* /dev/null | tr '\\n' ' '; for f in /opt/test/asked-${name}-*; do echo; cat $f; done`,
        )
      )
        .split("\n")
        .slice(1)
        .map((row) => row.split(" ").map(Number));
      return [0, 1, 2].map((at) => rows.reduce((sum, row) => sum + (row[at] ?? 0), 0));
    };
    const served = (name: string) =>
      until(
        async () => ((await counts(name).catch(() => []))[2] ?? 0) > 3,
        () => `a guest of ${name} to be served`,
        3 * MINUTES,
      );
    await here.out("systemctl start early");
    await served("blue");

    // metadata-net comes late, while guests are attached from the first moment on.
    await here.out(`systemctl stop early; rm -f /opt/test/asked-* /opt/test/rules-* /opt/test/log-*
      mkdir -p /etc/systemd/system/holdfast-metadata-net.service.d
      printf '[Service]\\nExecStartPre=\\nExecStartPre=/bin/sleep 5\\nExecStartPre=-/usr/local/bin/holdfast metadata-net --close\\n' > /etc/systemd/system/holdfast-metadata-net.service.d/late.conf
      ${conf("green", 2, true)}\nsync`);
    await here.crash();
    for (const name of ["blue", "green"]) await served(name);
    const red = await counts("red");
    expect(red[1], "the node answers guests without metadata").toBeGreaterThan(10);
    for (const name of ["blue", "green"]) {
      const [asked, node] = await counts(name);
      console.log(`after the reboot, ${name}: asked ${asked}, answered by the node ${node}`);
      expect(node, name).toBe(0);
    }
    expect(await here.out("cat /opt/test/log-green")).toContain("nothing keeps guests behind br-green");
    // Runtimes start when the bridges of before are closed.
    expect(await here.out("cat /opt/test/rules-ordered")).toContain("iif br-blue blackhole");
    expect(await here.out("cat /opt/test/rules-early")).not.toContain("blackhole");
  },
);
