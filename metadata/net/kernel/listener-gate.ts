import { ADMITTED_MARK } from "./firewall-text.ts";
import { mustRun, run } from "./run.ts";

/** tc's number for "drop". */
const TC_ACT_SHOT = 2;
const TC_ACT_OK = 0;
/** Where a classic BPF program reads the mark of a frame: SKF_AD_OFF + SKF_AD_MARK of linux/filter.h. */
const MARK_OFFSET = 2 ** 32 - 0x1000 + 20;

interface Instruction {
  readonly code: number;
  readonly jt: number;
  readonly jf: number;
  readonly k: number;
}

/** Load the mark; is it ours; pass; drop (docs/decisions/0024). */
const PROGRAM: readonly Instruction[] = [
  { code: 0x20, jt: 0, jf: 0, k: MARK_OFFSET },
  { code: 0x15, jt: 0, jf: 1, k: ADMITTED_MARK },
  { code: 0x06, jt: 0, jf: 0, k: TC_ACT_OK },
  { code: 0x06, jt: 0, jf: 0, k: TC_ACT_SHOT },
];

/**
 * Puts the gate on a listener's link: frames leave the bridge by it only with the mark of the rules. The gate belongs
 * to tc, so that no `nft flush ruleset` opens it: without the rules nothing reaches the listener. Throws when the
 * kernel has no such filter.
 */
export async function ensureGate(link: string): Promise<void> {
  const bytecode = [PROGRAM.length, ...PROGRAM.map(({ code, jt, jf, k }) => `${code} ${jt} ${jf} ${k}`)].join(
    ",",
  );
  try {
    const filter = `egress pref 1 handle 1 bpf direct-action bytecode "${bytecode}"`;
    const commands = `qdisc replace dev ${link} clsact\nfilter replace dev ${link} ${filter}\n`;
    await mustRun("tc", ["-batch", "-"], commands);
  } catch (error) {
    throw new Error(
      `the gate of its link cannot be made (the kernel needs NET_SCH_INGRESS and NET_CLS_BPF): ${(error as Error).message}`,
    );
  }
}

interface TcFilter {
  readonly kind?: string;
  readonly pref?: number;
  readonly options?: {
    readonly "direct-action"?: boolean;
    readonly bytecode?: { readonly insns?: readonly Instruction[] };
  };
}

/** Whether the first filter that a frame meets on its way out by the link is the gate. */
export async function hasGate(link: string): Promise<boolean> {
  const shown = await run("tc", ["-json", "filter", "show", "dev", link, "egress"]);
  if (shown.code !== 0) return false;
  const filters = (JSON.parse(shown.stdout || "[]") as TcFilter[]).filter(({ options }) => options);
  const [first] = filters;
  return first?.options?.["direct-action"] === true && sameProgram(first.options.bytecode?.insns ?? []);
}

function sameProgram(shown: readonly Instruction[]): boolean {
  return (
    shown.length === PROGRAM.length &&
    PROGRAM.every(
      ({ code, jt, jf, k }, at) =>
        shown[at]?.code === code && shown[at]?.jt === jt && shown[at]?.jf === jf && shown[at]?.k === k,
    )
  );
}
