import { expect, test } from "vitest";
import { run, SHIM } from "../harness/daemon.ts";

// The plugin binary runs as root for every interface, and reads what tenants wrote.

async function readelf(...flags: string[]): Promise<string> {
  const { code, stdout } = await run("readelf", ["-W", ...flags, SHIM]);
  expect(code).toBe(0);
  return stdout;
}

test("the plugin binary is position-independent and static", async () => {
  expect(await readelf("-h")).toMatch(/Type:\s+DYN \(Position-Independent Executable file\)/);
  const segments = await readelf("-l");
  expect(segments).not.toContain("INTERP");
  expect(await readelf("-d")).toMatch(/FLAGS_1\).*\bPIE\b/);
});

test("its stack is not executed, and its tables of addresses are not written once it runs", async () => {
  const segments = await readelf("-l");
  expect(segments).toMatch(/GNU_STACK .* RW /);
  expect(segments).toMatch(/GNU_RELRO .* R /);
  expect(await readelf("-d")).toMatch(/FLAGS_1\).*\bNOW\b/);
});

test("its own functions check their stack and the lengths of what they print", async () => {
  const { stdout } = await run("objdump", ["-d", "--no-show-raw-insn", SHIM]);
  const functions = new Map(
    [...stdout.matchAll(/^[0-9a-f]+ <(\w+)>:\n((?:.+\n)*)/gm)].map(([, name, body]) => [name, body as string]),
  );
  const main = [...functions].filter(([name]) =>
    ["main", "fail", "read_settings", "put_error"].includes(name as string),
  );
  expect(main.length).toBeGreaterThan(1);
  expect(main.some(([, body]) => body.includes("<__stack_chk_fail>"))).toBe(true);
  expect(functions.get("fail")).toMatch(/<_*vsnprintf_chk>/);
});
