import { afterAll, beforeAll } from "vitest";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import { type ClusterUser, TestCluster } from "../harness/cluster.ts";
import { KubePods } from "../harness/kube-pods.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { describeAllocations } from "../store/allocations-contract.ts";
import { clusterSubject } from "../store/cluster-subject.ts";
import { describeMachineReservations } from "../store/machines-contract.ts";
import { describeReservations } from "../store/reservations-contract.ts";
import { describeRetention } from "../store/retention-contract.ts";
import type { Subject } from "../store/subjects.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.start({ controllers: false });
  await new KubePods(cluster.api).createNamespace("shop");
});
afterAll(() => cluster?.stop());

for (const describe of [describeAllocations, describeReservations, describeMachineReservations, describeRetention])
  describe("kubernetes", create);

async function create(): Promise<Subject> {
  const clock = new ManualClock();
  const apiOf = (user: ClusterUser) => new HttpKubeApi(loadKubeConfig(cluster.kubeconfig(user)), clock);
  const [api, admin] = [apiOf("holdfast-node"), apiOf("admin")];
  const close = async () => {
    api.close();
    admin.close();
  };
  return clusterSubject({ clock, api, admin, close });
}
