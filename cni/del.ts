import { containerKey } from "../claims/add-waiters.ts";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import { sleep } from "../platform/time.ts";
import { type EndReason, StorageFault } from "../store/allocations.ts";
import type { CniContext } from "./context.ts";
import { networkNameIn, stampOfLive } from "./request.ts";

/** A failed database is reopened within about a second; a DEL waits that long before it goes to the spool. */
const REOPEN_WAIT_MS = 2_500;
const REOPEN_POLL_MS = 50;

/**
 * Ends what is older than it: of its network, or of every one where it names none. One that has just arrived is of the
 * present boot; one from the spool says of which it is. Throws StorageFault: not done. See docs/decisions/0081.
 */
export async function cniDel(context: CniContext, wire: CniWireRequest, reason: EndReason): Promise<void> {
  const fromSpool = reason === "DEL from the spool";
  const want = {
    containerId: wire.containerId,
    interface: wire.ifname,
    network: networkNameIn(wire.config),
    stamp: fromSpool ? { bootId: wire.bootId, us: wire.bootUs } : stampOfLive(context, wire),
    reason,
  };
  const { clock } = context;
  const deadline = clock.monotonicMs() + REOPEN_WAIT_MS;
  for (;;) {
    try {
      const { ended } = await context.store.detach(want);
      context.waiting.wake(containerKey(want.containerId, want.interface));
      context.log.debug({ containerId: want.containerId, interface: want.interface, ended: ended.length }, "DEL");
      return;
    } catch (error) {
      if (!(error instanceof StorageFault) || clock.monotonicMs() > deadline) throw error;
      await sleep(clock, REOPEN_POLL_MS);
    }
  }
}
