import { expect, test } from "vitest";
import { onMachine, whyNotTried } from "./switching.ts";

const why = whyNotTried(
  "/usr/lib/cni/bridge",
  "/usr/bin/podman",
  "/usr/bin/crun",
  "/usr/bin/conmon",
  "/usr/bin/busybox",
);

/** Twice in a row, as podman auto-update, podman-compose and quadlets do; podman does not try again. */
const REPLACE = `for turn in 1 2 3; do
  podman run -d --replace --name web --network fixed --ip 10.132.0.77 busybox sleep 100000 > /dev/null
  podman exec web /bin/busybox ip -4 -o address show dev eth0 | /bin/busybox awk '{print $4}'
done`;

test.skipIf(why !== null)(
  "podman run --replace --ip gives the successor the same address, time after time",
  { timeout: 300_000 },
  async () => {
    const { steps } = await onMachine(
      [
        ["daemon", "daemon"],
        [
          "make",
          `podman network create --subnet 10.132.0.0/24 fixed
sed -i 's/"host-local"/"holdfast-ipam"/' /etc/cni/net.d/fixed.conflist`,
        ],
        ["replace", REPLACE],
        ["list", "holdfast list --network fixed"],
      ],
      { podman: true },
    );
    expect(steps.get("replace")).toBe("10.132.0.77/24\n".repeat(3));
    expect(steps.get("list")?.match(/10\.132\.0\.77\/24 .* Bound/g)).toHaveLength(1);
  },
);
