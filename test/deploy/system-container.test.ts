import { afterAll, expect, test } from "vitest";
import { Machine, whyNoMachine } from "../harness/machine.ts";
import { installHoldfast } from "../harness/machine-parts.ts";

/** The shipped unit under a real systemd on a system container, over whose kernel boot ID a file of its own lies. */

const reason = whyNoMachine();

const CONFIG = JSON.stringify({
  cniVersion: "1.0.0",
  name: "blue",
  type: "bridge",
  ipam: { type: "holdfast-ipam", subnets: "10.9.0.0/24" },
});

let machine: Machine | null = null;
afterAll(() => machine?.stop());

test.skipIf(reason !== null)("a restart of the unit ends no attachment, and gives no address again", async () => {
  const here = await Machine.start({ bootId: "own" });
  machine = here;
  await installHoldfast(here);
  await here.out("systemctl restart holdfast");
  const add = async (id: string) => {
    const call = `CNI_COMMAND=ADD CNI_CONTAINERID=${id} CNI_NETNS=/run/netns/${id} CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin`;
    const answer = await here.out(`ip netns add ${id}; echo '${CONFIG}' | ${call} /opt/cni/bin/holdfast-ipam`);
    return JSON.parse(answer).ips[0].address;
  };
  const first = await add("a");
  await here.out("systemctl restart holdfast");
  expect(await add("b")).not.toBe(first);
  expect(await here.out("holdfast list")).toContain(first);
  expect(await here.out("journalctl -u holdfast -o cat")).not.toContain("was rebooted");
});

test.skipIf(reason !== null)(
  "the unit's daemon, which does not see /tmp, tells a dataDir there that is absent from one that is not",
  async () => {
    const here = machine as Machine;
    await here.out("mkdir -p /tmp/cni/held && printf 'old\\r\\neth0' > /tmp/cni/held/10.8.0.2");
    const add = async (name: string) => {
      const ipam = { type: "holdfast-ipam", subnet: "10.8.0.0/24", dataDir: "/tmp/cni" };
      const config = JSON.stringify({ cniVersion: "1.0.0", name, type: "bridge", ipam });
      const call = `CNI_COMMAND=ADD CNI_CONTAINERID=c CNI_NETNS=/run/netns/c-${name} CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin`;
      const { stdout } = await here.sh(`ip netns add c-${name}; echo '${config}' | ${call} /opt/cni/bin/holdfast-ipam`);
      return JSON.parse(stdout);
    };
    expect((await add("absent")).ips[0].address).toBe("10.8.0.2/24");
    expect((await add("held")).msg).toContain("the daemon's service unit hides /tmp from it");
  },
);
