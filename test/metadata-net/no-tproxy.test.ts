import { chmodSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SERVICES_PATH, type ServicesReport } from "../../guests/services/services-wire.ts";
import { newDirectory, run } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { NetNode, type PortGuest } from "./node.ts";

/** A node whose kernel leads no connection on: nft says so when rules with tproxy come, and takes all others. */
const NFT = `
if [ "$*" != "-f -" ]; then exec "$REAL" "$@"; fi
text=$(cat)
case $text in
*tproxy*) echo "Error: Could not process rule: No such file or directory" >&2; exit 1 ;;
esac
printf '%s\\n' "$text" | "$REAL" -f -
`;

let directory: string;
let node: NetNode;
let guest: PortGuest;
const reports: ServicesReport[] = [];
/** What `holdfast metadata` wants. */
const metadata = createServer(async (request, answer) => {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  if (request.url !== SERVICES_PATH) return void answer.writeHead(404).end();
  const report = JSON.parse(text) as ServicesReport;
  reports.push(report);
  const send = () => answer.end(JSON.stringify({ version: "1", services: [{ network: "blue", ports: [5000] }] }));
  if (report.applied !== "1") return void send();
  const timer = setTimeout(send, report.waitMs);
  answer.on("close", () => clearTimeout(timer));
});

beforeAll(async () => {
  if (whyNotReal() !== null) return;
  directory = newDirectory();
  const { stdout } = await run("sh", ["-c", "command -v nft"]);
  writeFileSync(join(directory, "nft"), `#!/bin/sh\nREAL=${stdout.trim()}\n${NFT}`);
  chmodSync(join(directory, "nft"), 0o755);
  const socket = join(directory, "b.sock");
  await new Promise<void>((resolve) => metadata.listen(socket, resolve));
  node = await NetNode.start(["--balancers-socket", socket, "--ovn-northbound", "off"], {
    programs: directory,
  });
  guest = await node.guest(await node.bridge(), "10.10.0.5/24");
  expect(await node.wanted(guest.on("blue"))).toEqual({});
});
afterAll(async () => {
  await node?.stop();
  metadata.closeAllConnections();
  metadata.close();
  await run("rm", ["-r", directory]);
});

test.skipIf(whyNotReal() !== null)(
  "ports of Services are not open: the log and the report say why and what to do, and port 80 is served",
  async () => {
    await until(
      () => reports.some(({ problem }) => problem !== null),
      () => `the report of the problem: ${JSON.stringify(reports)} ${node.log}`,
    );
    const problem = expect.stringMatching(/modprobe nft_tproxy.*Could not process rule/);
    expect(reports.at(-1)).toMatchObject({ applied: null, networks: ["blue"], problem });
    // It is tried again, and told once.
    const { length } = reports;
    await until(() => reports.length > length + 2, "further attempts");
    const told = () => node.log.split("\n").filter((line) => line.includes("modprobe nft_tproxy"));
    await until(() => told().length > 0, "the line of the log");
    expect(told(), node.log).toEqual([expect.stringContaining("ports of Services cannot be opened for guests")]);
    expect((await guest.ask("/openstack")).status).toBe(200);
    // With the module it goes on by itself.
    await run("rm", [join(directory, "nft")]);
    await until(
      () => reports.at(-1)?.applied === "1",
      () => `the ports to be open: ${node.log}`,
    );
    expect(reports.at(-1)?.problem).toBeNull();
  },
);
