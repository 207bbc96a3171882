import { defineConfig } from "vitest/config";

// unit: pure code and the stores, in parallel. system: real processes, sockets, namespaces and full disks.
// tidy: the repository checks itself; part of `make lint`.
export default defineConfig({
  test: {
    pool: "forks",
    // A worker evaluates the product once, not again for each file: no module of it keeps state (the tidy test says so).
    // Tests that count what a function does spy on it, for a module that others have loaded can no longer be mocked.
    isolate: false,
    // A run is bound by the processors: four files at a time keep two of them busy for nine tenths of it. The third file only
    // fills the pauses in which the others wait; a fourth makes each slower, and what has a limit in time fails sooner.
    maxWorkers: 3,
    reporters: ["default", "./test/harness/closing-line-reporter.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: [
            "test/{ipam,platform,store,claims,admin,metadata,conversations,cluster,controller,machines,metadata-kube}/**/*.test.ts",
          ],
        },
      },
      {
        extends: true,
        test: {
          name: "system",
          include: [
            "test/{shim,cni,faults,cli,network,deploy,kube,identity,machines-kube,metadata-server,metadata-net,metadata-ovs,metadata-ovn,metadata-node,simulation,soak}/**/*.test.ts",
          ],
        },
      },
      { extends: true, test: { name: "tidy", include: ["test/tidy/**/*.test.ts"] } },
    ],
  },
});
