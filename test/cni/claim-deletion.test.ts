import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, expectDone, held, past, pod, processTest, restart, test } from "./fixtures.ts";
import { apply, claim, claimNamed, claims, conditionOf, tryApply, withClaim } from "./manifests.ts";

/** A claim's addresses go back to the pool with the claim, but never from under a container that uses them. */

const config = withClaim("vm1");
const remove = async (daemon: ServedDaemon) => (await daemon.delete("/v1/claims/default/vm1")).json();
const add = (daemon: ServedDaemon, id: string, uid: string) => daemon.cni("ADD", id, { config, args: pod(uid) });

describe("a claim that nothing uses", () => {
  test("is gone at once, and its address cools down", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    const [address] = addressesOf(await add(daemon, "c1", "uid-1"));
    await daemon.cni("DEL", "c1", { config });
    expect(await remove(daemon)).toEqual({ state: "deleted", ips: [address] });
    expect(await claims(daemon)).toEqual([]);
    expect(await held(daemon, "blue")).toEqual([`${address} Cooling claim default/vm1`]);
    expect((await past(daemon, (address as string).split("/")[0] as string)).at(-1)).toBe(
      "claim default/vm1 until claim deleted",
    );
  });

  test("may have no addresses, and one that does not exist is an error", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    expect(await remove(daemon)).toEqual({ state: "deleted", ips: [] });
    expect(await remove(daemon)).toMatchObject({
      code: "NOT_FOUND",
      message: "there is no claim default/vm1",
    });
  });
});

describe("a claim that a container uses", () => {
  async function terminating(daemon: ServedDaemon): Promise<string> {
    await apply(daemon, claim("vm1"));
    const [address] = addressesOf(await add(daemon, "c1", "uid-1"));
    expect(await remove(daemon)).toEqual({ state: "terminating", ips: [address] });
    return address as string;
  }

  processTest("is Terminating until the last DEL, and then gone with its address", async ({ daemon }) => {
    const address = await terminating(daemon);
    expect((await claimNamed(daemon, "vm1")).metadata).toHaveProperty("deletionTimestamp");
    await restart(daemon, "SIGKILL");
    expect(await remove(daemon)).toEqual({ state: "terminating", ips: [address] });
    expect(await held(daemon, "blue")).toEqual([`${address} Bound claim default/vm1`]);
    expectDone(await daemon.cni("DEL", "c1", { config }));
    expect(await claims(daemon)).toEqual([]);
    expect(await held(daemon, "blue")).toEqual([`${address} Cooling claim default/vm1`]);
  });

  test("serves repeats and new sandboxes of the pod that uses it, and no other pod", async ({ daemon }) => {
    const address = await terminating(daemon);
    expect(addressesOf(await add(daemon, "c1", "uid-1"))).toEqual([address]);
    expect(addressesOf(await add(daemon, "c2", "uid-1"))).toEqual([address]);
    await daemon.cni("DEL", "c1", { config });
    expect(await held(daemon, "blue")).toEqual([`${address} Bound claim default/vm1`]);
    errorOf(await add(daemon, "c3", "uid-2"));
    await daemon.cni("DEL", "c2", { config });
    expect(await held(daemon, "blue")).toEqual([`${address} Cooling claim default/vm1`]);
  });

  test("refuses the successor of a container that died, because it is Terminating", async ({ daemon, namespaces }) => {
    await apply(daemon, claim("vm1"));
    const netns = await namespaces.add();
    await daemon.cni("ADD", "c1", { config, args: pod("uid-1"), netns });
    await remove(daemon);
    await namespaces.remove(netns);
    const error = errorOf(await add(daemon, "c2", "uid-2"));
    expect(error).toMatchObject({ code: 11, msg: "IPAMClaim default/vm1 is being deleted" });
    await daemon.cni("DEL", "c1", { config });
    expect(await claims(daemon)).toEqual([]);
  });

  test("cannot be applied again before it is gone", async ({ daemon }) => {
    await terminating(daemon);
    const [result] = await tryApply(daemon, claim("vm1"));
    expect(result).toMatchObject({ error: { code: "CLAIM_TERMINATING" } });
    await daemon.cni("DEL", "c1", { config });
    expect(await apply(daemon, claim("vm1"))).toEqual(["created"]);
  });
});

describe("a claim created again under its old name", () => {
  test("is another claim with another UID, without the former one's addresses", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    const former = await claimNamed(daemon, "vm1");
    const [old] = addressesOf(await add(daemon, "c1", "uid-1"));
    await daemon.cni("DEL", "c1", { config });
    await remove(daemon);
    await apply(daemon, claim("vm1"));
    const now = await claimNamed(daemon, "vm1");
    expect(now.metadata.uid).not.toBe(former.metadata.uid);
    expect(now).not.toHaveProperty("status");
    const [address] = addressesOf(await add(daemon, "c2", "uid-2"));
    expect(address).not.toBe(old);
    expect(await conditionOf(daemon, "vm1")).toBe("True SuccessfulAllocation");
    // A late DEL of the old life ends nothing of the new one.
    await daemon.cni("DEL", "c1", { config });
    expect(await held(daemon, "blue")).toContain(`${address} Bound claim default/vm1`);
  });
});
