import { expect, test } from "vitest";
import { RefusalError } from "../../ipam/refusals.ts";
import { NetworkReservations, RESERVATIONS_ANNOTATION } from "../../networks/network-reservations.ts";
import { define } from "../ipam/definitions.ts";

const MAC = "02:00:00:00:00:01";
const object = (text: string) => ({
  metadata: {
    name: "blue",
    uid: "u",
    resourceVersion: "1",
    annotations: { [RESERVATIONS_ANNOTATION]: text },
  },
});

function within(text: string, more: object = {}) {
  const lists = new NetworkReservations();
  const definition = define({ subnets: "10.0.0.0/24", ...more });
  lists.set(definition.name, object(text));
  return lists.within(definition);
}

test("the list adds to what the configuration reserves, as if it stood there", () => {
  const [one, two] = [
    { mac: MAC, ips: ["10.0.0.5"] },
    { mac: "02:00:00:00:00:02", ips: ["10.0.0.6"] },
  ];
  const both = within(JSON.stringify([two]), { reservations: [one] });
  const inOne = define({ subnets: "10.0.0.0/24", reservations: [one, two] });
  expect(both.fingerprint).toBe(inOne.fingerprint);
  expect(both.rangeSets[0]?.automatic.size).toBe(252n);
});

test.each([
  ["no JSON", "[", 'is [0-9a-zA-Z\' ]+.*: expected JSON: \\[\\{"mac"'],
  ["no list", "{}", "is {}: expected a list of at most 10000"],
  ["no object", "[1]", "blue\\[0\\] is 1: expected"],
  ["another key", `[{"mac":"${MAC}","ip":"10.0.0.5"}]`, "blue\\[0\\].ip "],
  ["no MAC", '[{"mac":"x","ips":["10.0.0.5"]}]', 'blue\\[0\\].mac is "x": expected a MAC address'],
  ["outside", `[{"mac":"${MAC}","ips":["10.9.0.5"]}]`, 'blue\\[0\\].ips\\[0\\] is "10.9.0.5": it is in no subnet'],
])("%s", (_, text, message) => {
  expect(() => within(text)).toThrow(RefusalError);
  expect(() => within(text)).toThrow(
    new RegExp(`^annotation ${RESERVATIONS_ANNOTATION} of IPNetwork blue.*${message}|${message}`),
  );
});

test("an address or a MAC that the configuration has already is named", () => {
  const reservations = [{ mac: MAC, ips: ["10.0.0.5"] }];
  const second = (mac: string, ip: string) => JSON.stringify([{ mac, ips: [ip] }]);
  expect(() => within(second("02:00:00:00:00:02", "10.0.0.5"), { reservations })).toThrow(`${MAC} has it already`);
  expect(() => within(second(MAC, "10.0.0.7"), { reservations })).toThrow("it has an entry already");
});

test("without the annotation, or without an object, a definition stays itself", () => {
  const lists = new NetworkReservations();
  const definition = define({ subnets: "10.0.0.0/24" });
  for (const one of [null, object(" "), { metadata: { name: "blue", uid: "u", resourceVersion: "1" } }]) {
    lists.set(definition.name, object(JSON.stringify([{ mac: MAC, ips: ["10.0.0.5"] }])));
    expect(lists.within(definition)).not.toBe(definition);
    lists.set(definition.name, one);
    expect(lists.within(definition)).toBe(definition);
  }
});

test("a list of thousands is read once for a definition", () => {
  const list = Array.from({ length: 4_000 }, (_, at) => ({
    mac: `02:00:00:00:${(at >> 8).toString(16).padStart(2, "0")}:${(at & 255).toString(16).padStart(2, "0")}`,
    ips: [`10.0.${(at >> 8) + 1}.${at & 255}`],
  }));
  const text = JSON.stringify(list);
  const lists = new NetworkReservations();
  const definition = define({ subnets: "10.0.0.0/16" });
  lists.set(definition.name, object(text));
  const read = lists.within(definition);
  lists.set(definition.name, object(text));
  expect(lists.within(definition)).toBe(read);
  expect(read.reservations?.macs.size).toBe(4_000);
});
