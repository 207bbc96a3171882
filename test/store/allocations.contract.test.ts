import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { describeAllocations } from "./allocations-contract.ts";
import { clusterSubject } from "./cluster-subject.ts";
import { describeMachineReservations } from "./machines-contract.ts";
import { describeReservations } from "./reservations-contract.ts";
import { describeRetention } from "./retention-contract.ts";
import { memorySubject, type Subject, sqliteSubject } from "./subjects.ts";

for (const describe of [describeAllocations, describeReservations, describeMachineReservations]) {
  describe("memory", memorySubject);
  describe("sqlite", sqliteSubject);
  describe("kubernetes, in memory", kubernetesInMemory);
}
describeRetention("sqlite", sqliteSubject);
describeRetention("kubernetes, in memory", kubernetesInMemory);

function kubernetesInMemory(): Promise<Subject> {
  const clock = new ManualClock();
  const api = new KubeInMemory(clock);
  return clusterSubject({ clock, api, admin: api, close: async () => {} });
}
