import { defineConfig } from "vitest/config";

/**
 * A test's layer is its directory; `hourly` has those of `worlds` again. `make test` runs all but `bounds` and `real`,
 * which `make test-all` adds.
 */
const LAYERS = {
  // Pure code, and the stores over real SQLite. Runs on any system. Where a room has tests of another layer as well,
  // these are in its `unit`.
  fast: [
    ...["*/unit", "admin", "allocations", "claims", "conversations", "daemon", "guests", "imports", "ipam", "metadata"],
    ...["networks", "platform", "store", "ui"],
  ],
  // Daemons, controllers and metadata servers in the test's process, over an API server in memory, in virtual time
  // but where a process or a library has timers of its own.
  worlds: ["cluster", "controller", "machines", "metadata-kube"],
  // Clusters, controllers and machines once more, with every periodic pass an hour apart: nothing waits for one.
  hourly: ["cluster", "controller", "machines"],
  // The shipped binaries, the simulation, and the search of a protocol, which takes a processor for half a minute.
  process: [
    ...["claims/protocol", "cli", "cni", "identity", "network", "shim"],
    "simulation/{actors,engine,large,machine,mutants,oracle}",
  ],
  // What is kept of the longest texts that others may write, and how its time grows: minutes of readings and
  // collections.
  bounds: ["bounds"],
  // API servers, Open vSwitch, OVN, haproxy, systemd, podman, full disks, kills, and hours in minutes.
  real: [
    ...["browser", "deploy", "faults", "kube", "machines-kube", "simulation/long", "soak"],
    ...["metadata-net", "metadata-node", "metadata-ovn", "metadata-ovs", "metadata-server"],
  ],
  // The repository checks itself: `make check`.
  tidy: ["tidy"],
};

const MORE: Readonly<
  Record<string, { readonly setupFiles?: string; readonly exclude?: string[]; readonly isolate?: boolean }>
> = {
  // Searched in `process`.
  fast: { exclude: ["test/claims/protocol/**"] },
  // What the product's accounts do with their rights; the reporter names those that nobody used.
  worlds: { setupFiles: "./test/harness/rights/setup.ts" },
  // What other files left in a worker's heap would be collected, and counted, with each reading.
  bounds: { isolate: true },
  hourly: {
    setupFiles: "./test/harness/world/hourly-setup.ts",
    // Each has a story of what nobody reports: a node's comparison with the cluster, and whereabouts' pools, which are
    // read.
    exclude: ["test/controller/lost-allocations.test.ts", "test/controller/pod-adoption.test.ts"],
  },
};

export default defineConfig({
  test: {
    pool: "forks",
    // What Node deprecates is an error, as in the processes that tests start.
    execArgv: ["--throw-deprecation"],
    // A worker evaluates the product once, not again for each file: no module of it keeps state (the tidy test says
    // so). Tests that count what a function does spy on it, for a module that others have loaded can no longer be
    // mocked.
    isolate: false,
    // A run is bound by the processors: four files at a time keep two of them busy for nine tenths of it. The third
    // file only fills the pauses in which the others wait; a fourth makes each slower, and what has a limit in time
    // fails sooner.
    maxWorkers: 3,
    reporters: ["default", "./test/harness/closing-line-reporter.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    projects: Object.entries(LAYERS).map(([name, directories]) => ({
      extends: true as const,
      test: {
        name,
        include: directories.map((directory) => `test/${directory}/**/*.test.ts`),
        ...MORE[name],
        exclude: [...(MORE[name]?.exclude ?? []), ...(name === "fast" ? [] : ["test/*/unit/**"])],
      },
    })),
  },
});
