import { join } from "node:path";
import type * as CommandLine from "./command-line.ts";
import { loadBundle } from "./load-bundle.ts";

// All of `dist/bin/holdfast`: the command line is a bundle like the others, whose code was compiled when it was built.
const { main } = loadBundle(join(import.meta.dirname, "../lib/command-line.cjs")) as typeof CommandLine;
void main();
