import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, held, past, pod, test, testWith, until } from "./fixtures.ts";
import { apply, claim, claimNamed, conditionOf, withClaim } from "./manifests.ts";

/** Two pods with one claim would be two machines with one address: the living one keeps it. */

const config = withClaim("vm1");
const add = (daemon: ServedDaemon, id: string, options: { netns?: string; args?: string; ifname?: string } = {}) =>
  daemon.cni("ADD", id, { config, args: pod(`uid-${id}`), ...options });

describe("while a container with the claim lives", () => {
  test("another pod is refused, and the user is named", async ({ daemon, namespaces }) => {
    await apply(daemon, claim("vm1"));
    const first = await add(daemon, "c1", { netns: await namespaces.add() });
    const error = errorOf(await add(daemon, "c2", { netns: await namespaces.add() }));
    expect(error).toMatchObject({
      code: 124,
      msg: "IPAMClaim default/vm1 is used by pod default/uid-c1 (eth0)",
    });
    expect(await conditionOf(daemon, "vm1")).toBe("True ClaimInUse");
    expect((await claimNamed(daemon, "vm1")).status).toMatchObject({
      ips: addressesOf(first),
      ownerPod: { name: "uid-c1" },
    });
    await daemon.cni("DEL", "c1", { config });
    expect((await add(daemon, "c2")).stdout).toBe(first.stdout);
    expect(await conditionOf(daemon, "vm1")).toBe("True SuccessfulAllocation");
  });

  test("another interface of the same pod is refused", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    const args = pod("uid-1");
    await add(daemon, "c1", { ifname: "net1", args });
    const error = errorOf(await add(daemon, "c1", { ifname: "net2", args }));
    expect(error).toMatchObject({
      code: 124,
      msg: "IPAMClaim default/vm1 is used by pod default/uid-1 (net1)",
    });
    expect(await held(daemon, "blue")).toHaveLength(1);
  });

  test("a container without a pod UID is refused in the same way", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    await add(daemon, "c1", { ifname: "net1", args: "" });
    expect(errorOf(await add(daemon, "c1", { ifname: "net2", args: "" }))).toMatchObject({ code: 124 });
    expect(errorOf(await add(daemon, "c2", { ifname: "net1", args: "" }))).toMatchObject({ code: 124 });
  });

  test("a container whose network namespace the daemon never saw counts as living", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    await add(daemon, "c1", { netns: "/nonexistent/netns" });
    expect(errorOf(await add(daemon, "c2"))).toMatchObject({ code: 124 });
  });
});

describe("when the container died without a DEL", () => {
  test("its successor gets the addresses, and the late DEL frees nothing", async ({ daemon, namespaces }) => {
    await apply(daemon, claim("vm1"));
    const netns = await namespaces.add();
    const first = await add(daemon, "c1", { netns });
    await namespaces.remove(netns);
    const second = await add(daemon, "c2", { netns: await namespaces.add() });
    expect(second.stdout).toBe(first.stdout);
    await daemon.cni("DEL", "c1", { config });
    const { items } = (await daemon.get("/v1/allocations?claim=vm1")).json();
    expect(items[0].attachments).toMatchObject([{ containerID: "c2" }]);
    const [address] = addressesOf(first).map((one) => one.split("/")[0]);
    expect(await past(daemon, address as string)).toEqual([
      "container c2 holds",
      "container c1 until namespace gone",
      "claim default/vm1 holds",
    ]);
  });

  const watchful = testWith("--witness-interval-seconds", "1", "--witness-grace-seconds", "1");
  watchful(
    "the witness ends it after the grace, its plain address cools down, and its claim keeps its own",
    async ({ daemon, namespaces }) => {
      await apply(daemon, claim("vm1"));
      const [netns, lives] = [await namespaces.add(), await namespaces.add()];
      const [address] = addressesOf(await add(daemon, "c1", { netns }));
      const plain = withClaim(undefined);
      const [died] = addressesOf(await daemon.cni("ADD", "c2", { config: plain, netns }));
      const [living] = addressesOf(await daemon.cni("ADD", "c3", { config: plain, netns: lives }));
      const [unseen] = addressesOf(await daemon.cni("ADD", "c4", { config: plain, netns: "/nonexistent/netns" }));
      await namespaces.remove(netns);
      const listed = async () => new Set(await held(daemon, "blue"));
      await until(async () => (await listed()).has(`${died} Cooling container c2 (eth0)`), "the witness");
      // It ends one container after the other.
      const kept = (address as string).split("/")[0] as string;
      await until(
        async () => (await past(daemon, kept)).includes("container c1 until namespace gone"),
        "the witness, of the container with the claim",
      );
      expect(await listed()).toEqual(
        new Set([
          `${address} Bound claim default/vm1`,
          `${died} Cooling container c2 (eth0)`,
          `${living} Bound container c3 (eth0)`,
          `${unseen} Bound container c4 (eth0)`,
        ]),
      );
    },
  );
});
