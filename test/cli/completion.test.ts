import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HOLDFAST, network, run, TestDaemon } from "../harness/daemon.ts";

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  for (const name of ["blue", "blue-two", "red"]) await daemon.cni("ADD", name, { config: network(name) });
});
afterAll(() => daemon.stop());

/** What bash offers for a line that ends at the cursor. */
async function offered(line: string): Promise<string[]> {
  const words = line.split(" ");
  const script = `source <(holdfast completion bash)
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _holdfast; printf '%s\n' "\${COMPREPLY[@]}"`;
  const { code, stdout, stderr } = await run("bash", ["-c", script], {
    HOLDFAST_SOCKET: daemon.socket,
    PATH: `${dirname(HOLDFAST)}:${process.env.PATH}`,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.split("\n").filter((word) => word !== "");
}

test("bash completes commands, options, values and names of networks", async () => {
  expect(await offered("holdfast li")).toEqual(["list"]);
  expect(await offered("holdfast list --so")).toEqual(["--sort-by", "--socket"]);
  expect(await offered("holdfast list -o c")).toEqual(["csv"]);
  expect(await offered("holdfast show bl")).toEqual(["blue", "blue-two"]);
  expect(await offered("holdfast list --network r")).toEqual(["red"]);
  expect(await offered("holdfast --context x show r")).toEqual(["red"]);
});

test("scripts for the other shells name the same commands, and an unknown shell is refused", async () => {
  const scripts = await Promise.all(["zsh", "fish"].map((shell) => daemon.cli("completion", shell)));
  for (const { code, stdout } of scripts) {
    expect(code).toBe(0);
    for (const command of ["list", "networks", "metadata-net", "check"]) expect(stdout).toContain(command);
    expect(stdout).not.toContain("manual");
  }
  expect(await daemon.cli("completion", "tcsh")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("bash, zsh, fish"),
  });
});

test("the manual page is what the help says, and no line of it is a request by chance", async () => {
  const { stdout } = await daemon.cli("manual");
  expect(stdout).toMatch(/^\.TH HOLDFAST 1 /);
  const requests = new Set(
    stdout
      .split("\n")
      .filter((line) => line.startsWith("."))
      .map((line) => line.split(" ")[0]),
  );
  expect([...requests].sort()).toEqual([".B", ".BR", ".I", ".PP", ".SH", ".SS", ".TH", ".TP", ".br"]);
  const { stdout: help } = await daemon.cli("list", "--help");
  const options = [...help.matchAll(/--[a-z-]+/g)].map(([option]) => option).filter((one) => one !== "--help");
  expect(options.length).toBeGreaterThan(10);
  for (const option of options) expect(stdout).toContain(option.replaceAll("-", "\\-"));
});

test("called by kubectl's name it asks the cluster that kubectl uses, and a socket all the same where one is named", async () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-plugin-"));
  try {
    const plugin = join(directory, "kubectl-holdfast");
    symlinkSync(HOLDFAST, plugin);
    writeFileSync(
      join(directory, "config"),
      JSON.stringify({ contexts: [{ name: "prod", context: { cluster: "none", user: "me" } }] }),
    );
    const asked = (environment: Record<string, string>, ...words: string[]) =>
      run(plugin, ["networks", ...words], { HOME: directory, ...environment });
    expect(await asked({ KUBECONFIG: `/nowhere:${directory}/config` })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining(`${directory}/config cannot be used`),
    });
    expect(await asked({ KUBECONFIG: "" })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining(`${directory}/.kube/config`),
    });
    expect(await asked({ KUBECONFIG: `${directory}/config` }, "--context", "test")).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("it has no context test, but prod"),
    });
    expect((await asked({ KUBECONFIG: `${directory}/config` }, "--socket", daemon.socket, "-o", "name")).stdout).toBe(
      "blue\nblue-two\nred\n",
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
