/** When tokens are asked for, and where new ones are kept. */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { savedTokens, saveTokens } from "../../../kube/http/saved-tokens.ts";
import { type Token, UserToken } from "../../../kube/http/user-token.ts";
import { ManualClock } from "../../harness/manual-clock.ts";
import { pause } from "../../harness/wait.ts";

const LIFE_MS = 30_000;
const directory = mkdtempSync(join(tmpdir(), "holdfast-tokens-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A giver of tokens that live so long, or for ever; a test answers each question when it likes. */
function giver(lifeMs: number | null) {
  const clock = Object.assign(new ManualClock(), { random: () => 0 });
  const questions: { give(): void; fail(): void }[] = [];
  const token = new UserToken(
    () =>
      new Promise<Token>((resolve, reject) => {
        const value = `t${questions.length + 1}`;
        const endMs = lifeMs === null ? null : clock.wallMs() + lifeMs;
        questions.push({ give: () => resolve({ value, endMs }), fail: () => reject(new Error("refused")) });
      }),
  );
  return { clock, questions, token, value: async () => (await token.get(clock)).value };
}

test("a token is asked for once for all who need it, and again in the last third of its life, while it is used", async () => {
  const { clock, questions, value, token } = giver(LIFE_MS);
  const both = [value(), value()];
  questions[0]?.give();
  expect(await Promise.all(both)).toEqual(["t1", "t1"]);
  clock.nowMs += (LIFE_MS * 2) / 3 - 1;
  expect(await token.get(clock)).toEqual({ value: "t1", ms: 1 });
  expect(questions).toHaveLength(1);
  clock.nowMs += 1;
  // Nobody waits for the answer.
  expect(await value()).toBe("t1");
  expect(questions).toHaveLength(2);
  questions[1]?.give();
  await pause(0);
  expect(await value()).toBe("t2");
});

test("a renewal ahead of time that fails disturbs nobody before the end, and is tried again every five seconds", async () => {
  const { clock, questions, value } = giver(LIFE_MS);
  const first = value();
  questions[0]?.give();
  await first;
  clock.nowMs += (LIFE_MS * 2) / 3;
  for (const [afterMs, asked] of [
    [0, 2],
    [4_999, 2],
    [1, 3],
  ] as const) {
    clock.nowMs += afterMs;
    expect(await value()).toBe("t1");
    expect(questions).toHaveLength(asked);
    questions.at(-1)?.fail();
    await pause(0);
  }
  clock.nowMs += LIFE_MS;
  const last = value();
  questions.at(-1)?.fail();
  await expect(last).rejects.toThrow("refused");
});

test("a token without an end is used until the API server does not take it", async () => {
  const { clock, questions, value, token } = giver(null);
  const first = value();
  questions[0]?.give();
  expect(await first).toBe("t1");
  clock.nowMs += 1e9;
  expect(await value()).toBe("t1");
  token.drop();
  const second = value();
  questions[1]?.give();
  expect(await second).toBe("t2");
});

test("a token that is refused while the next one is asked for is not asked for twice: an issuer takes a refresh token once", async () => {
  const { clock, questions, value, token } = giver(LIFE_MS);
  const first = value();
  questions[0]?.give();
  await first;
  clock.nowMs += LIFE_MS - 1;
  await value();
  token.drop();
  const second = value();
  expect(questions).toHaveLength(2);
  questions[1]?.give();
  expect(await second).toBe("t2");
});

test("whoever waited for a renewal that began before the end asks once more where that brought the old token", async () => {
  const { clock, questions, value } = giver(LIFE_MS);
  const first = value();
  questions[0]?.give();
  await first;
  clock.nowMs += LIFE_MS - 1;
  expect(await value()).toBe("t1");
  clock.nowMs += 2;
  const late = value();
  questions[1]?.fail();
  await pause(0);
  questions[2]?.give();
  expect(await late).toBe("t3");
});

test("two processes of one login renew it at different times", async () => {
  const renewals = [0, 1].map(async (random) => {
    const { clock, questions, token } = giver(LIFE_MS);
    Object.assign(clock, { random: () => random });
    const first = token.get(clock);
    questions[0]?.give();
    return (await first).ms;
  });
  expect(await Promise.all(renewals)).toEqual([(LIFE_MS * 2) / 3, (LIFE_MS * 5) / 6]);
});

const CONFIG = `# mine
users:
- name: other
  user: {token: other}
- name: me # at work
  user:
    auth-provider:
      name: oidc
      config: {id-token: old, refresh-token: old}
`;

function written(name: string, mode = 0o600): string {
  const file = join(directory, name);
  writeFileSync(file, CONFIG, { mode });
  chmodSync(file, mode);
  return file;
}

const NEW = { "id-token": "new-id", "refresh-token": "new-refresh" };

test("new tokens take the place of the old ones in the file, and nothing else of it changes, also through a link", () => {
  const file = written("linked");
  const link = join(directory, "link");
  symlinkSync("linked", link);
  saveTokens({ file: link, user: "me" }, "old", NEW);
  const wanted = CONFIG.replace("id-token: old", "id-token: new-id").replace(
    "refresh-token: old",
    "refresh-token: new-refresh",
  );
  expect(readFileSync(file, "utf8").replaceAll(/\{ | \}/g, (brace) => brace.trim())).toBe(wanted);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test.each([
  ["that others may read", 0o644],
  ["that its group may read", 0o640],
  ["that may not be written", 0o400],
])("a file %s is left as it is", (_, mode) => {
  const file = written(`mode-${mode}`, mode);
  saveTokens({ file, user: "me" }, "old", NEW);
  expect(readFileSync(file, "utf8")).toBe(CONFIG);
  expect(statSync(file).mode & 0o777).toBe(mode);
});

test("a file that kubectl is writing is left alone, and so is its lock", () => {
  const file = written("locked");
  writeFileSync(`${file}.lock`, "");
  saveTokens({ file, user: "me" }, "old", NEW);
  expect(readFileSync(file, "utf8")).toBe(CONFIG);
  expect(readFileSync(`${file}.lock`, "utf8")).toBe("");
});

test("a lock that nobody has removed for a minute is no lock", () => {
  const file = written("left");
  writeFileSync(`${file}.lock`, "");
  utimesSync(`${file}.lock`, 0, Date.now() / 1_000 - 120);
  saveTokens({ file, user: "me" }, "old", NEW);
  expect(savedTokens({ file, user: "me" })).toEqual(NEW);
  expect([`${file}.lock`, `${file}.lock.holdfast`].filter(existsSync)).toEqual([]);
});

test("a login that somebody made meanwhile stays, and so does a user without one, and a file of that name beside it", () => {
  const file = written("newer");
  writeFileSync(`${file}.new`, "mine");
  saveTokens({ file, user: "me" }, "another", NEW);
  saveTokens({ file, user: "other" }, "old", NEW);
  expect(readFileSync(file, "utf8")).toBe(CONFIG);
  saveTokens({ file, user: "me" }, "old", NEW);
  expect(savedTokens({ file, user: "me" })).toEqual(NEW);
  expect(readFileSync(`${file}.new`, "utf8")).toBe("mine");
});
