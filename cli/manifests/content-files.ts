import { lstatSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { CommandError } from "../failure.ts";

/** The kinds that `apply` makes of files, as commands spell them. */
export const CONTENT_KINDS = { secret: "Secret", configmap: "ConfigMap" } as const;
export type ContentKind = keyof typeof CONTENT_KINDS;

export function isContentKind(text: string): text is ContentKind {
  return Object.hasOwn(CONTENT_KINDS, text);
}

export interface ContentOfFiles {
  readonly kind: ContentKind;
  readonly namespace: string | undefined;
  readonly name: string;
  /** A file, `key=file`, or a directory, whose files are all meant; links in it are not. */
  readonly paths: readonly string[];
}

/** Each file under its name, as `kubectl create secret generic` makes it. Throws CommandError. */
export function contentOfFiles({ kind, namespace, name, paths }: ContentOfFiles): object {
  const values = new Map<string, Buffer>();
  for (const path of paths) {
    for (const [key, file] of filesAt(path)) {
      // The daemon takes no JSON with such a name.
      if (key === "__proto__")
        throw new CommandError(`${file}: ${key} cannot be a key`, {
          hint: `give it another key: --from-file <key>=${file}`,
        });
      if (values.has(key))
        throw new CommandError(`${file}: there is a file for key ${key} already`, {
          hint: `give it another key: --from-file <key>=${file}`,
        });
      values.set(
        key,
        attempt(file, () => readFileSync(file)),
      );
    }
  }
  if (values.size === 0) throw new CommandError(`there is no file in ${paths.join(", ")}`);
  const encoded = Object.fromEntries([...values].map(([key, bytes]) => [key, bytes.toString("base64")]));
  const data = kind === "secret" ? { data: encoded } : { binaryData: encoded };
  return { apiVersion: "v1", kind: CONTENT_KINDS[kind], metadata: { namespace, name }, ...data };
}

function filesAt(text: string): [key: string, file: string][] {
  const equals = text.indexOf("=");
  if (equals > 0 && !text.slice(0, equals).includes("/")) return [[text.slice(0, equals), text.slice(equals + 1)]];
  return attempt(text, () => {
    if (!statSync(text).isDirectory()) return [[basename(text), text]];
    return (
      readdirSync(text)
        .sort()
        .map((name): [string, string] => [name, join(text, name)])
        // As kubectl does. Whoever may write the directory could name any file of whoever applies it.
        .filter(([, file]) => lstatSync(file).isFile())
    );
  });
}

function attempt<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "no such file or directory" : code === "EACCES" ? "permission denied" : message;
    throw new CommandError(`${path} cannot be read: ${why}`);
  }
}
