import { crash } from "./add.ts";
import {
  allocationAt,
  claimOf,
  detached,
  ENDING_POD,
  isLiving,
  NO_POD,
  NOTHING_PROMISED,
  NOWHERE,
  OURS,
  type Pod,
  podAt,
  podsOf,
  type State,
  type Step,
  sameAddresses,
  slotsOf,
  vmAt,
  withAllocation,
  withClaim,
  withList,
  withPod,
  withVm,
} from "./model.ts";
import type { Act, Rules } from "./rules.ts";

/** What may happen around the product's parts. */
export function aroundSteps(state: State, rules: Rules): Step[] {
  const happening = new Happening(state);
  for (const vm of state.vms.keys()) {
    machineSteps(happening, vm);
    for (const pod of slotsOf(vm)) {
      podSteps(happening, pod);
      if (rules.world.hasAppendingNodes) nodeSteps(happening, rules, pod);
    }
    if (!claimOf(state, vm).isOwned && !rules.world.isWithoutVm)
      happening.always(`claim ${vm} gets its VM as owner`, withClaim(state, vm, { isOwned: true }));
  }
  peopleSteps(happening, rules);
  strangerSteps(happening, rules);
  tokenSteps(happening, rules);
  return happening.steps;
}

/** Collects what may happen in a state. */
class Happening {
  readonly state: State;
  readonly steps: Step[] = [];

  constructor(state: State) {
    this.state = state;
  }

  may(act: Act): boolean {
    return (this.state.left[act] ?? 0) > 0;
  }

  /** Once less from here. */
  act(act: Act, text: string, to: State): void {
    const { left } = this.state;
    this.steps.push({ text, to: { ...to, left: { ...left, [act]: (left[act] ?? 0) - 1 } } });
  }

  always(text: string, to: State): void {
    this.steps.push({ text, to });
  }
}

/** A launcher where the VM is to be; another plugin's ADD is answered at once. */
function withLauncher(state: State, vm: number, slot: number, isTarget: boolean): State {
  const { network, asks } = vmAt(state, vm);
  const phase: Pod["phase"] = network === NOWHERE ? "up" : "pending";
  return withPod(state, slot, { ...NO_POD, phase, network, asks, isTarget });
}

/** What virt-controller does with a VM. */
function machineSteps(happening: Happening, vm: number): void {
  const { state } = happening;
  const machine = vmAt(state, vm);
  const pods = podsOf(state, vm);
  const free = slotsOf(vm).find((slot) => podAt(state, slot).phase === "absent");
  const isDown = pods.every(({ phase }) => phase === "absent" || phase === "lost");
  const up = slotsOf(vm).filter((slot) => podAt(state, slot).phase === "up");
  if (!machine.runs && happening.may("start") && isDown && free !== undefined) {
    const { network, asks, instances } = machine;
    const started = withVm(state, vm, { runs: true, instances: instances === 0 ? 1 : 2 });
    const asking = asks === null ? "" : `, asks for ${asks}`;
    happening.act("start", `VM ${vm} starts on network ${network}${asking}`, withLauncher(started, vm, free, false));
  }
  if (
    machine.runs &&
    happening.may("migrate") &&
    up.length === 1 &&
    free !== undefined &&
    pods.filter(isLiving).length === 1
  )
    happening.act(
      "migrate",
      `VM ${vm} migrates: pod ${free} on network ${machine.network}`,
      withLauncher(state, vm, free, true),
    );
  if (up.length === 2)
    for (const slot of up)
      happening.always(`the migration of VM ${vm} ends: pod ${slot} goes`, withPod(state, slot, ENDING_POD));
  if (machine.runs && happening.may("stop")) {
    const ending = (pod: Pod) => pod.phase === "up" || pod.phase === "pending";
    const ended = slotsOf(vm).filter((slot) => ending(podAt(state, slot)));
    const stopped = ended.reduce((to, slot) => withPod(to, slot, ENDING_POD), withVm(state, vm, { runs: false }));
    happening.act("stop", `VM ${vm} stops`, stopped);
  }
}

/** What happens to a pod where it runs. */
function podSteps(happening: Happening, pod: number): void {
  const { state } = happening;
  const { phase, isTarget, add, address } = podAt(state, pod);
  const vm = pod >> 1;
  if (phase === "pending" && isTarget)
    happening.always(`the migration of VM ${vm} is given up: pod ${pod} goes`, withPod(state, pod, ENDING_POD));
  if (phase === "pending" && add.next !== "read" && happening.may("crash")) {
    const { text, to } = crash(state, pod);
    happening.act("crash", text, to);
  }
  if (phase === "ending") happening.always(`DEL ${pod}`, withPod(detached(state, pod), pod, NO_POD));
  if (phase === "up" && address !== null && happening.may("lose")) {
    const lost = withPod(state, pod, { phase: "lost" });
    const runs = podsOf(lost, vm).some((one) => one.phase === "up" || one.phase === "pending");
    const text = `the node of pod ${pod} is lost: the object goes, the guest runs on`;
    happening.act("lose", text, runs ? lost : withVm(lost, vm, { runs: false }));
  }
  if (phase === "lost") happening.always(`the node of pod ${pod} is deleted`, withPod(state, pod, ENDING_POD));
}

/** The daemon of a node looks after the list of what its container uses. */
function nodeSteps(happening: Happening, { entriesMax }: Rules, pod: number): void {
  const { state } = happening;
  const { phase, network, address } = podAt(state, pod);
  const vm = pod >> 1;
  const { ips } = claimOf(state, vm);
  if (phase !== "up" || address === null || ips.includes(address) || ips.length >= entriesMax) return;
  if (!allocationAt(state, network, address)?.pods.includes(pod)) return;
  const list = [...ips, address];
  happening.always(`the node of pod ${pod}: claim ${vm} lists [${list}]`, withList(state, vm, list));
}

/** What people do with VM 0. */
function peopleSteps(happening: Happening, { world }: Rules): void {
  const { state } = happening;
  const { network, asks, runs } = vmAt(state, 0);
  if (happening.may("edit"))
    for (const to of world.networks ?? OURS)
      if (to !== network) happening.act("edit", `VM 0 is to be on network ${to}`, withVm(state, 0, { network: to }));
  if (happening.may("ask"))
    for (const to of [null, ...(world.asked ?? [])])
      if (to !== asks) happening.act("ask", `VM 0 asks for ${to ?? "nothing"}`, withVm(state, 0, { asks: to }));
  if (happening.may("restore") && !runs && podsOf(state, 0).every(({ phase }) => phase === "absent")) {
    const { uid, ips } = claimOf(state, 0);
    const restored = { uid: uid + 1, isOwned: false };
    const forgotten = withVm(state, 0, { instances: 2 });
    const promised = state.promised.with(
      0,
      OURS.map(() => NOTHING_PROMISED),
    );
    const to = withClaim({ ...forgotten, promised }, 0, restored);
    const text = "claim and VM 0 are deleted and restored: a new UID, no owner yet";
    happening.act("restore", `${text}, lists [${ips}]`, to);
    happening.act("restore", `${text}, no status`, withClaim(to, 0, { ips: [], isWritten: false }));
  }
}

/** Whoever may write claims. */
function strangerSteps(happening: Happening, { world }: Rules): void {
  if (!happening.may("strange")) return;
  const { state } = happening;
  const { network, ips } = claimOf(state, 0);
  for (const list of world.lists ?? [])
    if (!sameAddresses(list, ips))
      happening.act("strange", `a stranger: claim 0 lists [${list}]`, withList(state, 0, list));
  const to = 1 - network;
  happening.act("strange", `a stranger: claim 0 is of network ${to}`, withClaim(state, 0, { network: to }));
}

/** Whoever has a node's token: creates allocations of the claim, and appends to its list. */
function tokenSteps(happening: Happening, { addresses, faults }: Rules): void {
  if (!happening.may("token")) return;
  const { state } = happening;
  const { uid, network, ips } = claimOf(state, 0);
  const mayReplace = faults.has("node-replaces-the-list");
  for (let address = 0; address < addresses; address += 1) {
    for (const of of OURS)
      if (allocationAt(state, of, address) === null) {
        const created = withAllocation(state, of, address, { owner: uid, pods: [] });
        happening.act("token", `a node's token: allocation ${address} of network ${of} for claim 0`, created);
      }
    const list = mayReplace ? [address] : [...ips, address];
    if (mayReplace || !ips.includes(address))
      happening.act("token", `a node's token: claim 0 lists [${list}]`, withList(state, 0, list));
  }
  if (mayReplace)
    happening.act(
      "token",
      `a node's token: claim 0 is of network ${1 - network}`,
      withClaim(state, 0, { network: 1 - network }),
    );
}
