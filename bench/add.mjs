// ADD through the plugin binary, from exec to answer, beside host-local on the same configuration.
import { fdatasyncUs } from "./machine.mjs";
import { median, quantile } from "./playground.mjs";
import { ms, times } from "./report.mjs";

/** ADDs the daemon has served before anything is timed: its code is compiled then, as after the first minute of a node. */
const WARM_UP_ADDS = 1_000;

export async function measureAdd(playground, report) {
  await playground.load(WARM_UP_ADDS, { seed: 1, name: "warm-up" });
  const syncUs = fdatasyncUs(playground.folder);
  const slack = syncUs > 1_000 ? syncUs : 0;

  // Every ADD is followed by an unmeasured DEL on both sides, so that both networks stay empty.
  const [ours, theirs] = await playground.execute({ rounds: 1_000 });
  const ratio = (median(ours) - slack) / median(theirs);
  const beside = `${ms(median(ours))} to ${ms(median(theirs))}, median of 1,000 each; one fdatasync ${ms(syncUs)}`;
  report.row("ADD, empty network, median", "≤ 0.8 × host-local", `${times(ratio)}: ${beside}`, ratio <= 0.8);
  const [p99, theirP99] = [quantile(ours, 0.99), quantile(theirs, 0.99)];
  report.row(
    `ADD, p99 after ${WARM_UP_ADDS} warm-up ADDs`,
    "≤ 1 × host-local",
    `${times(p99 / theirP99)}: ${ms(p99)} to ${ms(theirP99)}`,
    p99 <= theirP99,
  );

  const [batches, theirBatches] = await playground.execute({ rounds: 15, inFlight: 32, undo: false });
  const [rate, theirRate] = [median(batches), median(theirBatches)].map((us) => (32 * 1e6) / us);
  report.row(
    "ADD, 32 executed at once",
    "≥ 3 × host-local's rate",
    `${times(rate / theirRate)}: ${Math.round(rate)}/s to ${Math.round(theirRate)}/s, median of 15 rounds`,
    rate >= 3 * theirRate,
  );

  let filled = 0;
  for (const [count, rounds, bound] of [
    [5_000, 60, 0.05],
    [60_000, 12, 0.005],
  ]) {
    playground.fillHostLocal(filled, count);
    await playground.load(count - filled, { seed: count });
    filled = count;
    const [full, theirFull] = await playground.execute({ rounds });
    const share = (median(full) - slack) / median(theirFull);
    report.row(
      `ADD at ${count.toLocaleString("en")} allocations, median`,
      `≤ ${bound} × host-local`,
      `${times(share)}: ${ms(median(full))} to ${ms(median(theirFull))}, median of ${rounds} each`,
      share <= bound,
    );
  }
}
