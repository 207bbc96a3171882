import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { codeBlocks, commandsInRow } from "../harness/documents.ts";
import { Machine, whyNoMachine } from "../harness/machine.ts";
import { preparePodman } from "../harness/machine-parts.ts";
import { until } from "../harness/wait.ts";

/**
 * What the documents tell a newcomer to type on one node, typed on a machine of its own; each test goes on from the one
 * before.
 */

const reason = whyNoMachine();
const PROJECT = join(import.meta.dirname, "../..");
const PAGE = "docs/one-node.md";
const FIRST = "Your first network on one node";

let machine: Machine;
let before: string;
beforeAll(async () => {
  if (reason !== null) return;
  machine = await Machine.start();
  await preparePodman(machine);
  // The source tree, where somebody may write.
  await machine.out(`mkdir -p /run/tree/upper /run/tree/work /run/tree/holdfast && mount -t overlay overlay \
    -o lowerdir=${PROJECT},upperdir=/run/tree/upper,workdir=/run/tree/work /run/tree/holdfast`);
  before = await ours();
}, 300_000);
afterAll(() => machine?.stop());

/** Runs a block as it is written, in the source tree. Containers cannot have control groups of their own here. */
function typed(block: string): Promise<string> {
  const text = block.replaceAll("podman run ", "podman run --cgroups=disabled ");
  return machine.out(`cd /run/tree/holdfast && set -e\n${text}`);
}

/** Every path on the machine that tells of Holdfast. */
function ours(): Promise<string> {
  return machine.out(
    "find /etc /usr/local /usr/lib /opt /var/lib /run -xdev -path /run/tree -prune -o -iname '*holdfast*' -print | sort",
  );
}

const addresses = (text: string) => [...text.matchAll(/"address": "([^"]+)"/g)].map((match) => match[1]);

test.skipIf(reason !== null)(
  "docs/one-node.md: the first network, a container on it, and a VM that keeps its addresses",
  async () => {
    const [install, first, claim, applied] = codeBlocks(PAGE, FIRST) as [string, string, string, string];
    await typed(install);
    expect(await typed(first)).toMatch(/^tenantblue-network +192\.168\.10\.2\/24 +container .* Bound/m);
    // A container that is started in the same shell afterwards must not ask for the VM's claim: podman passes CNI_ARGS
    // on.
    const said = await typed(`${claim}\nenv | grep ^CNI_ && exit 1 || true`);
    const [one4, one6, two4, two6, ...more] = addresses(said);
    expect([one4, one6]).toEqual([expect.stringMatching(/^192\.168\.10\./), expect.stringMatching(/^fd10::/)]);
    expect([two4, two6, ...more]).toEqual([one4, one6]);
    const listed = await typed(applied);
    expect(listed).toMatch(/^tenantblue-network +192\.168\.10\.2\/24 +container .* Bound/m);
    // The machine may remember the MAC that the container had before.
    const answers = async () => (await machine.sh("ping -c 1 -W 1 192.168.10.2")).code === 0;
    await until(answers, "an answer of the container that was started again");
    // And the next section.
    const [look] = codeBlocks("README.md", "Who holds an address?") as [string];
    for (const line of look
      .trim()
      .split("\n")
      .filter((one) => !one.includes("--vm"))) {
      await machine.out(line);
    }
  },
);

test.skipIf(reason !== null)("docs/metadata.md: two lines give a container its identity", async () => {
  const [install, , next] = codeBlocks("docs/metadata.md", "Run it") as [string, string, string];
  expect(install.trim().split("\n")).toHaveLength(2);
  await typed(install);
  const keys = "/etc/holdfast/metadata.keys";
  await until(async () => (await machine.sh(`test -e ${keys}`)).code === 0, keys);
  expect(await machine.out(`stat -c '%U:%G %a' ${keys}`)).toBe("root:holdfast-metadata 640\n");
  const made = await machine.out(`cat ${keys}`);
  expect(made).toMatch(/^#.*every node.*\n[0-9a-f]{64}\n$/i);
  const warned = () => machine.out("journalctl -u holdfast-metadata -o cat --no-pager -p warning");
  await until(async () => (await warned()).includes("copy it to every node"), "the warning about the keys");
  // Typed once more, the keys are the same.
  await typed(`${install}\nsystemctl restart holdfast-metadata`);
  expect(await machine.out(`cat ${keys}`)).toBe(made);
  for (const port of [9809, 9810]) {
    const ready = async () => (await machine.sh(`curl -sf 127.0.0.1:${port}/readyz`)).code === 0;
    await until(ready, `readiness at ${port}`);
  }
  expect(JSON.parse(await typed(next))).toMatchObject({ uuid: expect.any(String), name: expect.any(String) });
  expect(await machine.out("systemctl --failed --no-legend")).toBe("");
});

test.skipIf(reason !== null)("docs/metadata.md: a VM gets user-data and a key from files", async () => {
  const [content, vm] = codeBlocks("docs/metadata.md", "Content without Kubernetes") as [string, string];
  const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGc somebody@desk";
  await machine.out(`mkdir -p ~/.ssh && echo '${key}' > ~/.ssh/id_ed25519.pub`);
  expect(await typed(content)).toMatch(
    /secret\/default\/web created.*ipamclaim\/default\/web\.tenantgreen created.*authorized_keys,user-data.*default\/web\.tenantgreen/s,
  );
  const said = await typed(vm);
  expect(said).toContain("#cloud-config\n");
  expect(said).toContain(key);
});

test.skipIf(reason !== null)(
  "docs/upgrade.md: an upgrade to the same release leaves running containers connected",
  async () => {
    const [before, after] = codeBlocks("docs/upgrade.md", "On one node") as [string, string];
    const upgrade = commandsInRow("docs/upgrade.md", "source tree, one node");
    expect(await typed(`${before}${upgrade}\n${after}`)).toContain("I1  no address has two owners");
    await machine.out("ping -c 1 192.168.10.2");
  },
);

test.skipIf(reason !== null)("docs/uninstall.md: the uninstall leaves nothing, and a new install works", async () => {
  await machine.out("podman rm -f -t 0 web; ip netns delete vm1");
  const [uninstall, rest] = codeBlocks("docs/uninstall.md", "On one node") as [string, string];
  // What an administrator has added is not thrown away unasked.
  const own = "/etc/systemd/system/holdfast.service.d/own.conf";
  await machine.out(`mkdir -p $(dirname ${own}) && echo '[Service]' > ${own}`);
  const said = await typed(uninstall);
  expect(await machine.out(`cat ${own}`)).toBe("[Service]\n");
  expect(said).toContain("left: /etc/systemd/system/holdfast.service.d\n");
  for (const path of ["/var/lib/holdfast", "/var/lib/holdfast-metadata", "/etc/holdfast", "/run/holdfast"])
    expect(said).toContain(`left: ${path}\n`);
  await typed(rest);
  expect(await ours()).toBe(before);
  expect((await machine.sh("getent passwd holdfast-metadata || getent group holdfast-metadata")).code).not.toBe(0);

  await typed((codeBlocks(PAGE, FIRST) as [string])[0]);
  expect(await machine.out("holdfast apply -f /root/claims.yaml")).toContain(
    "ipamclaim/default/vm1.tenantblue created",
  );
  expect(await machine.out("holdfast claims")).toContain("192.168.10.");
});
