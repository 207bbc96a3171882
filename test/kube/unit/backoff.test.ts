import { expect, test } from "vitest";
import { Backoff } from "../../../kube/backoff.ts";

test("the waits of many clients that lost contact at one instant are spread over the whole step, which doubles", () => {
  const rounds = [100, 200, 400, 800, 800];
  const clients = Array.from({ length: 1_000 }, () => new Backoff(100, 800, { random: Math.random }));
  for (const step of rounds) {
    const waits = clients.map((one) => one.next());
    expect(Math.max(...waits)).toBeLessThanOrEqual(step);
    // Of a thousand even waits, each tenth of the step has a hundred, ± 9.5; nine times that is beyond chance.
    for (let tenth = 0; tenth < 10; tenth += 1) {
      const within = waits.filter((one) => Math.min(9, Math.floor((one / step) * 10)) === tenth).length;
      expect(within, `of ${step} ms, tenth ${tenth}`).toBeGreaterThan(15);
      expect(within, `of ${step} ms, tenth ${tenth}`).toBeLessThan(185);
    }
  }
});
