import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cleanEnv, HOLDFAST, newDirectory } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

// A daemon whose list has two pages: the second one comes when the test says so.

const COLUMNS = 120;
const SINCE = new Date().toISOString();

let directory: string;
let socket: string;
let daemon: Server;
/** Who waits for the second page. */
let waiting: ServerResponse | null;

beforeEach(async () => {
  directory = newDirectory();
  socket = join(directory, "s");
  waiting = null;
  daemon = createServer((asked, answer) => {
    const { searchParams } = new URL(asked.url ?? "", "http://daemon");
    if (searchParams.get("continue") === "more") waiting = answer;
    else send(answer, { items: [allocation("blue", "10.0.0.1/24", "web")], continue: "more" });
  });
  daemon.listen(socket);
  await once(daemon, "listening");
});
afterEach(async () => {
  daemon.close();
  daemon.closeAllConnections();
  rmSync(directory, { recursive: true, force: true });
});

function allocation(network: string, address: string, name: string): object {
  const owner = { kind: "pod", namespace: "shop", name, uid: name, interface: "net1" };
  return { network, address, state: "Bound", owner, vm: null, since: SINCE, attachments: [] };
}

function send(answer: ServerResponse, page: object): void {
  answer.setHeader("content-type", "application/json").end(JSON.stringify(page));
}

/** The second page, with longer names than the first one has. */
function sendMore(): void {
  const items = [allocation("green", "10.100.200.250/24", "a-longer-name"), allocation("a", "10.0.0.2/24", "b")];
  send(waiting as ServerResponse, { items });
}

/** `holdfast list` with these words, as a script runs it or on a terminal. */
function list(where: "script" | "terminal", ...words: readonly string[]) {
  const command = [process.execPath, HOLDFAST, "list", ...words];
  const [file = "", ...args] =
    where === "script" ? command : ["script", "-qec", `stty cols ${COLUMNS}; ${command.join(" ")}`, "/dev/null"];
  const env = { ...cleanEnv(), HOLDFAST_SOCKET: socket, TERM: "xterm", NO_COLOR: "1" };
  const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const output = { text: "", errors: "" };
  child.stdout.on("data", (chunk) => {
    output.text += chunk;
  });
  child.stderr.on("data", (chunk) => {
    output.errors += chunk;
  });
  const ended = once(child, "close").then(([code]) => code as number);
  return { output, ended };
}

const theSecondPage = () => until(() => waiting !== null, "the second page to be asked for");
const linesOf = (text: string) => text.replaceAll("\r", "").trimEnd().split("\n");

describe.skipIf(!existsSync("/usr/bin/script"))("on a terminal", () => {
  test("the lines of a page are there before the next page is, and columns become no narrower", async () => {
    const { output, ended } = list("terminal");
    await until(() => output.text.includes("10.0.0.1/24"), "the first page");
    await theSecondPage();
    expect(linesOf(output.text)).toHaveLength(2);
    sendMore();
    expect(await ended).toBe(0);
    expect(linesOf(output.text).map((line) => line.replace(/\d+s$/, "0s"))).toEqual([
      "NETWORK   ADDRESS       HOLDER                VM   USED BY   NODE   STATE   AGE",
      "blue      10.0.0.1/24   pod shop/web (net1)   -    -         -      Bound   0s",
      "green     10.100.200.250/24   pod shop/a-longer-name (net1)   -    -         -      Bound   0s",
      "a         10.0.0.2/24         pod shop/b (net1)               -    -         -      Bound   0s",
    ]);
  });

  test("an end without the rest is an error below the lines", async () => {
    const { output, ended } = list("terminal");
    await theSecondPage();
    waiting?.destroy();
    expect(await ended).toBe(3);
    expect(linesOf(output.text)[1]).toContain("10.0.0.1/24");
    expect(linesOf(output.text)[2]).toMatch(/^error: /);
  });

  test.each(["--sort-by ADDRESS", "-o json", "-o yaml"])("%s needs all of it first", async (words) => {
    const { output, ended } = list("terminal", ...words.split(" "));
    await theSecondPage();
    expect(output.text).toBe("");
    sendMore();
    expect(await ended).toBe(0);
    expect(output.text.match(/10\.\d+\.\d+\.\d+\/24/g)).toHaveLength(3);
  });
});

test.each(["table", "csv", "name", "json"])("a script gets -o %s when all of it is there", async (format) => {
  const { output, ended } = list("script", "-o", format);
  await theSecondPage();
  expect(output.text).toBe("");
  sendMore();
  expect(await ended).toBe(0);
  expect(output.text.match(/10\.\d+\.\d+\.\d+\/24/g)).toHaveLength(3);
});

test("a script gets nothing of a list that it cannot have to its end", async () => {
  const { output, ended } = list("script");
  await theSecondPage();
  waiting?.destroy();
  expect(await ended).toBe(3);
  expect(output.text).toBe("");
  expect(output.errors).toMatch(/^error: /);
});
