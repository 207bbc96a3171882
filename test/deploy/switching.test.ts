import { describe, expect, test } from "vitest";
import { commandsOf, onMachine, whyNotTried } from "./switching.ts";

/** What a container's own kernel says. */
const ADDRESSES = `
for name in $(podman ps --format '{{.Names}}' | sort); do
  echo "$name $(podman exec "$name" /bin/busybox ip -4 -o address show dev eth0 | /bin/busybox awk '{print $4}')"
done`;
const BY_NAMESPACE = `for name in $(ls /run/netns | sort); do echo "$name $(ip -n "$name" -4 -o address show dev eth0 | awk '{print $4}')"; done`;

const why = whyNotTried("/usr/lib/cni/bridge", "/usr/lib/cni/host-local");
const whyNoPodman = why ?? whyNotTried("/usr/bin/podman", "/usr/bin/crun", "/usr/bin/conmon", "/usr/bin/busybox");

describe.skipIf(whyNoPodman !== null)(
  "a network of podman's is switched from host-local with containers running",
  () => {
    test("by the commands of the page", { timeout: 300_000 }, async () => {
      const [make, look, change, restart, remove, ...more] = commandsOf("Under podman");
      expect(more).toEqual([]);
      const { steps } = await onMachine(
        [
          ["daemon", "daemon"],
          ["make", make as string],
          ["look", look as string],
          ["change", change as string],
          ["first", ADDRESSES],
          ["restart", restart as string],
          ["second", ADDRESSES],
          ["files", "ls /var/lib/cni/networks/shop"],
          ["remove", remove as string],
          // Another one of before, which is removed without ever having been started again: host-local's DEL, not ours.
          ["third", ADDRESSES],
        ],
        { podman: true },
      );
      const step = (name: string) => steps.get(name) ?? "";
      expect(step("make")).toContain("10.89.5.2\n10.89.5.3\n");
      expect(step("look")).toMatch(/shop +10\.89\.5\.2 +container \w{64} \(eth0\) +network not defined yet/);
      expect(step("look")).toMatch(/shop +10\.89\.5\.3 /);
      expect(step("first")).toBe("cache 10.89.5.4/24\ndb 10.89.5.3/24\nweb 10.89.5.2/24\n");
      expect(step("change").match(/Bound/g)).toHaveLength(3);
      expect(step("second")).toBe(step("first"));
      expect(step("restart")).toContain("ok:");
      expect(step("files")).not.toMatch(/10\.89\.5/);
      expect(step("remove")).toContain("10.89.5.2");
      expect(step("third")).toBe("cache 10.89.5.4/24\ndb 10.89.5.3/24\n");
    });

    test("what is stopped, started, removed and left over keeps every address to itself", {
      timeout: 300_000,
    }, async () => {
      const [make, , change] = commandsOf("Under podman");
      const { steps } = await onMachine(
        [
          ["daemon", "daemon"],
          ["make", `${make}\npodman run -d --name old --network shop busybox sleep 100000\npodman stop -t 0 old`],
          // It is stopped while the network changes hands, so host-local has no file of it.
          ["change", `${change}\npodman start old`],
          ["first", ADDRESSES],
          // host-local's DEL runs, with the configuration that podman keeps; Holdfast is not asked.
          ["removed", `podman rm -f -t 0 db\nls /var/lib/cni/networks/shop`],
          [
            "released",
            `wait_for 'holdfast history 10.89.5.3 | grep "DEL by host-local"'; holdfast list --network shop`,
          ],
          // Killed without a DEL: host-local's file stays, and the address with it.
          [
            "restarted",
            `kill -9 $DAEMON; wait $DAEMON || true; rm -f /run/holdfast/holdfast.sock; daemon; podman run -d --name late --network shop busybox sleep 100000`,
          ],
          ["second", ADDRESSES],
          ["check", "holdfast check"],
        ],
        { podman: true },
      );
      const step = (name: string) => steps.get(name) ?? "";
      const first = step("first")
        .trim()
        .split("\n")
        .map((line) => line.split(" ")[1]);
      expect(first).toHaveLength(4);
      expect(new Set(first).size).toBe(4);
      expect(step("first")).toContain("web 10.89.5.2/24");
      expect(step("first")).toContain("db 10.89.5.3/24");
      expect(step("removed")).not.toContain("10.89.5.3\n");
      expect(step("released")).toMatch(/10\.89\.5\.3\/24 .*Cooling/);
      const second = step("second")
        .trim()
        .split("\n")
        .map((line) => line.split(" ")[1]);
      expect(new Set(second).size).toBe(4);
      expect(second).toContain("10.89.5.2/24");
      expect(step("check")).toContain("ok:");
    });
  },
);

describe.skipIf(why !== null)(
  "a network of the bridge plugin is switched from host-local with containers running",
  () => {
    test("by the commands of the page", { timeout: 120_000 }, async () => {
      const [make, change, del, ...more] = commandsOf("Under the bridge plugin");
      expect(more).toEqual([]);
      const { steps } = await onMachine([
        ["daemon", "daemon"],
        ["make", make as string],
        ["change", change as string],
        ["addresses", BY_NAMESPACE],
        ["again", "cni DEL c2\ncni ADD c2"],
        ["same", BY_NAMESPACE],
        ["del", del as string],
        ["list", "holdfast list --network orange"],
      ]);
      const step = (name: string) => steps.get(name) ?? "";
      expect(step("addresses")).toBe("c1 192.168.40.2/24\nc2 192.168.40.3/24\nc3 192.168.40.4/24\n");
      expect(step("same")).toBe(step("addresses"));
      expect(step("del")).not.toContain("192.168.40.2\n");
      expect(step("del")).toContain("ok:");
      expect(step("list")).toMatch(/192\.168\.40\.2\/24 .*Cooling/);
    });
  },
);
