import { realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { geteuid } from "node:process";
import { parseDocument } from "yaml";
import { readBounded, replaceDurably, SMALL_FILE_BYTES_MAX } from "../../platform/files.ts";

/**
 * Writes new tokens of a user into a kubeconfig, as kubectl does: an issuer that replaces refresh tokens takes no old one, and
 * kubectl would have to log in again after us. Not into a file that is another user's, or not for its owner alone: then they
 * are kept in memory only.
 */
export function saveTokens(
  { file, user }: { readonly file: string; readonly user: string },
  tokens: Readonly<Record<string, string>>,
): void {
  let lock: string | null = null;
  try {
    const path = realpathSync(file);
    const { mode, uid } = statSync(path);
    if ((mode & 0o777) !== 0o600 || uid !== geteuid?.()) return;
    // kubectl's own: whoever has it is writing.
    writeFileSync(`${path}.lock`, "", { flag: "wx", mode: 0o600 });
    lock = `${path}.lock`;
    const document = parseDocument(readBounded(path, SMALL_FILE_BYTES_MAX).toString("utf8"), {
      logLevel: "silent",
    });
    const { users } = document.toJS() as { users?: readonly { readonly name?: string }[] };
    const at = users?.findIndex(({ name }) => name === user) ?? -1;
    if (at < 0) return;
    for (const [key, value] of Object.entries(tokens))
      document.setIn(["users", at, "user", "auth-provider", "config", key], value);
    // In the style of kubectl.
    replaceDurably(path, Buffer.from(document.toString({ lineWidth: 0, indentSeq: false })));
  } catch {
    // A directory that cannot be written, or somebody else has the lock: the tokens are good all the same.
  } finally {
    if (lock !== null) rmSync(lock, { force: true });
  }
}
