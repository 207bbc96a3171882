import { describe, expect } from "vitest";
import { addressesOf, errorOf, held, network, past, pod, test } from "./fixtures.ts";

/**
 * A container with a fixed address is replaced (podman run --replace --ip, a compose file, a quadlet): its successor
 * asks for the address by name and gets it at once, when the predecessor has certainly ended. See docs/decisions/0058.
 */

const config = network("blue", { subnets: "10.10.0.0/24,fd10::/64", cooldownSeconds: 3_600 });
const IPS = ["10.10.0.77", "fd10::77"];
const GIVEN = ["10.10.0.77/24", "fd10::77/64"];
const asking = { config: { ...config, runtimeConfig: { ips: IPS } } };

describe("an address that is asked for by name again", () => {
  test("is given at once after each DEL, time after time", async ({ daemon }) => {
    for (const id of ["c1", "c2", "c3"]) {
      expect(addressesOf(await daemon.cni("ADD", id, asking))).toEqual(GIVEN);
      await daemon.cni("DEL", id, { config });
    }
    expect(addressesOf(await daemon.cni("ADD", "c4", { config, args: `IP=${IPS[0]}` }))).toContain(GIVEN[0]);
  });

  test("is given at once when no DEL came and the holder's network namespace is gone", async ({
    daemon,
    namespaces,
  }) => {
    const netns = await namespaces.add();
    await daemon.cni("ADD", "c1", { ...asking, netns });
    const [text] = IPS;
    expect(errorOf(await daemon.cni("ADD", "c2", asking)).msg).toContain(`${text} is held by container c1`);
    await namespaces.remove(netns);
    expect(addressesOf(await daemon.cni("ADD", "c2", asking))).toEqual(GIVEN);
    expect(await held(daemon, "blue")).toEqual(GIVEN.map((one) => `${one} Bound container c2 (eth0)`));
    expect(await past(daemon, IPS[0] as string)).toContain("container c1 until namespace gone");
    // The late DEL of the one that was replaced takes nothing away.
    await daemon.cni("DEL", "c1", { config });
    expect(await held(daemon, "blue")).toHaveLength(2);
  });

  test("cools down when an operator took it away from a container that may still run", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", asking);
    const release = { network: "blue", address: IPS[0], force: true };
    expect((await daemon.post("/v1/release", release)).status).toBe(200);
    const refusal = errorOf(await daemon.cni("ADD", "c2", asking));
    expect(refusal).toMatchObject({ code: 11, msg: expect.stringContaining("still cooling down") });
    expect(refusal.details).toContain("The kubelet tries again, with another runtime start the container again");
  });

  test("cools down for a pod of another namespace", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { ...asking, args: pod("uid-1") });
    await daemon.cni("DEL", "c1", { config });
    const other = { ...asking, args: pod("uid-2").replace("=default", "=elsewhere") };
    expect(errorOf(await daemon.cni("ADD", "c2", other)).code).toBe(11);
    expect(addressesOf(await daemon.cni("ADD", "c3", { ...asking, args: pod("uid-3") }))).toEqual(GIVEN);
  });
});

test("an address that nobody asks for by name is not given again while it cools down", async ({ daemon }) => {
  await daemon.cni("ADD", "c1", { config });
  await daemon.cni("DEL", "c1", { config });
  expect(addressesOf(await daemon.cni("ADD", "c2", { config }))).toEqual(["10.10.0.2/24", "fd10::2/64"]);
});
