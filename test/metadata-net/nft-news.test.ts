import { randomBytes } from "node:crypto";
import { afterEach, expect, test } from "vitest";
import { NftTable, TableNews } from "../../guests/drivers/nft/nft-table.ts";
import { chainText, elementsOf, type TableForm } from "../../guests/drivers/nft/ruleset.ts";
import { systemClock } from "../../platform/time.ts";
import { run } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";

const FORM: TableForm = {
  family: "netdev",
  sets: { address: { kind: "map", type: "ipv4_addr : mark", says: "A." } },
};
const NAME = `hft_${randomBytes(4).toString("hex")}`;

function heardOf(news: TableNews, text: string): readonly boolean[] {
  return text.split("\n").map((line) => news.heard(line));
}

test("nft monitor counts only other processes' changes of the table, once for each transaction", () => {
  const news = new TableNews({ family: "netdev", name: "t" });
  const count = (text: string) => heardOf(news, text).filter(Boolean).length;
  const [own] = news.mark();
  const end = "# new generation 7 by process 1 (nft)";
  expect(count(`delete rule netdev t guest handle 5\ndelete rule netdev t guest handle 6\n${end}`)).toBe(1);
  expect(count(`delete table netdev t\n${end}`)).toBe(1);
  expect(count(`add element netdev t address { 3 : 240.0.0.1 }\n${end}`)).toBe(1);
  expect(count(`add rule netdev t guest accept\n${own?.text}\n${end}`)).toBe(0);
  expect(count(`add rule netdev t_ports guest accept\nadd rule ip t guest accept\n${end}`)).toBe(0);
  expect(count(`${end}\n${end}`)).toBe(0);
  expect(count("# ERROR: We lost some netlink events!")).toBe(1);
});

const table = new NftTable(FORM, NAME);
afterEach(async () => {
  table.close();
  await table.remove();
});

test.skipIf(whyNotReal() !== null)(
  "its own changes and those in other tables are ignored, those of others are reported",
  async () => {
    let lost = 0;
    table.watch(systemClock, () => {
      lost += 1;
    });
    const bring = (rules: readonly string[], numbers: readonly number[]) =>
      table.sync(
        [],
        {
          links: [],
          build: () => ({
            chains: new Map([["a", chainText("a", "", rules)]]),
            elements: elementsOf(
              FORM,
              numbers.map((number) => ["address", `240.0.0.${number}`, String(number)]),
            ),
          }),
        },
        true,
      );
    const nft = async (...words: readonly string[]) => expect((await run("nft", words)).stderr).toBe("");
    const other = `${NAME}_other`;
    // Until it is heard what others do.
    await bring(["accept"], [1, 2]);
    await until(async () => {
      await nft("add", "chain", "netdev", NAME, "probe");
      await nft("delete", "chain", "netdev", NAME, "probe");
      await pause(50);
      return lost > 0;
    }, "the monitor");
    await pause(200);
    lost = 0;
    for (let number = 3; number < 8; number += 1) await bring(number % 2 ? ["drop"] : ["accept"], [number]);
    await nft("add", "table", "netdev", other);
    await nft("add", "chain", "netdev", other, "c");
    await nft("delete", "table", "netdev", other);
    await pause(300);
    expect(lost).toBe(0);
    const changes = [
      ["flush", "chain", "netdev", NAME, "a"],
      ["add", "element", "netdev", NAME, "address", "{ 240.0.0.9 : 9 }"],
      ["add", "chain", "netdev", NAME, "b"],
      ["delete", "table", "netdev", NAME],
    ];
    for (const [count, words] of changes.entries()) {
      await nft(...words);
      await until(
        () => lost === count + 1,
        () => `word of nft ${words.join(" ")}`,
      );
    }
    // It is put right, and nobody hears of that.
    expect((await bring(["accept"], [1])).repaired).toBe(true);
    await pause(300);
    expect(lost).toBe(changes.length);
  },
);
