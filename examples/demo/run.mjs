// The product in one minute: a VM stops, the daemon is killed, the VM starts again, and its addresses are the same.
// Real daemon, real plugin binaries; as root with the bridge plugin there, real network namespaces and pings as well.
// Prints what it does, exits 0, or exits 1 and names the step in which something differed.
import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { Playground } from "./playground.mjs";
import { say } from "./terminal.mjs";

const examples = join(import.meta.dirname, "..");
const networkFile = join(import.meta.dirname, "tenantblue-network.yaml");
const claimFile = join(examples, "vm1-claim.yaml");
const metadataFile = join(examples, "metadata-network.yaml");
const bootDirectory = join(examples, "vm2-boot");
const configOf = (document) => JSON.parse(document.spec.config);
const config = configOf(parse(readFileSync(networkFile, "utf8")));
const [green, vm2Claim] = parseAllDocuments(readFileSync(metadataFile, "utf8")).map((one) => one.toJS());
const playground = await Playground.create({ blue: config, green: configOf(green) }, spawn);
const { step, show, holdfast, add, del } = playground;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, playground.interrupt);
// The VM keeps its MAC as well, as KubeVirt does; its neighbours would talk to the old one otherwise.
const CLAIM = "IgnoreUnknown=1;IPAM_CLAIM=default/vm1.tenantblue;MAC=02:00:00:00:00:01";
const plain = (ips) => ips.map((ip) => ip.split("/")[0]);

let vm;
let isMetadataShown = false;
try {
  say("A VM keeps its addresses while it is stopped, while others want them and while the daemon crashes.");
  say("Some 20 seconds, in a temporary directory; everything is removed at the end. Ctrl-C ends it at any time.");
  say(playground.describe());

  await step("start the daemon on an empty state directory", () => playground.startDaemon());

  await step("apply the network and the VM's IPAMClaim, as kubectl would", async () => {
    await show("apply", "-f", networkFile, "-f", claimFile);
  });

  await step("attach the VM's interface and two plain pods", async () => {
    vm = await add("vm1-run1", CLAIM);
    const web = await add("web");
    const db = await add("db");
    assert.equal(new Set([...vm, ...web, ...db]).size, 6, "six different addresses, two families each");
    await playground.reach("web", [...plain(vm), ...plain(db)]);
    await playground.reach("vm1-run1", plain(web));
    await show("list");
  });

  await step("stop the VM: nothing is attached any more, the claim keeps its addresses", async () => {
    await del("vm1-run1", CLAIM);
    await show("claims");
  });

  await step("others try to take its place: by asking for its address, and by filling the network", async () => {
    const refused = await playground.addRefused("thief", `IgnoreUnknown=1;IP=${plain(vm)[0]}`);
    assert.match(refused.msg, /held by claim default\/vm1\.tenantblue/);
    say(`  asked for ${plain(vm)[0]}: ${refused.msg}`);
    const taken = await add("greedy");
    assert.ok(!taken.some((ip) => vm.includes(ip)), "a new pod got an address of the stopped VM");
    const full = await playground.addRefused("late", "");
    assert.equal(full.code, 11);
    say(`  network full: ${full.msg}`);
    await show("networks");
  });

  await step("kill the daemon with SIGKILL and start it again", async () => {
    const outageMs = await playground.crashDaemon();
    say(`  answered again after ${(outageMs / 1000).toFixed(1)} s`);
    say("  Was anything lost, or given twice? check compares all it has on disk by five rules, I1 to I5:");
    await show("check");
  });

  await step("start the VM: new container, same addresses", async () => {
    const again = await add("vm1-run2", CLAIM);
    assert.deepEqual(again, vm);
    await playground.reach("web", plain(vm));
    await show("who", plain(vm)[0]);
  });

  await step("delete the VM and its claim: the addresses return to the pool", async () => {
    await del("vm1-run2", CLAIM);
    await show("delete", "-f", claimFile);
    const { items } = JSON.parse(await holdfast("list", "-o", "json"));
    const holders = items.filter((item) => vm.includes(item.address) && item.state === "Bound");
    assert.deepEqual(holders, [], "the claim is gone, its addresses are not");
    await show("networks");
    const heir = await add("heir");
    assert.deepEqual(heir, vm, "the only free addresses are the ones that the VM gave back");
    await show("history", plain(vm)[0]);
    await holdfast("check");
  });

  const whyNoMetadata = await playground.whyNoMetadata();
  if (whyNoMetadata === null) {
    isMetadataShown = true;
    await step("start the metadata listener and server: VMs may ask 169.254.169.254 who they are", () =>
      playground.startMetadata(),
    );

    await step("apply a network with metadata, and a VM's claim with the files that it names", async () => {
      await show("apply", "secret", "vm2", "--from-file", bootDirectory);
      await show("apply", "-f", metadataFile);
      await show("content");
    });

    await step("the VM fetches its instance ID through the bridge", async () => {
      const [address] = await add("vm2", "IgnoreUnknown=1;IPAM_CLAIM=default/vm2.tenantgreen", "green");
      const { uid } = vm2Claim.metadata.ownerReferences[0];
      const { uuid, name } = JSON.parse(await playground.fetch("vm2", "/openstack/latest/meta_data.json"));
      assert.deepEqual({ uuid, name }, { uuid: uid, name: "vm2" });
      const instanceId = await playground.fetch("vm2", "/latest/meta-data/instance-id");
      assert.match(instanceId, /^i-/);
      assert.equal(await playground.fetch("vm2", "/latest/meta-data/local-ipv4"), plain([address])[0]);
    });

    await step("the VM fetches what cloud-init looks for: user-data, its owner's key and a host name", async () => {
      const file = (name) => readFileSync(join(bootDirectory, name), "utf8");
      const [userData, key] = [file("user-data"), file("authorized_keys").trim()];
      assert.equal(await playground.fetch("vm2", "/openstack/latest/user_data"), userData);
      assert.equal(await playground.fetch("vm2", "/nocloud/user-data"), userData);
      assert.equal(await playground.fetch("vm2", "/latest/meta-data/public-keys/0/openssh-key"), key);
      assert.equal(await playground.fetch("vm2", "/latest/meta-data/local-hostname"), "vm2.example.org");
      await del("vm2", "", "green");
    });
  } else {
    say();
    say(`The metadata service is left out: ${whyNoMetadata}.`);
  }
} catch (error) {
  playground.fail(error);
}

const left = await playground.cleanUp();
if (left.length > 0) {
  say();
  say("NOT removed:");
  for (const line of left) say(`  ${line}`);
  process.exitCode = 1;
} else if (process.exitCode === undefined) {
  const [ipv4, ipv6] = plain(vm);
  say();
  say("What was proved:");
  say(`  - The VM kept ${ipv4} and ${ipv6} across stop, crash and start; nobody else could get them.`);
  say("  - Its claim's deletion gave them back: the next container got them.");
  if (isMetadataShown) say("  - A VM found its identity, user-data, key and host name at 169.254.169.254.");
  say("Everything is removed again: processes, network namespaces, bridges, rules and files. Packages stay.");
  say();
  say("Next:");
  say("  make test                  its tests, some minutes");
  say('  sudo make install          then README.md, "Your first network on one node"');
  say("  holdfast ui                as a page in your browser, once it is installed");
  say("  less docs/kubernetes.md    how it serves a cluster with KubeVirt");
} else {
  say("Everything is removed again.");
}
