import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../metadata/proxy/listener-headers.ts";
import { releaseOf } from "../harness/release.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { load } from "./load.ts";
import { NetNode, type PortGuest } from "./node.ts";

/** The last commit with a listener for each network, at a port of its bridge. */
const BY_NETWORK = "5de71b44a3f91085371ccc0db522ddf25af197f6";
const BUILD_MS_MAX = 300_000;

/** A daemon of that release, which wants what `networks` says when it is asked. */
class FormerDaemon {
  networks: readonly unknown[] = [];
  version = 1;
  applied = "";

  want(...networks: readonly unknown[]): Promise<void> {
    this.networks = networks;
    this.version += 1;
    return until(
      () => this.applied === String(this.version),
      () => "the listeners of the release before",
      20_000,
    );
  }

  answer(report: unknown, answer: ServerResponse): void {
    this.applied = (report as { applied: string | null }).applied ?? "";
    const send = () => answer.end(JSON.stringify({ version: String(this.version), networks: this.networks }));
    const timer = setInterval(() => {
      if (this.applied === String(this.version)) return;
      clearInterval(timer);
      send();
    }, 20);
    answer.on("close", () => clearInterval(timer));
  }
}

function listener(network: string, bridge: string, guests: readonly PortGuest[]) {
  return {
    network,
    bridge,
    vlan: null,
    preserveDefaultVlan: true,
    mtu: null,
    address: "10.30.0.254/24",
    subnets: ["10.30.0.0/24"],
    attachments: guests.map(({ namespace, address }) => ({
      containerId: `container-${namespace}`,
      interface: "eth0",
      netns: `/run/netns/${namespace}`,
      addresses: [address],
      mac: null,
    })),
  };
}

test.skipIf(whyNotReal() !== null)(
  "listeners by network are replaced under load: no guest fails twice, and nothing of them is left",
  async () => {
    const release = await releaseOf(BY_NETWORK);
    if (release === null) throw new Error("the commit of the release before is not in this clone");
    const daemon = new FormerDaemon();
    const former = {
      program: release.holdfast,
      answer: (report: unknown, answer: ServerResponse) => daemon.answer(report, answer),
    };
    const node = await NetNode.start([], { former });
    try {
      const [one, two] = [await node.bridge(), await node.bridge()];
      const guests = [
        await node.guest(one, "10.30.0.5/24"),
        await node.guest(one, "10.30.0.6/24"),
        await node.guest(two, "10.30.0.5/24"),
      ] as const;
      await daemon.want(listener("blue", one, guests.slice(0, 2)), listener("red", two, [guests[2]]));
      for (const guest of guests) expect((await guest.ask("/")).status, node.log).toBe(200);
      const before = (await node.run("ip", ["netns", "list"])).stdout;
      expect(before).toContain(`${node.names.namespace}-`);

      const running = [load(guests[0], "new"), load(guests[2], "keep")];
      await node.endNet("SIGKILL");
      node.startNet();
      const wanted = [guests[0].on("blue"), guests[1].on("blue"), guests[2].on("red")];
      // A guest that may still be found, and is answered as before until then.
      const gone = guests[1].on("blue", { containerId: "later", netns: "/run/netns/is-not-there" });
      await node.wanted(...wanted, gone);
      await until(
        () => Object.keys(node.problems()).join() === "later eth0",
        () => JSON.stringify(node.problems()),
      );
      expect((await node.run("ip", ["netns", "list"])).stdout).toContain(`${node.names.namespace}-`);
      expect(node.log).not.toContain("the release before this one are removed");
      expect(await node.wanted(...wanted)).toEqual({});
      await until(
        () => node.log.includes("the release before this one are removed"),
        () => node.log,
      );
      for (const one of running) {
        const { count, bad } = await one.stop();
        expect(bad.length, `${JSON.stringify(bad)} of ${count}`).toBeLessThanOrEqual(1);
        expect(count).toBeGreaterThan(20);
      }
      for (const [at, guest] of guests.entries()) {
        const { echo } = await guest.ask("/");
        expect(echo.headers[LISTENER_HEADERS.network]).toBe(at === 2 ? "red" : "blue");
        expect(echo.headers[LISTENER_HEADERS.subject]).toContain(guest.namespace);
      }
      const tables = (await node.run("nft", ["list", "tables"])).stdout;
      expect(tables.split("\n").filter((line) => line.endsWith(node.names.table))).toEqual([
        `table netdev ${node.names.table}`,
      ]);
      expect((await node.run("ip", ["netns", "list"])).stdout).not.toContain(`${node.names.namespace}-`);
      const config = (await node.run("cat", [`${node.runDir}/haproxy.cfg`])).stdout;
      expect(config.match(/^frontend .*/gm)).toEqual(["frontend waiting-room", "frontend guests"]);
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  },
  BUILD_MS_MAX,
);
