// A node with 100,000 allocations: memory, and how long the daemon takes to start on them.
const ALLOCATIONS = 100_000;

export async function measureMemory(playground, report) {
  await playground.start("memory");
  const emptyMb = playground.residentMb();
  await playground.load(ALLOCATIONS, { seed: 5, name: "memory" });
  const busyMb = playground.residentMb();
  await playground.stop();
  const readyMs = await playground.start("memory");
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const loadedMb = playground.residentMb();
  await playground.stop();
  const empty = await playground.start("empty");
  await playground.stop();
  const mb = (value) => `${Math.round(value)} MB`;
  report.row("resident memory, empty", "", mb(emptyMb), null);
  report.row(
    `resident memory, ${ALLOCATIONS.toLocaleString("en")} allocations loaded`,
    "≤ 150 MB",
    mb(loadedMb),
    loadedMb <= 150,
  );
  report.row("resident memory, right after making them at full speed", "", mb(busyMb), null);
  report.row(
    "start to ready with them",
    "load ≤ 1.5 s",
    `${(readyMs / 1000).toFixed(2)} s, of which ${(empty / 1000).toFixed(2)} s without any`,
    readyMs - empty <= 1_500,
  );
}
