import type { KubeObject } from "../harness/kube-api.ts";

const SINCE = "2026-11-21T10:00:00.000Z";

/** An allocation with every field set. */
export const SAMPLE: KubeObject = {
  apiVersion: "ipam.holdfast.dev/v1alpha1",
  kind: "IPAllocation",
  metadata: { name: "blue.192.168.10.5" },
  spec: {
    network: "blue",
    address: "192.168.10.5/24",
    owner: { kind: "IPAMClaim", namespace: "tenant", name: "vm1.blue", uid: "c-1", interface: "net1" },
    vm: { name: "vm1", uid: "v-1" },
    mac: "02:00:00:00:00:01",
  },
  status: {
    state: "Bound",
    since: SINCE,
    node: "node-1",
    attachments: {
      "sandbox-1/net1": {
        node: "node-1",
        pod: { namespace: "tenant", name: "virt-launcher-vm1", uid: "p-1" },
        since: SINCE,
      },
    },
  },
};

/** How its row reads. */
export const LEDGER_COLUMNS = {
  Name: "blue.192.168.10.5",
  Network: "blue",
  Address: "192.168.10.5/24",
  State: "Bound",
  Kind: "IPAMClaim",
  Namespace: "tenant",
  Owner: "vm1.blue",
  VM: "vm1",
  Node: "node-1",
  Since: SINCE,
  Until: null,
  UID: "c-1",
  MAC: "02:00:00:00:00:01",
};

/** Two more than 64 bits can count. */
const HUGE = "18446744073709551618";

export const NETWORK: KubeObject = {
  apiVersion: "ipam.holdfast.dev/v1alpha1",
  kind: "IPNetwork",
  metadata: { name: "blue" },
  spec: { network: "blue", definedIn: "shop" },
  status: {
    subnets: "192.168.10.0/24,fd10::/63",
    definedBy: "tenant/blue",
    size: HUGE,
    allocated: "1",
    retained: "2",
    cooling: "0",
    free: HUGE,
    conditions: [
      {
        type: "Other",
        status: "False",
        lastTransitionTime: "2026-11-21T10:00:00Z",
        reason: "No",
        message: "",
      },
      {
        type: "Imported",
        status: "True",
        lastTransitionTime: "2026-11-21T10:00:00Z",
        reason: "Done",
        message: "",
      },
    ],
  },
};

export const NETWORK_COLUMNS = {
  Network: "blue",
  Owner: "shop",
  Subnets: "192.168.10.0/24,fd10::/63",
  Size: HUGE,
  Allocated: "1",
  Retained: "2",
  Cooling: "0",
  Free: HUGE,
  Imported: "True",
};

/** Changes that make the sample invalid. */
export const WRONG: readonly { what: string; change: (object: KubeObject) => KubeObject }[] = [
  { what: "no spec", change: ({ spec: _, ...rest }) => rest },
  { what: "no owner", change: (object) => without(object, "owner") },
  { what: "no network", change: (object) => without(object, "network") },
  { what: "an empty network", change: (object) => withSpec(object, { network: "" }) },
  { what: "no address", change: (object) => without(object, "address") },
  {
    what: "an owner without UID",
    change: (object) => withSpec(object, { owner: { kind: "Pod", name: "p" } }),
  },
  {
    what: "an owner with an empty UID",
    change: (object) => withSpec(object, { owner: { kind: "Pod", uid: "" } }),
  },
  { what: "an owner without kind", change: (object) => withSpec(object, { owner: { uid: "u" } }) },
  {
    what: "an unknown kind of owner",
    change: (object) => withSpec(object, { owner: { kind: "Service", uid: "u" } }),
  },
  {
    what: "an unknown state",
    change: (object) => ({ ...object, status: { ...object.status, state: "Lost" } }),
  },
  {
    what: "an attachment that is no object",
    change: (object) => ({ ...object, status: { ...object.status, attachments: { a: "b" } } }),
  },
];

function withSpec(object: KubeObject, change: object): KubeObject {
  return { ...object, spec: { ...object.spec, ...change } };
}

function without(object: KubeObject, field: string): KubeObject {
  const { [field]: _, ...spec } = object.spec;
  return { ...object, spec };
}
