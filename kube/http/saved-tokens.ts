import { realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { geteuid } from "node:process";
import { type Document, parseDocument } from "yaml";
import { readBounded, replaceDurably, SMALL_FILE_BYTES_MAX } from "../../platform/files.ts";

/** After so long, ms, whoever made a lock has ended without removing it: kubectl has it for the time of a write. */
const LOCK_MS_MAX = 60_000;

interface Place {
  readonly file: string;
  readonly user: string;
}

type Tokens = Readonly<Record<string, string>>;

/** The user's OIDC login in a kubeconfig as it is now; null: there is none, or it cannot be read. */
export function savedTokens({ file, user }: Place): Tokens | null {
  try {
    return loginIn(read(file), user)?.config ?? null;
  } catch {
    return null;
  }
}

/**
 * Writes new tokens of a user into a kubeconfig, as kubectl does: an issuer that replaces refresh tokens takes no old
 * one, and kubectl would have to log in again after us. Not where another login is there by now than that of the
 * refresh token `sent`. Not into a file that is another user's, or not for its owner alone: then they are kept in
 * memory only.
 */
export function saveTokens({ file, user }: Place, sent: string, tokens: Tokens): void {
  let lock: string | null = null;
  try {
    const path = realpathSync(file);
    const { mode, uid } = statSync(path);
    if ((mode & 0o777) !== 0o600 || uid !== geteuid?.()) return;
    lock = takeLock(`${file}.lock`);
    const document = read(path);
    const login = loginIn(document, user);
    if (login?.config["refresh-token"] !== sent) return;
    for (const [key, value] of Object.entries(tokens))
      document.setIn(["users", login.at, "user", "auth-provider", "config", key], value);
    // In the style of kubectl.
    const content = Buffer.from(document.toString({ lineWidth: 0, indentSeq: false }));
    replaceDurably(path, content, `${path}.holdfast-new`);
  } catch {
    // A directory that cannot be written, or somebody else has the lock: the tokens are good all the same.
  } finally {
    if (lock !== null) rmSync(lock, { force: true });
  }
}

/** kubectl's own: whoever has it is writing. Throws an Error when somebody has it. */
function takeLock(lock: string): string {
  const take = () => writeFileSync(lock, "", { flag: "wx", mode: 0o600 });
  try {
    take();
  } catch (error) {
    // By the clock of the file system, which both times are of.
    const probe = `${lock}.holdfast`;
    writeFileSync(probe, "", { mode: 0o600 });
    const ageMs = statSync(probe).mtimeMs - statSync(lock).mtimeMs;
    rmSync(probe, { force: true });
    if (ageMs < LOCK_MS_MAX) throw error;
    rmSync(lock, { force: true });
    take();
  }
  return lock;
}

function read(path: string): Document {
  return parseDocument(readBounded(path, SMALL_FILE_BYTES_MAX).toString("utf8"), { logLevel: "silent" });
}

function loginIn(document: Document, user: string): { readonly at: number; readonly config: Tokens } | null {
  const { users = [] } = document.toJS() as {
    users?: readonly { name?: string; user?: { "auth-provider"?: { name?: string; config?: Tokens } } }[];
  };
  const at = users.findIndex(({ name }) => name === user);
  const provider = users[at]?.user?.["auth-provider"];
  return provider?.name === "oidc" ? { at, config: provider.config ?? {} } : null;
}
