import { readFileSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { basename, dirname } from "node:path";
import { Script } from "node:vm";

/** What Node puts before the text of a CommonJS module, and stack traces do not count. */
const PREFIX_CHARS = Module.wrap("").lastIndexOf("\n");

/**
 * `require` for a bundle of lib/, with the code beside it that V8 compiled when it was built: compiling megabytes is a
 * third of a daemon's start. Code of another text, V8 or set of flags is left alone; then the text is compiled, as
 * without a cache. Installed, it is always the V8 of the build: docs/decisions/0048.
 */
export function loadBundle(path: string): unknown {
  return evaluate(compileBundle(path), path);
}

/** What loading the bundle compiles, and its function `warmUp` where it has one. */
export function makeCodeCache(path: string): Buffer {
  const bytes = readFileSync(path);
  const script = compile(path, bytes);
  (evaluate(script, path) as { warmUp?: () => void }).warmUp?.();
  const code = script.createCachedData();
  return Buffer.concat([bytes, code, code]);
}

export function codeCachePath(bundle: string): string {
  return `${bundle}.cache`;
}

/** `cachedDataRejected` is false when V8 took the code cache, and undefined when there is none for this text. */
export function compileBundle(path: string): Script {
  const bytes = readFileSync(path);
  return compile(path, bytes, readCodeCache(path, bytes));
}

/**
 * The file has the text and twice the code of it: V8 compares no more than the length of the text, and trusts the code.
 * To compare is quicker than a checksum, for which a command would load streams.
 */
function readCodeCache(path: string, bytes: Buffer): Buffer | undefined {
  try {
    const file = readFileSync(codeCachePath(path));
    const half = bytes.length + (file.length - bytes.length) / 2;
    const code = file.subarray(bytes.length, half);
    const isWhole = file.subarray(0, bytes.length).equals(bytes) && file.subarray(half).equals(code);
    return isWhole ? code : undefined;
  } catch {
    return undefined;
  }
}

function compile(path: string, bytes: Buffer, cachedData?: Buffer): Script {
  return new Script(Module.wrap(bytes.toString()), {
    // In stack traces: the code keeps the name that it was compiled under, and where it will be installed is not known
    // then.
    filename: basename(path),
    columnOffset: -PREFIX_CHARS,
    ...(cachedData && { cachedData }),
  });
}

function evaluate(script: Script, path: string): unknown {
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(path), module, path, dirname(path));
  return module.exports;
}
