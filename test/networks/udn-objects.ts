import { projectUdn, type UdnView } from "../../networks/udn/udn-object.ts";

interface Given {
  readonly metadata?: object;
  readonly status?: object;
}

/** A UserDefinedNetwork `shop/blue` with this specification. */
export function udn(spec: object, { metadata, status }: Given = {}): UdnView {
  return projectUdn(
    { metadata: { ...STAMP, namespace: "shop", name: "blue", ...metadata }, spec, ...(status && { status }) },
    "UserDefinedNetwork",
  );
}

/** A ClusterUserDefinedNetwork `blue` with this network. */
export function cudn(network: object, { metadata, status }: Given = {}): UdnView {
  const spec = { namespaceSelector: {}, network };
  return projectUdn(
    { metadata: { ...STAMP, name: "blue", ...metadata }, spec, ...(status && { status }) },
    "ClusterUserDefinedNetwork",
  );
}

export const layer2 = (section: object, more: object = {}) => ({
  topology: "Layer2",
  layer2: section,
  ...more,
});
export const layer3 = (section: object, more: object = {}) => ({
  topology: "Layer3",
  layer3: section,
  ...more,
});
export const localnet = (section: object, more: object = {}) => ({
  topology: "Localnet",
  localnet: { role: "Secondary", physicalNetworkName: "physnet", ...section },
  ...more,
});

/** A right one. */
export const PRIMARY = { role: "Primary", subnets: ["10.20.0.0/16"] };

const STAMP = { uid: "u-1", resourceVersion: "7", creationTimestamp: "2026-11-20T10:00:00Z", generation: 1 };
