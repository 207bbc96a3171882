// @ts-nocheck
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../metadata/proxy/listener-headers.ts";
import { run } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { type BridgeGuest, NetNode, network } from "./node.ts";

const KEY = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/** As the bridge plugin writes it with `ipMasq` for a container of 10.30.0.5. */
const MASQUERADE = `table ip plugin {
	chain postrouting {
		type nat hook postrouting priority 100; policy accept;
		ip saddr 10.30.0.5 ip daddr != 10.30.0.0/24 ip daddr != 224.0.0.0/4 masquerade
	}
}
`;

describe.skipIf(whyNotReal() !== null)(
  "a bridge whose traffic passes iptables and a masquerading rule",
  () => {
    let node: NetNode;
    let vm: BridgeGuest;
    let kernelHasIt = false;
    beforeAll(async () => {
      node = await NetNode.start([], { apart: true });
      kernelHasIt = (await node.run("sh", ["-c", `echo 1 > ${KEY}`])).code === 0;
      if (!kernelHasIt) console.warn("SKIPPED: this kernel has no br_netfilter");
      const bridge = await node.bridge();
      await node.mustRun("ip", ["address", "add", "10.30.0.1/24", "dev", bridge]);
      await node.mustRun("nft", ["-f", "-"], MASQUERADE);
      vm = await node.guest(bridge, "10.30.0.5/24");
      expect(await node.wanted(network("blue", bridge, [vm]))).toEqual({ blue: "up" });
    });
    afterAll(async () => {
      expect(await node.stop(), node.log).toEqual([]);
    });

    const source = async () => (await vm.ask("/", ["--max-time", "3"])).echo.headers[LISTENER_HEADERS.source];

    test("a guest is answered, as itself", async () => {
      expect(await source()).toBe("10.30.0.5");
      expect((await vm.run("ping", ["-c", "1", "-W", "2", "169.254.169.254"])).code).toBe(0);
    });

    test("a guest is not answered without the exemption, which is restored, and the other masquerading stays", async ({
      skip,
    }) => {
      if (!kernelHasIt) skip();
      await node.mustRun("nft", ["delete", "table", "ip", node.names.table]);
      expect(await source()).toBeUndefined();
      // A table of the rules that goes is noticed at once, and everything beside it is looked at.
      await node.mustRun("nft", ["delete", "table", "bridge", node.names.table]);
      await until(
        async () => (await source()) === "10.30.0.5",
        () => `served again; log: ${node.log}`,
        20_000,
      );
      const { stdout } = await node.mustRun("nft", ["list", "table", "ip", "plugin"]);
      expect(stdout).toContain("masquerade");
    });

    test("answers pass a firewall that accepts established connections", async ({ skip }) => {
      if (!kernelHasIt) skip();
      const rules = `table ip firewall {
	chain forward {
		type filter hook forward priority 0; policy drop;
		ip daddr 10.30.0.5 ct state established,related accept
		ip saddr 10.30.0.5 accept
	}
}
`;
      await node.mustRun("nft", ["-f", "-"], rules);
      expect(await source()).toBe("10.30.0.5");
      await run("ip", ["netns", "exec", node.space as string, "nft", "delete", "table", "ip", "firewall"]);
    });
  },
);
