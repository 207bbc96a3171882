import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNotReal } from "../network/containers.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { askAs, onlyDefaultRoute, self } from "./who.ts";

const KEY = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/**
 * As the bridge plugin writes it with `ipMasq` for a container of 10.30.0.5, and a firewall that lets nothing else
 * pass.
 */
const RULES = `table ip plugin {
	chain postrouting {
		type nat hook postrouting priority 100; policy accept;
		ip saddr 10.30.0.5 ip daddr != 10.30.0.0/24 ip daddr != 224.0.0.0/4 masquerade
	}
	chain forward {
		type filter hook forward priority 0; policy drop;
		ip daddr 10.30.0.5 ct state established,related accept
		ip saddr 10.30.0.5 accept
	}
}
`;

const DRIVERS = whyNotReal() === null ? ["auto", "bridge"] : [];

describe.each(DRIVERS)("a bridge whose traffic passes iptables and a masquerading rule, driver %s", (driver) => {
  let node: NetNode;
  let bridge: string;
  let kernelHasIt = false;
  beforeAll(async () => {
    node = await NetNode.start(["--driver", driver], { apart: true });
    kernelHasIt = (await node.run("sh", ["-c", `echo 1 > ${KEY}`])).code === 0;
    if (!kernelHasIt) console.warn("SKIPPED: this kernel has no br_netfilter");
    bridge = await node.bridge();
    await node.mustRun("ip", ["address", "add", "10.30.0.1/24", "dev", bridge]);
    await node.mustRun("nft", ["-f", "-"], RULES);
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("a guest is answered, as itself, on link and by its gateway", async () => {
    const guest: PortGuest = await node.guest(bridge, "10.30.0.5/24");
    expect(await node.wanted(guest.on("blue"))).toEqual({});
    expect(await askAs(guest)).toBe(self(guest));
    expect((await guest.run("ping", ["-c", "1", "-W", "2", "169.254.169.254"])).code).toBe(0);
    await batch(onlyDefaultRoute("10.30.0.1", null), guest.namespace);
    expect(await askAs(guest)).toBe(self(guest));
  });

  test("bridged packets really pass iptables", async ({ skip }) => {
    if (!kernelHasIt) skip();
    const [one, other] = [await node.guest(bridge, "10.30.0.7/24"), await node.guest(bridge, "10.30.0.8/24")];
    expect((await one.run("ping", ["-c", "1", "-W", "1", other.address])).code).not.toBe(0);
  });
});
