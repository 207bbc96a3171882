import { expect, test, vi } from "vitest";
import { parsePassed } from "../../ipam/definition/definition-keys.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import * as written from "../../ipam/space/written.ts";

// Whoever may write a network chooses how it is spelled. No definition keeps the event loop for longer than 50 ms, and
// reading its short lists with ip-num takes no more than the definition takes by itself. Both in processor time of the
// thread.

/** What the plugin binary passes on at most. */
const CONF_CHARS = 512 * 1024;
const TURN_MS_MAX = 50;
/**
 * The same in units of work, of which each takes 8 to 9 ms at rest: on a machine that is slower, or shares its
 * processor with others.
 */
const TURN_UNITS_MAX = 6;
const UNIT_ENTRIES = 5_000;
const LIBRARY_TIMES_MAX = 2;
/** Of each reader in one measurement: ticks of the system's clock are as nothing beside it. */
const MEASURED_MS = 200;
const ATTEMPTS_MAX = 5;

const hex = (value: number) => value.toString(16);
const list = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => of(i));
const mac = (index: number) =>
  (0x020000000000 + index)
    .toString(16)
    .padStart(12, "0")
    .replace(/..(?!$)/g, "$&:");
const long = (index: number) => list(8, (at) => (at === 7 ? index : 0xfd00).toString(16).padStart(4, "0")).join(":");
const subnets = "fd00::/16";
const eight = {
  ranges: list(8, (i) => [
    {
      subnet: `FD00:${i}::0.0.0.0/64`,
      rangeStart: `FD00:${i}::0.0.0.9`,
      rangeEnd: `FD00:${i}::0.1.0.0`,
      gateway: "fe80::1",
    },
  ]),
  excludeSubnets: list(8, (i) => `FD00:${i}::0.0.0.17/128`),
  reservedSubnets: list(8, (i) => `FD00:${i}::0.0.0.18/128`),
};
const ranges = (perSet: number, sets = 16) =>
  list(sets, (set) =>
    list(perSet, (i) => ({
      subnet: `fd00:${hex(set + 1)}:${hex(i)}::/64`,
      rangeStart: `fd00:${hex(set + 1)}:${hex(i)}::2`,
      rangeEnd: `fd00:${hex(set + 1)}:${hex(i)}::fffe`,
      gateway: `fd00:${hex(set + 1)}:${hex(i)}::1`,
    })),
  );

const SHAPES: Readonly<Record<string, object>> = {
  "lists that ip-num reads, and nothing else": eight,
  "excluded addresses": { subnets, excludeSubnets: list(10_000, (i) => `fd00::1:${hex(2 * i)}/128`).join() },
  "excluded addresses, written out": {
    subnets,
    excludeSubnets: list(10_000, (i) => `${long(2 * i)}/128`).join(),
  },
  "excluded addresses with dotted tails": {
    subnets,
    excludeSubnets: list(10_000, (i) => `FD00::${hex(i)}:0.0.0.1/128`).join(),
  },
  "excluded addresses of IPv4": {
    subnets: "10.0.0.0/8",
    excludeSubnets: list(10_000, (i) => `10.1.${i >> 7}.${(2 * i) & 255}/32`).join(),
  },
  "excluded addresses outside": {
    subnets,
    excludeSubnets: list(10_000, (i) => `fe00::1:${hex(2 * i)}/128`).join(),
  },
  "excluded and reserved addresses": {
    subnets,
    excludeSubnets: list(6_000, (i) => `fd00::1:${hex(2 * i)}/128`),
    reservedSubnets: list(6_000, (i) => `fd00::2:${hex(2 * i)}/128`),
  },
  "excluded and reserved addresses, reservations and ranges": {
    ranges: ranges(32),
    excludeSubnets: list(4_800, (i) => `fd00:10:1f::${hex(0x3000 + 2 * i)}/128`).join(),
    reservedSubnets: list(4_800, (i) => `fd00:10:1f::${hex(0x8000 + 2 * i)}/128`).join(),
    reservations: list(2_400, (i) => ({ mac: mac(i), ips: [`fd00:10:1f::${hex(i + 2)}`] })),
  },
  "addresses reserved in the last subnet": {
    subnets: list(16, (i) => `fd00:${hex(i)}::/64`).join(),
    reservedSubnets: list(10_000, (i) => `fd00:f::1:${hex(2 * i)}/128`).join(),
  },
  reservations: { subnets, reservations: list(9_000, (i) => ({ mac: mac(i), ips: [`fd00::1:${hex(i)}`] })) },
  "reservations of sixteen addresses": {
    subnets: list(16, (i) => `${hex(i + 1)}::/64`).join(),
    reservations: list(625, (i) => ({ mac: mac(i), ips: list(16, (at) => `${hex(at + 1)}::${hex(i + 2)}`) })),
  },
  ranges: { ranges: ranges(32) },
  "ranges of one set": { ranges: ranges(512, 1) },
  "ranges and excluded addresses": {
    ranges: ranges(32),
    excludeSubnets: list(10_000, (i) => `fd00:10:1f::1:${hex(2 * i)}/128`),
  },
  "keys that nobody reads": {
    subnets,
    plugin: Object.fromEntries(list(10_000, (i) => [`k${i}`, { [`k${i}`]: i }])),
  },
  "ranges and reservations": {
    ranges: ranges(32),
    reservations: list(7_500, (i) => ({ mac: mac(i), ips: [`fd00:10:1f::${hex(i + 2)}`] })),
  },
};

function configuration({ plugin = {}, ...ipam }: { readonly plugin?: object }): string {
  const text = JSON.stringify({
    cniVersion: "1.0.0",
    name: "blue",
    type: "bridge",
    ...plugin,
    ipam: { type: "holdfast-ipam", ...ipam },
  });
  expect(text.length).toBeLessThanOrEqual(CONF_CHARS);
  return `${text.slice(0, -1)}${" ".repeat(CONF_CHARS - text.length)}}`;
}

function cpuMs(work: () => unknown): number {
  const from = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(from);
  return (user + system) / 1_000;
}

const readerFor = vi.spyOn(written, "readerFor");
/** Work of the same kind as reading: objects, texts, numbers and a table of them. */
function unit(): void {
  const texts = JSON.parse(JSON.stringify(list(UNIT_ENTRIES, (i) => ({ mac: mac(i), ips: [`fd00::${hex(i)}`] }))));
  const table = new Map<string, bigint>();
  for (const { mac: key, ips } of texts) table.set(`${key} ${ips}`, BigInt(`0x${key.replaceAll(":", "")}`) << 64n);
  if ([...table.keys()].sort().length !== UNIT_ENTRIES) throw new Error("two are the same");
}

/** By turns, so that what else the machine does is the same for all. Means, ms. */
function measure(text: string): { readonly turn: number; readonly fast: number; readonly work: number } {
  const sums = { turn: 0, fast: 0, work: 0 };
  const read = () => parsePluginConfig(parsePassed(text));
  let rounds = 0;
  for (; sums.fast < MEASURED_MS; rounds += 1) {
    readerFor.mockReset();
    sums.turn += cpuMs(read);
    readerFor.mockReturnValue(written.FAST);
    sums.fast += cpuMs(read);
    sums.work += cpuMs(unit);
  }
  return { turn: sums.turn / rounds, fast: sums.fast / rounds, work: sums.work / rounds };
}

test.each(Object.entries(SHAPES))("%s: no turn above 50 ms, and ip-num at most doubles it", (shape, ipam) => {
  const text = configuration(ipam);
  // Compiled, as in a process that has read some definitions.
  measure(text);
  let [turns, times] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let attempt = 0; attempt < ATTEMPTS_MAX && (turns > 1 || times > LIBRARY_TIMES_MAX); attempt += 1) {
    const { turn, fast, work } = measure(text);
    turns = Math.min(turns, turn / Math.max(TURN_MS_MAX, TURN_UNITS_MAX * work));
    times = Math.min(times, turn / fast);
    if (process.env.HOLDFAST_TEST_MEANWHILE === "print")
      console.info(
        `${shape}: ${turn.toFixed(1)} ms, ${times.toFixed(2)} times ${fast.toFixed(1)} ms; a unit ${work.toFixed(1)} ms`,
      );
  }
  expect(turns, "of the longest turn").toBeLessThanOrEqual(1);
  expect(times, "times the fast reader's").toBeLessThanOrEqual(LIBRARY_TIMES_MAX);
});
