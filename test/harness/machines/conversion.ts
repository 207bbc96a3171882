import type { KubeObject } from "../kube-api.ts";
import type { IpamVersion } from "./definitions.ts";

/**
 * A claim's status in another version, as Cluster API's conversion has it: either form of the conditions keeps its
 * meaning.
 */
export function converted(status: KubeObject, from: IpamVersion, to: IpamVersion): KubeObject {
  const { conditions, deprecated, v1beta2, ...rest } = status;
  const isNew = from === "v1beta2";
  const forms = isNew
    ? { today: conditions, old: deprecated?.v1beta1?.conditions }
    : { today: v1beta2?.conditions, old: conditions };
  const { today, old } = forms;
  const given = (key: string, value: unknown) => (value === undefined ? {} : { [key]: value });
  if (to !== "v1beta2") {
    const beside = to === "v1beta1" && today !== undefined ? { v1beta2: { conditions: today } } : {};
    return { ...rest, ...given("conditions", old), ...beside };
  }
  const beside = old === undefined ? {} : { deprecated: { v1beta1: { conditions: old } } };
  return { ...rest, ...given("conditions", today), ...beside };
}
