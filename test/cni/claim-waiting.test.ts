import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, expectDone, held, pod, processTestWith, restart, testWith, until } from "./fixtures.ts";
import { apply, claim, claims, conditionOf, withClaim } from "./manifests.ts";
import { addressesIn, send, T } from "./wire.ts";

/** The VM's controller creates the claim and the pod side by side: an ADD that comes first waits, and never guesses. */

/** Nothing here waits that long; a loaded machine must not make the daemon give up. */
const patient = testWith("--add-deadline-ms", "50000");
const hasty = testWith("--add-deadline-ms", "300");

async function waiting(daemon: ServedDaemon, count: number): Promise<void> {
  const gauge = async () => /^holdfast_waiting_requests (\d+)$/m.exec((await daemon.get("/metrics")).body)?.[1];
  await until(async () => (await gauge()) === String(count), `${count} waiting requests`);
}

describe("a claim that does not exist", () => {
  patient("is used at once when it is created while the ADD waits", async ({ daemon }) => {
    const adding = daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") });
    await waiting(daemon, 1);
    await apply(daemon, claim("vm2"));
    await waiting(daemon, 1);
    await apply(daemon, claim("vm1"));
    const [address] = addressesOf(await adding);
    expect(await held(daemon, "blue")).toEqual([`${address} Bound claim default/vm1`]);
    await waiting(daemon, 0);
  });

  hasty("makes the ADD fail with code 11 at its deadline, without an address", async ({ daemon }) => {
    const startMs = performance.now();
    const error = errorOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") }));
    const tookMs = performance.now() - startMs;
    expect(error).toMatchObject({ code: 11, msg: "IPAMClaim default/vm1 does not exist yet" });
    expect(tookMs).toBeGreaterThanOrEqual(300);
    expect(await held(daemon, "blue")).toEqual([]);
    // The runtime tries again later, and is served.
    await apply(daemon, claim("vm1"));
    addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") }));
  });

  patient("is not waited for after a DEL of the container", async ({ daemon }) => {
    const adding = daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") });
    await waiting(daemon, 1);
    expectDone(await daemon.cni("DEL", "c1", { config: withClaim("vm1") }));
    expect(errorOf(await adding)).toMatchObject({
      code: 11,
      msg: expect.stringContaining("overtaken by a later DEL"),
    });
    await apply(daemon, claim("vm1"));
    expect(await held(daemon, "blue")).toEqual([]);
  });

  patient("is still waited for after an older DEL, or one of another interface", async ({ daemon }) => {
    const adding = send(daemon, "ADD", { config: withClaim("vm1"), bootUs: T + 10 });
    await waiting(daemon, 1);
    await send(daemon, "DEL", { bootUs: T });
    await send(daemon, "DEL", { ifname: "eth1", bootUs: T + 20 });
    await waiting(daemon, 1);
    await apply(daemon, claim("vm1"));
    expect(addressesIn(await adding)).toHaveLength(1);
  });

  patient("is given to one of two pods that wait for it, and its user is named to the other", async ({ daemon }) => {
    const adding = ["c1", "c2"].map((id) =>
      daemon.cni("ADD", id, { config: withClaim("vm1"), args: pod(`uid-${id}`) }),
    );
    await waiting(daemon, 2);
    await apply(daemon, claim("vm1"));
    const answers = await Promise.all(adding);
    expect(answers.map(({ code }) => code).sort()).toEqual([0, 1]);
    const refused = answers.find(({ code }) => code === 1) as (typeof answers)[number];
    expect(errorOf(refused)).toMatchObject({ code: 124 });
  });

  patient("makes the ADD fail at once when it is created for another network", async ({ daemon }) => {
    const adding = daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") });
    await waiting(daemon, 1);
    await apply(daemon, claim("vm1", { network: "red" }));
    expect(errorOf(await adding)).toMatchObject({
      code: 125,
      msg: "IPAMClaim default/vm1 is for network red, this interface is on network blue",
    });
    expect(await conditionOf(daemon, "vm1")).toBe("False NetworkNotFound");
  });
});

describe("when many ADDs wait", () => {
  patient("1,000 are served when their claim is created, and one more is refused at once", async ({ daemon }) => {
    const names = Array.from({ length: 1_000 }, (_, i) => `vm${i}`);
    const wide = { subnets: "10.0.0.0/16" };
    const ask = (name: string) => send(daemon, "ADD", { containerId: `c-${name}`, config: withClaim(name, wide) });
    const adding = [];
    // In steps: the socket's backlog is shorter than the waiting room.
    for (let i = 0; i < names.length; i += 100) {
      adding.push(...names.slice(i, i + 100).map(ask));
      await waiting(daemon, i + 100);
    }
    const oneMore = await ask("one-more");
    expect(oneMore.json()).toMatchObject({ code: 11, msg: "1000 requests are waiting already" });
    // Who needs no claim is served meanwhile: waiting holds no place in the queue.
    addressesIn(await send(daemon, "ADD", { config: withClaim(undefined, wide) }));
    await apply(daemon, ...names.slice(0, 500).map((name) => claim(name)));
    await apply(daemon, ...names.slice(500).map((name) => claim(name)));
    const addresses = (await Promise.all(adding)).flatMap(addressesIn);
    expect(new Set(addresses).size).toBe(1_000);
    expect(await claims(daemon)).toHaveLength(1_000);
  });

  processTestWith({ args: ["--add-deadline-ms", "50000"] })(
    "the daemon is told to stop: they are sent away to ask again, and it ends",
    async ({ daemon }) => {
      const adding = ["c1", "c2", "c3"].map((id) => daemon.cni("ADD", id, { config: withClaim("vm1") }));
      await waiting(daemon, 3);
      expect(await daemon.end("SIGTERM")).toBe(0);
      for (const answer of await Promise.all(adding)) expect(errorOf(answer)).toMatchObject({ code: 11 });
      await restart(daemon, "SIGTERM");
    },
  );
});
