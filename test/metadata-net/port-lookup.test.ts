import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { run } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { mustRun, whyNotReal } from "../network/containers.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";

describe.skipIf(whyNotReal() !== null)("the port of an attachment", () => {
  let node: NetNode;
  let vm: PortGuest;
  beforeEach(async () => {
    node = await NetNode.start();
    vm = await node.guest(null, "10.30.0.5/24");
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  const subject = async (guest: PortGuest) =>
    (await guest.ask("/", ["--max-time", "20"])).echo.headers[LISTENER_HEADERS.subject] ?? "";
  const key = (guest: PortGuest, name = "eth0") => `container-${guest.namespace} ${name}`;

  /** A link of the pod gets another name and MAC; another kind of link has what it had. */
  async function takeOver(guest: PortGuest, name: string): Promise<void> {
    await batch(
      [
        `link set ${name} down`,
        `link set ${name} name ${name}-nic address 02:00:00:00:99:99`,
        `link set ${name}-nic up`,
        `link add ${name} address ${guest.mac} type bridge`,
      ],
      guest.namespace,
    );
  }

  test("is found after KubeVirt took its interface over, and has the MAC that KubeVirt gives to the guest", async () => {
    await batch(["link set eth0 down", "link set eth0 name net1"], vm.namespace);
    await takeOver(vm, "net1");
    expect(await node.wanted(vm.on("blue", { interface: "net1" }))).toEqual({});
    const { ports } = JSON.parse((await node.mustRun("cat", [`${node.runDir}/ports.json`])).stdout);
    expect(Object.values(ports)).toMatchObject([{ mac: vm.mac, port: { link: vm.port } }]);
  });

  test("stays what it was when KubeVirt takes the interface over, also over a stop and a start", async () => {
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    const known = async () =>
      Object.values(JSON.parse((await node.mustRun("cat", [`${node.runDir}/ports.json`])).stdout).ports);
    const before = await known();
    await batch(["link set eth0 down", "link set eth0 name x address 02:00:00:00:99:99"], vm.namespace);
    await node.endNet("SIGTERM");
    node.startNet();
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    expect(await known()).toEqual(before);
  });

  test("is waited for when its interface is made after the address was given", async () => {
    const namespace = vm.namespace;
    await mustRun("ip", ["link", "delete", vm.port]);
    expect(await node.wanted(vm.on("blue"))).toEqual({
      [key(vm)]: expect.stringMatching(/^pending: there is no interface eth0 .* not made yet/),
    });
    await mustRun("ip", ["link", "add", vm.port, "type", "veth", "peer", "name", "eth0", "netns", namespace]);
    await until(
      () => Object.keys(node.problems()).length === 0,
      () => JSON.stringify(node.problems()),
      10_000,
    );
  });

  test("is refused with the reason where frames have no way by the node", async () => {
    const other = await node.guest(null, "10.30.0.6/24");
    await mustRun("ip", ["link", "delete", other.port]);
    await mustRun("ip", ["-n", other.namespace, "link", "add", "br0", "type", "bridge"]);
    const made = await run("ip", ["-n", vm.namespace, "link", "add", "mac0", "link", "eth0", "type", "macvlan"]);
    const wanted = [other.on("blue", { interface: "br0" }), vm.on("blue")];
    if (made.code === 0) wanted.push(vm.on("blue", { interface: "mac0" }));
    const problems = await node.wanted(...wanted);
    expect(problems[key(other, "br0")]).toBe(
      "final: br0 is of the kind bridge, which has no end on the node: frames of its guest cannot be taken there",
    );
    if (made.code === 0) expect(problems[key(vm, "mac0")]).toMatch(/^final: mac0 is a macvlan interface/);
    expect(problems[key(vm)]).toBeUndefined();
    expect(await subject(vm)).toContain(vm.namespace);
  });

  test("is not found at another port when a container copies that port's link indexes", async () => {
    const thief = await node.guest(null, "10.30.0.6/24");
    const { stdout } = await mustRun("ip", ["-json", "link", "show", "dev", vm.port]);
    const [host] = JSON.parse(stdout) as { ifindex: number; link_index: number }[];
    // In the container: a pair with the indexes of the victim's.
    const nested = `${thief.namespace}-in`;
    await mustRun("ip", ["netns", "add", nested]);
    try {
      await mustRun("ip", ["link", "delete", thief.port]);
      const ends = `link add fake index ${host?.link_index} type veth peer name p index ${host?.ifindex} netns ${nested}`;
      await batch([ends], thief.namespace);
      await batch(["link set fake name eth0"], thief.namespace);
      const problems = await node.wanted(thief.on("red", { mac: vm.mac }));
      expect(problems).toEqual({ [key(thief)]: "pending: the other end of eth0 is not on the node" });
      await pause(500);
      expect((await vm.ask("/", ["--max-time", "1"])).status).toBe(0);
      expect(await node.wanted(thief.on("red", { mac: vm.mac }), vm.on("blue"))).toEqual(problems);
      await until(async () => (await subject(vm)).includes(vm.namespace), "the guest to be served");
    } finally {
      await run("ip", ["netns", "delete", nested]);
    }
  });

  test("of a slow container delays no other one", async () => {
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    const slow = await node.guest(null, "10.30.0.6/24");
    const links = Array.from({ length: 700 }, (_, at) => `link add m${at} type veth peer name n${at}`);
    await batch(["link set eth0 down", "link set eth0 name x1", ...links], slow.namespace);
    const other = await node.guest(null, "10.30.0.7/24");
    const problems = await node.wanted(vm.on("blue"), slow.on("blue"), other.on("blue"));
    expect(Object.keys(problems).filter((one) => one !== key(slow))).toEqual([]);
    for (const guest of [vm, other]) expect(await subject(guest)).toContain(guest.namespace);
  });
});
