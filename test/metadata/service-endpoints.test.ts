import { expect, test } from "vitest";
import { localEndpoints, projectSlice } from "../../metadata/tenant/services-endpoints.ts";

const metadata = { namespace: "shop", name: "md-1", uid: "u", resourceVersion: "1", creationTimestamp: "t" };
const HTTP = [{ name: "http", port: 8080, protocol: "TCP" }];
const pod = { kind: "Pod", namespace: "shop", name: "p", uid: "p-1" };
const slice = (endpoints: unknown, more: object = {}) =>
  projectSlice({ metadata, addressType: "IPv4", ports: HTTP, endpoints, ...more });
const local = (...slices: ReturnType<typeof projectSlice>[]) =>
  localEndpoints(slices, { node: "a", portName: "http" }).map(({ address, port }) => `${address}:${port}`);

test("the node is in nodeName in discovery.k8s.io/v1, and in the topology in v1beta1", () => {
  const addresses = ["10.0.0.1"];
  for (const endpoint of [
    { addresses, nodeName: "a" },
    { addresses, topology: { "kubernetes.io/hostname": "a" } },
    { addresses, deprecatedTopology: { "kubernetes.io/hostname": "a" } },
  ])
    expect(local(slice([endpoint]))).toEqual(["10.0.0.1:8080"]);
});

test("only ready endpoints of this node count, and one without the condition is ready", () => {
  const at = (last: number, more: object) => ({ addresses: [`10.0.0.${last}`], nodeName: "a", ...more });
  const endpoints = [
    at(1, { conditions: { ready: true } }),
    at(2, { conditions: { ready: false } }),
    at(3, { conditions: {} }),
    at(4, { conditions: { ready: null } }),
    at(5, { nodeName: "b" }),
    at(6, { nodeName: undefined }),
    at(7, { conditions: { ready: false, serving: true, terminating: true } }),
  ];
  expect(local(slice(endpoints))).toEqual(["10.0.0.1:8080", "10.0.0.3:8080", "10.0.0.4:8080"]);
});

test("only IPv4 and the chosen port count, and each endpoint once", () => {
  const endpoints = [{ addresses: ["10.0.0.1"], nodeName: "a" }];
  expect(local(slice([{ addresses: ["fd00::1"], nodeName: "a" }], { addressType: "IPv6" }))).toEqual([]);
  expect(local(slice([{ addresses: ["md.example"], nodeName: "a" }], { addressType: "FQDN" }))).toEqual([]);
  expect(local(slice(endpoints, { ports: [{ name: "admin", port: 1 }] }))).toEqual([]);
  expect(local(slice(endpoints, { ports: [{ name: "http", port: 53, protocol: "UDP" }] }))).toEqual([]);
  expect(local(slice(endpoints, { ports: [{ name: "http", port: null }] }))).toEqual([]);
  expect(local(slice(endpoints, { ports: null }))).toEqual([]);
  expect(local(slice(endpoints), slice(endpoints))).toEqual(["10.0.0.1:8080"]);
});

test("a port without a name belongs to a Service with one port", () => {
  const one = slice([{ addresses: ["10.0.0.1"], nodeName: "a" }], { ports: [{ name: null, port: 80 }] });
  expect(localEndpoints([one], { node: "a", portName: "" })).toHaveLength(1);
});

test("the pod behind an endpoint is known where its reference is complete", () => {
  const [endpoint] = slice([{ addresses: ["10.0.0.1"], nodeName: "a", targetRef: pod }]).endpoints;
  expect(endpoint?.pod).toEqual({ namespace: "shop", name: "p", uid: "p-1" });
  for (const targetRef of [undefined, { ...pod, kind: "Node" }, { ...pod, uid: "" }, "x"]) {
    const [other] = slice([{ addresses: ["10.0.0.1"], nodeName: "a", targetRef }]).endpoints;
    expect(other?.pod).toBeNull();
  }
});

test("invalid objects have no endpoints", () => {
  expect(slice(null).endpoints).toEqual([]);
  expect(slice(["x", null, 5]).endpoints).toEqual([]);
  expect(local(slice([{ nodeName: "a" }, { addresses: [7], nodeName: "a" }]))).toEqual([]);
});
