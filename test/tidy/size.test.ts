import { expect, test } from "vitest";
import { read, tracked } from "./tracked.ts";

/** Of code and comments, as biome.json has it. */
const LINE_CHARS_MAX = 120;

/** Lines of the product that are not empty, by room: a bound that only falls. What raises one says why. */
const LINES_MAX: Readonly<Record<string, number>> = {
  cli: 4682,
  ui: 4517,
  controller: 9749,
  daemon: 1795,
  admin: 4200,
  cni: 821,
  metadata: 7337,
  guests: 8225,
  identity: 2250,
  imports: 966,
  claims: 3714,
  networks: 1660,
  store: 12333,
  allocations: 1897,
  kube: 5702,
  platform: 2630,
  ipam: 5232,
  "cni-shim": 1132,
};

const sources = tracked(/\.(tsx?|mjs|[ch])$/);
const linesOf = (file: string) => read(file).split("\n");

test("no room has more lines than before", () => {
  const counts = Object.keys(LINES_MAX).map((room) => {
    const files = sources.filter((file) => file.startsWith(`${room}/`) && /\.(tsx?|[ch])$/.test(file));
    const lines = files.flatMap(linesOf).filter((line) => line.trim() !== "");
    return [room, lines.length] as const;
  });
  const sum = counts.reduce((total, [, count]) => total + count, 0);
  console.info(`${sum} lines of the product: ${counts.map(([room, count]) => `${room} ${count}`).join(", ")}`);
  expect(counts.filter(([room, count]) => count > (LINES_MAX[room] as number))).toEqual([]);
});

test("comments are as wide as code, which the formatter breaks", () => {
  const isComment = /^\s*(\/\/|\/?\*)/;
  const wide = sources.flatMap((file) =>
    linesOf(file).flatMap((line, index) => {
      const isWide = line.length > LINE_CHARS_MAX && isComment.test(line) && !line.includes("biome-ignore");
      return isWide ? [`${file}:${index + 1}`] : [];
    }),
  );
  expect(wide).toEqual([]);
});
