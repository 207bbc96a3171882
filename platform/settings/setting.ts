import type { HostPort } from "../host-port.ts";

/**
 * A setting as plain data: flag, variable, `--help` and docs are derived from it, and load.ts reads its value. The
 * command line bundles all of them, so nothing here imports anything at run time (docs/decisions/0031).
 */
export type Setting = Described &
  (
    | {
        /** A string; the kinds differ in what `--help` calls the value. A group may be a number in a file. */
        readonly type: "name" | "file" | "directory" | "socket" | "group" | "url";
        readonly default?: string;
        /** An empty string is a value of its own. */
        readonly orEmpty?: true;
      }
    /** Absolute paths: a list in a file, else one string with commas between them. */
    | { readonly type: "files" | "directories"; readonly default?: readonly string[] }
    | {
        /** A whole number within bounds. */
        readonly type: "number";
        readonly unit: "ms" | "seconds" | "requests";
        readonly min: number;
        readonly max: number;
        readonly default?: number;
      }
    | { readonly type: "choice"; readonly values: readonly string[]; readonly default?: string }
    /** `host:port`; with `orOff` also `off`, which is read as null. */
    | { readonly type: "address"; readonly default?: string; readonly orOff?: true }
  );

interface Described {
  /** Description in one line, for `--help` and for docs. */
  readonly meaning: string;
  /** Additional text for the docs, in Markdown. */
  readonly more?: string;
  /** Description of the behaviour when it is not given and has no `default`. */
  readonly otherwise?: string;
  /** The placeholder of a value in `--help`, if the type alone would not tell. */
  readonly placeholder?: string;
  /** Accepted but rarely needed: not in `--help`, and listed apart in the docs. Decision 31 has the reason for each. */
  readonly hidden?: true;
}

export type Settings = Readonly<Record<string, Setting>>;

type ValueOf<T extends Setting> = T extends { type: "number" }
  ? number
  : T extends { type: "choice"; values: readonly (infer Value)[] }
    ? Value
    : T extends { type: "files" | "directories" }
      ? readonly string[]
      : T extends { type: "address" }
        ? HostPort | (T extends { orOff: true } ? null : never)
        : string;

/** Undefined if not given and without a default. */
export type ValuesOf<S extends Settings> = {
  readonly [Name in keyof S]: ValueOf<S[Name]> | (S[Name] extends { default: unknown } ? never : undefined);
};

/** `logLevel` as a flag: `--log-level`. */
export function flagOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** `logLevel` as a variable: `HOLDFAST_LOG_LEVEL`. */
export function variableOf(name: string): string {
  return `HOLDFAST_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** The behaviour when the setting is not given, in words; "" if that needs none. */
export function defaultOf(setting: Setting): string {
  return setting.otherwise ?? [setting.default ?? []].flat().join(", ");
}
