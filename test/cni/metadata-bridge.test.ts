import { describe, expect } from "vitest";
import { PortClient, withMetadata } from "../harness/port-client.ts";
import { Containers, mustRun, whyNotReal } from "../network/containers.ts";
import { test } from "./fixtures.ts";

/* The real bridge plugin takes the route as it is: by the reserved address, not by the network's gateway. */

describe.skipIf(whyNotReal() !== null)("under the real bridge plugin", () => {
  test.for([["0.4.0"], ["1.0.0"]])("with cniVersion %s", async ([cniVersion], { daemon, onTestFinished }) => {
    const client = PortClient.start(daemon);
    onTestFinished(() => client.stop());
    const containers = new Containers(daemon);
    onTestFinished(() => containers.remove());
    const ipam = { gateway: "10.10.0.1", routes: [{ dst: "0.0.0.0/0" }] };
    const bridge = containers.link("hfr");
    const config = withMetadata("blue", ipam, { cniVersion, bridge, isGateway: true }) as Record<
      string,
      unknown
    >;
    const guest = await containers.create("guest");
    const added = await containers.cni("ADD", "guest", guest, config);
    expect(added.code, added.stdout).toBe(0);
    const { stdout } = await mustRun("ip", ["-n", guest, "-json", "route"]);
    const routes = (JSON.parse(stdout) as { dst: string; gateway?: string }[]).map(({ dst, gateway }) => ({
      dst,
      gateway,
    }));
    expect(routes).toContainEqual({ dst: "default", gateway: "10.10.0.1" });
    expect(routes).toContainEqual({ dst: "169.254.169.254", gateway: "10.10.0.254" });
    expect(client.wanted).toMatchObject([{ bridge, attachments: [{ netns: `/var/run/netns/${guest}` }] }]);

    const withResult = { ...config, prevResult: added.json() };
    expect(await containers.cni("CHECK", "guest", guest, withResult)).toMatchObject({ code: 0 });
    expect(await containers.cni("DEL", "guest", guest, withResult)).toMatchObject({ code: 0 });
    await client.untilWanted([]);
  });
});
