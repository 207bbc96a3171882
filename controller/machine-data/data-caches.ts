import { CAPI_GROUP, capiPaths } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import {
  DATA_CLAIMS_PATH,
  DATA_TEMPLATES_PATH,
  HOSTS_PATH,
  INFRASTRUCTURE_GROUP,
  MACHINE_DATAS_PATH,
} from "../../kube/metal3.ts";
import {
  type DataClaimView,
  type DataTemplateView,
  type MachineDataView,
  projectDataClaim,
  projectDataTemplate,
  projectMachineData,
} from "../../kube/views/machine-data-view.ts";
import {
  type HostView,
  type Metal3MachineView,
  type NamedView,
  projectHost,
  projectMetal3Machine,
  projectNamed,
} from "../../kube/views/metal3-machine-view.ts";
import { type FollowedCache, type FollowedLog, FollowedResources } from "../followed-resources.ts";

/** Called for every change; a deletion has `item` null. `previous` has the same UID. */
type OnChange<T> = (item: T | null, previous: T | undefined) => void;

export interface DataEvents {
  readonly template: OnChange<DataTemplateView>;
  readonly claim: OnChange<DataClaimView>;
  readonly data: OnChange<MachineDataView>;
  readonly metal3Machine: OnChange<Metal3MachineView>;
  readonly host: OnChange<HostView>;
  readonly changed: () => void;
}

type Resource =
  | "metal3datatemplates"
  | "metal3dataclaims"
  | "metal3datas"
  | "metal3machines"
  | "machines"
  | "baremetalhosts";

/** What the API server shows of Metal3's machines, their data and their hosts. Everything by `namespace/name`. */
export class DataCaches extends FollowedResources<Resource> {
  readonly templates: FollowedCache<DataTemplateView>;
  readonly claims: FollowedCache<DataClaimView>;
  readonly datas: FollowedCache<MachineDataView>;
  readonly metal3Machines: FollowedCache<Metal3MachineView>;
  readonly machines: FollowedCache<NamedView>;
  readonly hosts: FollowedCache<HostView>;

  constructor(api: KubeApi, events: DataEvents, log: FollowedLog) {
    super(api, log, events.changed);
    this.templates = this.follow<DataTemplateView>("metal3datatemplates", DATA_TEMPLATES_PATH, {
      project: projectDataTemplate,
      ...hooksOf(events.template),
    });
    this.claims = this.follow<DataClaimView>("metal3dataclaims", DATA_CLAIMS_PATH, {
      project: projectDataClaim,
      ...hooksOf(events.claim),
    });
    this.datas = this.follow<MachineDataView>("metal3datas", MACHINE_DATAS_PATH, {
      project: projectMachineData,
      ...hooksOf(events.data),
    });
    const [machinesPath, ...otherMachines] = capiPaths(INFRASTRUCTURE_GROUP, "metal3machines");
    this.metal3Machines = this.follow<Metal3MachineView>("metal3machines", machinesPath, {
      otherPaths: otherMachines,
      project: projectMetal3Machine,
      ...hooksOf(events.metal3Machine),
    });
    const [capiPath, ...otherCapi] = capiPaths(CAPI_GROUP, "machines");
    this.machines = this.follow<NamedView>("machines", capiPath, {
      otherPaths: otherCapi,
      metadataOnly: true,
      project: (object) => projectNamed(object, "Machine"),
      onUpsert: () => {},
      onDelete: () => {},
    });
    this.hosts = this.follow<HostView>("baremetalhosts", HOSTS_PATH, {
      project: projectHost,
      ...hooksOf(events.host),
    });
  }

  /** Why nothing can be decided from the copies; null: it can. */
  override get doubt(): string | null {
    const missing = [this.templates, this.claims, this.datas].find((one) => one.missing);
    return missing === undefined ? super.doubt : `${missing.path} is not served`;
  }
}

function hooksOf<T>(change: OnChange<T>) {
  return {
    onUpsert: (item: T, previous: T | undefined) => change(item, previous),
    onDelete: (item: T) => change(null, item),
  };
}
