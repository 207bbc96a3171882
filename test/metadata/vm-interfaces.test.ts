import { describe, expect, test } from "vitest";
import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";
import { projectVmi } from "../../kube/views/vmi-view.ts";
import { guestLinks } from "../../metadata/documents/guest-network.ts";
import { metaDataJson } from "../../metadata/documents/meta-data-json.ts";
import { networkConfig } from "../../metadata/documents/network-config.ts";
import { networkData } from "../../metadata/documents/network-data.ts";
import { OPENSTACK_VERSIONS } from "../../metadata/documents/openstack-versions.ts";
import { instanceOf } from "../../metadata/tenant/instance-of.ts";
import { describeUnconfigured, linksOf } from "../../metadata/tenant/vm-links.ts";
import { guestOf, identityOf, MACS, NOTHING, OWNERS, type OwnerOfNetwork, vmiOf } from "./vm-interfaces.ts";

function permutations<T>(all: readonly T[]): T[][] {
  if (all.length === 0) return [[]];
  return all.flatMap((one, at) => permutations(all.toSpliced(at, 1)).map((rest) => [one, ...rest]));
}

const subsets = Array.from({ length: 1 << OWNERS.length }, (_, bits) =>
  OWNERS.filter((_owner, at) => bits & (1 << at)),
);
/** Every VM that has an interface of ours, with its interfaces in each order. */
const VMS = subsets.filter((owners) => owners.includes("blue")).flatMap(permutations);

describe("each interface of a VM is a link of each document, whoever owns its network", () => {
  test.each(VMS.map((owners) => [owners.join(", "), owners] as const))("%s", (_name, owners) => {
    const { instance, identity, links } = guestOf(owners);
    const macs = owners.map((owner) => MACS[owner]);
    const data = networkData(instance);
    expect(data.links.map(({ ethernet_mac_address: mac }) => mac)).toEqual(macs);
    const config = networkConfig(instance) as {
      ethernets: Record<string, { match: { macaddress: string } }>;
    };
    expect(Object.values(config.ethernets).map(({ match }) => match.macaddress)).toEqual(macs);
    for (const version of OPENSTACK_VERSIONS) {
      const { devices } = metaDataJson(instance, version, null) as { devices?: { mac: string }[] };
      if (devices !== undefined) expect(devices.map(({ mac }) => mac)).toEqual(macs);
    }
    const typesOf = (owner: OwnerOfNetwork) =>
      data.networks.filter(({ link }) => link === owner).map(({ type }) => type);
    const expected = { default: ["ipv4_dhcp"], blue: ["ipv4", "ipv6"], red: ["ipv4"], data: [] };
    for (const owner of owners) expect(typesOf(owner)).toEqual(expected[owner]);
    // Exactly one of each family: that of the pod network's DHCP server, else the first of ours.
    const defaults = (link: string) =>
      guestLinks(instance)
        .filter(({ id }) => id === link)
        .flatMap(({ routes }) => routes.filter(({ destination }) => destination.prefixLength === 0));
    const families = owners.flatMap((owner) => defaults(owner).map(({ destination }) => destination.family));
    const byDhcp = owners.includes("default");
    expect(families.toSorted()).toEqual(primaryFamilies(owners).filter((one) => one === 6 || !byDhcp));
    const problem = describeUnconfigured(identity.interfaces, links);
    if (owners.includes("data")) expect(problem).toContain("data (NetworkAttachmentDefinition shop/data): ");
    else expect(problem).toBeNull();
  });
});

/** Of the first of ours with a gateway. */
function primaryFamilies(owners: readonly OwnerOfNetwork[]): number[] {
  const first = owners.find((owner) => owner === "blue" || owner === "red");
  return first === "red" ? [4] : [4, 6];
}

describe("an interface that cannot be told is named, and brings no route", () => {
  const told = (identity: IdentityView, vmi: object) => {
    const links = linksOf(projectVmi(vmi), identity);
    const instance = instanceOf(identity, { ...NOTHING, links });
    return { data: networkData(instance), problem: describeUnconfigured(identity.interfaces, links) };
  };
  const bothOf = (change: (vmi: ReturnType<typeof vmiOf>) => void) => {
    const vmi = vmiOf(["default", "blue"]);
    change(vmi);
    return told(identityOf(["default", "blue"]), vmi);
  };

  test("the pod network without a MAC: the default route is by ours", () => {
    const { data, problem } = bothOf(({ status }) => void status.interfaces.shift());
    expect(data.links.map(({ id }) => id)).toEqual(["blue"]);
    expect(data.networks[0]?.routes).toContainEqual({
      network: "0.0.0.0",
      netmask: "0.0.0.0",
      gateway: "192.168.10.1",
    });
    expect(problem).toContain("interface default: its MAC is not known");
  });

  test("two of one MAC", () => {
    const { data, problem } = bothOf(({ status: { interfaces } }) => {
      for (const one of interfaces) one.mac = MACS.blue;
    });
    expect(data.links).toHaveLength(1);
    expect(problem).toMatch(/interface (default|blue \(.*\)): its MAC is not known yet, or is another/);
  });

  test.each(["02:00:00:00:00", "02:00:00:00:00:00:00:01", "0200000000zz", `02:${"0".repeat(1_000)}`])(
    "a MAC of the VM that is none: %s",
    (mac) => {
      for (const isRunning of [true, false]) {
        const { data, problem } = bothOf(({ spec, status }) => {
          const [, blue] = spec.domain.devices.interfaces;
          if (blue === undefined) throw new Error("it has no interface of ours");
          Object.assign(blue, { macAddress: mac });
          if (isRunning) for (const one of status.interfaces) one.mac = one.name === "blue" ? mac : one.mac;
          else status.interfaces = status.interfaces.filter(({ name }) => name !== "blue");
        });
        expect(data.links.map(({ id }) => id)).toEqual(["default"]);
        expect(problem).toContain(
          `interface blue (NetworkAttachmentDefinition shop/blue) has MAC "${mac.slice(0, 14)}`,
        );
        expect(problem).toContain("no MAC address of an Ethernet interface");
        expect(problem?.length).toBeLessThan(500);
      }
    },
  );

  test("interfaces of which one has an address of ours, and nothing says which", () => {
    const identity = identityOf(["blue"]);
    const [own] = identity.interfaces as [IdentityInterface];
    const { data, problem } = told(
      {
        ...identity,
        interfaces: [{ ...own, interface: "net7", network: "other", mac: "02:00:00:00:00:77" }],
      },
      vmiOf(["default", "blue", "data"]),
    );
    expect(data.links.map(({ ethernet_mac_address: mac }) => mac)).toEqual([MACS.default, "02:00:00:00:00:77"]);
    expect(problem).toContain("interface blue (NetworkAttachmentDefinition shop/blue), data (");
    expect(problem).toContain("which of the VM's interfaces has which address is not known");
  });

  test("of many only some by name", () => {
    const identity = identityOf(["blue"]);
    const names = Array.from({ length: 9 }, (_, at) => `x${at}`);
    const vmi = vmiOf(["blue"]);
    vmi.spec.domain.devices.interfaces.push(...names.map((name) => ({ name })));
    expect(told(identity, vmi).problem).toContain("x0, x1, x2, x3, x4 and 4 more: its MAC");
  });
});
