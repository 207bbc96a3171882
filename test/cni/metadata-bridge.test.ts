import { describe, expect } from "vitest";
import { PortClient, withMetadata } from "../harness/port-client.ts";
import { Containers, mustRun, whyNotReal } from "../network/containers.ts";
import { test } from "./fixtures.ts";

/* Real plugins make of the route what a guest without another way to 169.254.169.254 needs. */

const METADATA = "169.254.169.254";

interface KernelRoute {
  readonly dst: string;
  readonly gateway?: string;
  readonly dev?: string;
}

describe.skipIf(whyNotReal() !== null)("the route under a real plugin", () => {
  test.for<[string, string, object, object, KernelRoute]>([
    ["bridge, no gateway", "1.0.0", {}, {}, { dst: METADATA }],
    ["bridge, no gateway", "0.4.0", {}, {}, { dst: METADATA }],
    ["bridge, a gateway that nobody may be", "1.0.0", { gateway: "10.10.0.1" }, {}, { dst: METADATA }],
    [
      "bridge that is the gateway",
      "1.0.0",
      { gateway: "10.10.0.1" },
      { isGateway: true },
      { dst: METADATA, gateway: "10.10.0.1" },
    ],
    [
      "bridge with a default route",
      "1.0.0",
      { gateway: "10.10.0.1", routes: [{ dst: "0.0.0.0/0" }] },
      { isGateway: true },
      { dst: METADATA, gateway: "10.10.0.1" },
    ],
    [
      "bridge that makes the default route",
      "1.0.0",
      {},
      { isDefaultGateway: true },
      { dst: METADATA, gateway: "10.10.0.1" },
    ],
    [
      "bridge, a default route by a router that may be down",
      "1.0.0",
      { gateway: "10.10.0.1", routes: [{ dst: "0.0.0.0/0" }] },
      {},
      { dst: METADATA },
    ],
  ])("%s, cniVersion %s", async ([, cniVersion, ipam, plugin, expected], { daemon, onTestFinished }) => {
    const client = PortClient.start(daemon);
    onTestFinished(() => client.stop());
    const containers = new Containers(daemon);
    onTestFinished(() => containers.remove());
    const bridge = containers.link("hfr");
    const config = withMetadata("blue", ipam, { cniVersion, bridge, ...plugin }) as Record<string, unknown>;
    const guest = await containers.create("guest");
    const added = await containers.cni("ADD", "guest", guest, config);
    expect(added.code, added.stdout).toBe(0);
    const { stdout } = await mustRun("ip", ["-n", guest, "-json", "route"]);
    const routes = (JSON.parse(stdout) as KernelRoute[])
      .filter(({ dst }) => dst === METADATA)
      .map(({ dst, gateway }) => (gateway === undefined ? { dst } : { dst, gateway }));
    expect(routes).toEqual([expected]);
    expect(client.wanted).toMatchObject([{ netns: `/var/run/netns/${guest}` }]);

    const withResult = { ...config, prevResult: added.json() };
    expect(await containers.cni("CHECK", "guest", guest, withResult)).toMatchObject({ code: 0 });
    expect(await containers.cni("DEL", "guest", guest, withResult)).toMatchObject({ code: 0 });
    await client.untilWanted([]);
  });
});
