import { describe, expect } from "vitest";
import { untilSaid } from "../harness/wait.ts";
import { addressesOf, errorOf, held, network, pod, test, testWith } from "./fixtures.ts";
import { apply, claim, claimNamed, claims, conditionOf, withClaim } from "./manifests.ts";

/** How an interface names its claim, and which claims it may name. */

const BLUE = network("blue", {}, { allowPersistentIPs: true });
const INFRA = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=virt-1;K8S_POD_UID=uid-1";
const HELD = [expect.stringMatching(/ Bound claim default\/vm1$/)];

describe("a claim reference is read", () => {
  const FORMS: [string, object, string][] = [
    ["by its bare name in args.cni", withClaim("vm1"), INFRA],
    ["with its namespace in args.cni", withClaim("default/vm1"), INFRA],
    ["by its bare name in CNI_ARGS", BLUE, `${INFRA};IPAM_CLAIM=vm1`],
    ["with its namespace in CNI_ARGS", BLUE, `${INFRA};IPAM_CLAIM=default/vm1`],
    ["in CNI_ARGS alone, without any pod: cnitool, nerdctl", BLUE, "IPAM_CLAIM=default/vm1"],
    ["by its bare name without any pod: the namespace is default", BLUE, "IPAM_CLAIM=vm1"],
    ["in both: args.cni counts", withClaim("vm1"), `${INFRA};IPAM_CLAIM=other`],
    ["in CNI_ARGS, with an empty text in args.cni", withClaim(""), `${INFRA};IPAM_CLAIM=vm1`],
    ["in CNI_ARGS, with null in args.cni", withClaim(null), `${INFRA};IPAM_CLAIM=vm1`],
  ];
  test.for(FORMS)("%s", async ([, config, args], { daemon }) => {
    await apply(daemon, claim("vm1"));
    addressesOf(await daemon.cni("ADD", "c1", { config, args }));
    expect(await held(daemon, "blue")).toEqual(HELD);
  });

  test("in the pod's own namespace, where another namespace has a claim of the same name", async ({ daemon }) => {
    await apply(daemon, claim("vm1"), claim("vm1", {}, { metadata: { name: "vm1", namespace: "shop" } }));
    const args = INFRA.replace("=default", "=shop");
    addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args }));
    expect(await held(daemon, "blue")).toEqual([expect.stringContaining("Bound claim shop/vm1")]);
  });
});

describe("a claim reference is refused with 7", () => {
  const FAULTY: [string, object, string, string][] = [
    [
      "a claim of another namespace",
      withClaim("shop/vm1"),
      INFRA,
      "the pod in namespace default refers to IPAMClaim shop/vm1",
    ],
    [
      "the same in CNI_ARGS",
      BLUE,
      `${INFRA};IPAM_CLAIM=shop/vm1`,
      "the pod in namespace default refers to IPAMClaim shop/vm1",
    ],
    ["three parts", withClaim("a/b/c"), INFRA, 'args.cni.ipam-claim-reference is "a/b/c"'],
    ["an empty name", withClaim("default/"), INFRA, 'args.cni.ipam-claim-reference is "default/"'],
    ["an empty namespace", withClaim("/vm1"), INFRA, 'args.cni.ipam-claim-reference is "/vm1"'],
    ["a name that no object can have", BLUE, `${INFRA};IPAM_CLAIM=VM_1`, 'CNI_ARGS IPAM_CLAIM is "VM_1"'],
    ["a number", withClaim(7), INFRA, "args.cni.ipam-claim-reference is 7"],
    ["a list", withClaim(["vm1"]), INFRA, 'args.cni.ipam-claim-reference is ["vm1"]'],
    ["args that is no object", { ...BLUE, args: "vm1" }, INFRA, 'args is "vm1"'],
    ["args.cni that is no object", { ...BLUE, args: { cni: [] } }, INFRA, "cni is []"],
  ];
  test.for(FAULTY)("%s", async ([, config, args, message], { daemon }) => {
    await apply(daemon, claim("vm1"));
    const error = errorOf(await daemon.cni("ADD", "c1", { config, args }));
    expect(error).toMatchObject({ code: 7, msg: expect.stringContaining(message) });
    expect(await held(daemon, "blue")).toEqual([]);
  });
});

describe("a claim and its network", () => {
  test("a claim of another network is refused with a condition, and stays without addresses", async ({ daemon }) => {
    await apply(daemon, claim("vm1", { network: "red" }));
    const error = errorOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: INFRA }));
    expect(error).toMatchObject({
      code: 125,
      msg: expect.stringMatching(/for network red.*on network blue/),
    });
    expect(await conditionOf(daemon, "vm1")).toBe("False NetworkNotFound");
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual([]);
    expect(await held(daemon, "blue")).toEqual([]);
  });

  test("on a network without allowPersistentIPs the pod gets a plain address, and the claim a condition", async ({
    daemon,
  }) => {
    await apply(daemon, claim("vm1"));
    const config = withClaim("vm1", {}, { allowPersistentIPs: false });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config, args: INFRA }))).toEqual(["10.10.0.1/24"]);
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound pod default/virt-1 (eth0)"]);
    expect(await conditionOf(daemon, "vm1")).toBe("False PersistenceNotAllowed");
    await untilSaid(() => daemon.log, "claim default/vm1 is ignored: network blue does not set allowPersistentIPs");
    await daemon.cni("DEL", "c1", { config });
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Cooling pod default/virt-1 (eth0)"]);
  });

  const hasty = testWith("--add-deadline-ms", "100");
  hasty(
    "a network without allowPersistentIPs gives no address while the named claim does not exist",
    async ({ daemon }) => {
      const config = withClaim("vm1", {}, { allowPersistentIPs: false });
      expect(errorOf(await daemon.cni("ADD", "c1", { config, args: INFRA }))).toMatchObject({ code: 11 });
      expect(await claims(daemon)).toEqual([]);
      expect(await held(daemon, "blue")).toEqual([]);
    },
  );

  test("an ADD with another claim for the same container gets that claim's addresses", async ({ daemon }) => {
    await apply(daemon, claim("vm1"), claim("vm2"));
    const [first] = addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: INFRA }));
    const [second] = addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm2"), args: INFRA }));
    expect(new Set(await held(daemon, "blue"))).toEqual(
      new Set([`${first} Bound claim default/vm1`, `${second} Bound claim default/vm2`]),
    );
    const { items } = (await daemon.get("/v1/allocations?claim=vm1")).json();
    expect(items[0].attachments).toEqual([]);
  });

  test("the network of a claim can be changed before its first use, and not while it holds addresses", async ({
    daemon,
  }) => {
    await apply(daemon, claim("vm1", { network: "red" }));
    expect(await apply(daemon, claim("vm1"))).toEqual(["configured"]);
    await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") });
    const answer = await daemon.post("/v1/apply", { objects: [claim("vm1", { network: "red" })] });
    expect(answer.json().results).toMatchObject([
      { error: { message: expect.stringContaining("holds addresses of network blue") } },
    ]);
  });
});
