import { afterAll, beforeAll, expect, test } from "vitest";
import { codeBlocks } from "../harness/documents.ts";
import { Machine, whyNoMachine } from "../harness/machine.ts";
import { installHoldfast, preparePodman } from "../harness/machine-parts.ts";
import { until } from "../harness/wait.ts";

/** The shipped unit under a real systemd, with a real podman; tests go on from where the one before has stopped. */

const reason = whyNoMachine();

const CONFLIST = JSON.stringify({
  cniVersion: "0.4.0",
  name: "blue",
  plugins: [
    {
      type: "bridge",
      bridge: "br-blue",
      isGateway: true,
      ipam: { type: "holdfast-ipam", subnets: "192.168.10.0/24" },
    },
  ],
});
const RUN = "podman run -d --cgroups=disabled --network blue";

let machine: Machine;
beforeAll(async () => {
  if (reason !== null) return;
  machine = await Machine.start();
  await installHoldfast(machine);
  await preparePodman(machine);
  await machine.out(`cat > /etc/cni/net.d/blue.conflist <<'END'\n${CONFLIST}\nEND`);
}, 300_000);
afterAll(() => machine?.stop());

async function addressOf(name: string): Promise<string> {
  const found = await machine.out(`podman exec ${name} busybox ip -o -4 addr show eth0`);
  return /inet (\S+)/.exec(found)?.[1] ?? found;
}

async function isUp(name: string): Promise<boolean> {
  const { stdout } = await machine.sh(`podman inspect -f '{{.State.Running}}' ${name}`);
  return stdout.trim() === "true";
}

test.skipIf(reason !== null)("the unit counts as started when the daemon serves", async () => {
  for (let round = 0; round < 3; round += 1) {
    await machine.out("systemctl restart holdfast && holdfast networks");
  }
});

test.skipIf(reason !== null)("a container that is run while the daemon restarts gets its address", async () => {
  await machine.out(`systemctl restart --no-block holdfast; ${RUN} --name early busybox sleep 1000000`);
  // Nobody serves at all for a moment.
  await machine.out(`systemctl kill --signal=KILL holdfast; ${RUN} --name killed busybox sleep 1000000`);
  expect([await isUp("early"), await isUp("killed")]).toEqual([true, true]);
});

test.skipIf(reason !== null)(
  "after a power loss containers with --restart=always run again with their addresses",
  async () => {
    const names = ["a1", "a2", "a3"];
    for (const name of names) await machine.out(`${RUN} --name ${name} --restart=always busybox sleep 1000000`);
    await machine.out("systemctl enable -q podman-restart.service");
    const before = await Promise.all(names.map(addressOf));
    expect(new Set(before).size).toBe(3);
    await machine.crash();
    await until(
      async () => (await machine.sh("systemctl is-active podman-restart")).stdout !== "activating\n",
      "podman-restart",
    );
    expect(await machine.out("systemctl show -p Result --value podman-restart.service")).toBe("success\n");
    // Monotonic: microseconds since the boot of the machine that this one runs on.
    const seconds = async (property: string) =>
      Number(await machine.out(`systemctl show -p ${property} --value podman-restart.service`)) / 1e6;
    const up = (await seconds("ActiveEnterTimestampMonotonic")) - (await seconds("ExecMainStartTimestampMonotonic"));
    console.log(`reboot: three containers up ${up.toFixed(1)} s after the start of the runtime`);
    expect(await Promise.all(names.map(isUp))).toEqual([true, true, true]);
    expect(await Promise.all(names.map(addressOf))).toEqual(before);
  },
);

test.skipIf(reason !== null)(
  "a wrong setting fails systemctl at once, and the unit starts by itself once it is corrected",
  async () => {
    await machine.out("echo 'addDeadlineMs: soon' > /etc/holdfast/daemon.yaml");
    expect((await machine.sh("systemctl restart holdfast")).code).not.toBe(0);
    const restarts = async () => Number(await machine.out("systemctl show -p NRestarts --value holdfast"));
    // systemd's own limit is five starts in ten seconds.
    await until(async () => (await restarts()) >= 7, "seven attempts");
    await machine.out("rm /etc/holdfast/daemon.yaml");
    await until(async () => (await machine.sh("holdfast networks")).code === 0, "the daemon to serve again");
  },
);

test.skipIf(reason !== null)("a backup into a directory that the unit cannot see is refused", async () => {
  for (const directory of ["/tmp", "/root", "/var/tmp"]) {
    const { code, stderr } = await machine.sh(`cd ${directory} && holdfast backup here.db`);
    expect({ directory, code }).toEqual({ directory, code: 1 });
    expect(stderr).toMatch(/\/var\/backups is what its systemd unit leaves it/);
    expect((await machine.sh(`ls ${directory}/here.db`)).code).not.toBe(0);
  }
  expect(await machine.out("holdfast backup /var/backups")).toMatch(/^\/var\/backups\/holdfast-.* written/);
  await machine.out("ls /var/backups/holdfast-*.db");
});

test.skipIf(reason !== null)("metrics by TCP, with the drop-in of the documentation", async () => {
  const [block] = codeBlocks("docs/operations.md", "Metrics");
  expect(await machine.out(block as string)).toMatch(/^holdfast_ready 1$/m);
});

test.skipIf(reason !== null)("journalctl -p warning shows warnings only", async () => {
  const wrong = JSON.stringify({ cniVersion: "1.0.0", name: "odd", ipam: { type: "holdfast-ipam", odd: 1 } });
  const environment =
    "CNI_COMMAND=ADD CNI_CONTAINERID=odd CNI_NETNS=/proc/1/ns/net CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin";
  expect((await machine.sh(`${environment} /opt/cni/bin/holdfast-ipam <<< '${wrong}'`)).code).toBe(1);
  const shown = (priority: string) => machine.out(`journalctl -u holdfast -o cat --no-pager -p ${priority}`);
  await until(async () => (await shown("warning")).includes("ipam.odd is 1"), "the warning");
  expect(await shown("warning")).not.toMatch(/"msg":"(listening|ready|ADD)"/);
  // What the journal keeps is the line itself.
  expect(await shown("info")).toMatch(/^\{"level":30,.*"msg":"listening"\}$/m);
});
