import type { KubeObject } from "../kube-api.ts";
import { altered, changed, type Written } from "./objects.ts";

const OWNER = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachine",
  name: "vm",
  uid: "1",
  controller: true,
};
const FOLLOWED = "ipam.holdfast.dev/followed";
const ASKED = "blue 10.0.0.5/24 -> blue 10.0.0.9/24";
const OPEN = "blue 10.0.0.5/24 -> red 10.9.0.7/24";

const METADATA = /metadata of a claim stays/;
const SPEC = /of the spec of a claim a node changes the network only/;
const WHERE = /a claim that is moved says where it was/;
const FORMER = /what a claim says that it had before changes when it is moved only/;

/** `withIps` is a claim of network blue. */
export function claimNetworks(withIps: (...ips: string[]) => object): readonly [string, Written, RegExp | null][] {
  const owned = (...ips: string[]) =>
    altered(withIps(...ips), ({ metadata }) => {
      metadata.ownerReferences = [OWNER];
      metadata.annotations = { note: "mine" };
    });
  const moved = (object: object, annotation: string | null, network = "red") =>
    altered(object, ({ metadata, spec }) => {
      spec.network = network;
      if (annotation !== null) metadata.annotations = { ...metadata.annotations, [FOLLOWED]: annotation };
    });
  const noted = (object: object, annotation: string) => moved(object, annotation, "blue");
  const listing = (object: object, ...ips: string[]) =>
    altered(object, ({ status }) => {
      status.ips = ips;
    });
  const blue = owned("10.0.0.5/24");
  const open = moved(blue, OPEN);
  const written = listing(open, "10.9.0.7/24");
  const closed = moved(written, "blue 10.0.0.5/24");
  const nobodys = withIps("10.0.0.5/24");
  const also = (change: (copy: KubeObject) => void) => ({ before: blue, after: altered(open, change) });
  return [
    ["have a claim follow its VM", { before: blue, after: open }, null],
    ["have one without addresses follow", { before: owned(), after: moved(owned(), null) }, null],
    ["close the change", { before: written, after: closed }, null],
    ["have one go back", { before: closed, after: moved(closed, "red 10.9.0.7/24 -> blue 10.0.0.5/24", "blue") }, null],
    [
      "have one go on before its list is written",
      { before: open, after: moved(open, "red 10.9.0.7/24 -> green 10.7.0.2/24", "green") },
      null,
    ],
    [
      "use a token that is bound to no node",
      { node: null, before: blue, after: open },
      /the token is not bound to a node/,
    ],
    ["move a claim of no VM", { before: nobodys, after: moved(nobodys, OPEN) }, /only the claim of a VM is moved/],
    [
      "change the interface",
      also(({ spec }) => {
        spec.interface = "net2";
      }),
      SPEC,
    ],
    [
      "add a label",
      changed(blue, ({ metadata }) => {
        metadata.labels = { x: "y" };
      }),
      METADATA,
    ],
    [
      "take the owner away",
      also(({ metadata }) => {
        delete metadata.ownerReferences;
      }),
      METADATA,
    ],
    [
      "keep one for ever by a finalizer",
      changed(blue, ({ metadata }) => {
        metadata.finalizers = ["evil.example/x"];
      }),
      METADATA,
    ],
    [
      "change another annotation",
      also(({ metadata }) => {
        metadata.annotations.note = "yours";
      }),
      METADATA,
    ],
    [
      "take another annotation away",
      also(({ metadata }) => {
        delete metadata.annotations.note;
      }),
      METADATA,
    ],
    ["move one without a word", { before: blue, after: moved(blue, null) }, WHERE],
    ["move one that was elsewhere", { before: blue, after: moved(blue, OPEN.replace("blue", "green")) }, WHERE],
    ["move one that had something else", { before: blue, after: moved(blue, OPEN.replace("0.5", "0.6")) }, WHERE],
    ["move one to another network than it says", { before: blue, after: moved(blue, OPEN, "green") }, WHERE],
    ["say that one had something", { before: owned(), after: moved(owned(), OPEN) }, WHERE],
    ["say so of one that stays", { before: blue, after: noted(blue, OPEN) }, WHERE],
    ["say something of one that stays", { before: blue, after: noted(blue, "green 10.7.0.2/24") }, FORMER],
    ["move one to what its VM asks for", { before: blue, after: noted(blue, ASKED) }, null],
    [
      "move it on before its list is written",
      { before: noted(blue, ASKED), after: noted(blue, "blue 10.0.0.9/24 -> blue 10.0.0.8/24") },
      null,
    ],
    [
      "move one of no VM to other addresses",
      { before: nobodys, after: noted(nobodys, ASKED) },
      /only the claim of a VM is moved/,
    ],
    [
      "move one to other addresses that had something else",
      { before: blue, after: noted(blue, ASKED.replace("0.5", "0.6")) },
      WHERE,
    ],
    ["close a change whose list is not written", { before: open, after: moved(open, "blue 10.0.0.5/24") }, FORMER],
    ["close it with something else", { before: written, after: moved(written, "blue 10.0.0.6/24") }, FORMER],
  ];
}
