/** Objects as the API server sends them, for tests of what is read of them. */

const stamp = {
  namespace: "shop",
  uid: "uid-1",
  resourceVersion: "7",
  creationTimestamp: "2026-11-20T10:00:00Z",
};

interface Given {
  readonly metadata?: object;
  readonly spec?: object;
  readonly status?: object;
}

export function pod({ metadata, spec, status }: Given = {}) {
  return {
    metadata: { ...stamp, name: "web", ...metadata },
    spec: { nodeName: "node-a", ...spec },
    status: { phase: "Running", ...status },
  };
}

export function claim({ metadata, spec, status }: Given = {}) {
  return {
    metadata: { ...stamp, name: "vm-a.blue", ...metadata },
    spec: { network: "blue", interface: "", ...spec },
    ...(status && { status }),
  };
}

export function owner(kind: string, uid: string, more: object = {}) {
  return { apiVersion: "kubevirt.io/v1", kind, name: "vm-a", uid, ...more };
}
