import { expect, test } from "vitest";
import { judgeService, projectService } from "../../kube/views/service-view.ts";
import {
  describeReference,
  readNadServiceReference,
  readUdnServiceReference,
} from "../../networks/udn/service-reference.ts";
import { SERVICE_ANNOTATION, type UdnView } from "../../networks/udn/udn-object.ts";
import { cudn, layer2, layer3, localnet, PRIMARY, udn } from "./udn-objects.ts";

const ref = (metadataServiceRef: unknown) => ({ metadataServiceRef });
const annotated = (text: string) => ({ metadata: { annotations: { [SERVICE_ANNOTATION]: text } } });
const REFERS = { kind: "refers", namespace: "shop", name: "md" };

test.each<{ why: string; view: UdnView }>([
  { why: "a name in the network's namespace", view: udn(layer2(PRIMARY, ref({ name: "md" }))) },
  { why: "the own namespace said", view: udn(layer2(PRIMARY, ref({ name: "md", namespace: "shop" }))) },
  {
    why: "an empty namespace, as Go writes it",
    view: udn(layer2(PRIMARY, ref({ name: "md", namespace: "" }))),
  },
  { why: "of a cluster's network", view: cudn(layer2(PRIMARY, ref({ name: "md", namespace: "shop" }))) },
  {
    why: "a dual-stack network",
    view: udn(layer2({ role: "Primary", subnets: ["fd00::/64", "10.0.0.0/16"] }, ref({ name: "md" }))),
  },
  {
    why: "layer3",
    view: udn(layer3({ role: "Primary", subnets: [{ cidr: "10.0.0.0/8" }] }, ref({ name: "md" }))),
  },
  { why: "an annotation where the field was dropped", view: udn(layer2(PRIMARY), annotated("md")) },
  { why: "an annotation with namespace", view: cudn(layer2(PRIMARY), annotated("shop/md")) },
  {
    why: "the field before the annotation",
    view: udn(layer2(PRIMARY, ref({ name: "md" })), annotated("other")),
  },
])("a definition refers to a Service: $why", ({ view }) => {
  expect(readUdnServiceReference(view)).toEqual(REFERS);
});

test("a definition without the annotation refers to no Service", () => {
  expect(readUdnServiceReference(udn(layer2(PRIMARY)))).toEqual({ kind: "none" });
  expect(readUdnServiceReference(udn(layer2(PRIMARY, ref(null))))).toEqual({ kind: "none" });
  expect(readNadServiceReference(null, "shop")).toEqual({ kind: "none" });
});

test("a Service may have a name that begins with a digit, as Kubernetes allows it by now", () => {
  expect(readUdnServiceReference(udn(layer2(PRIMARY, ref({ name: "1-metadata" }))))).toEqual({
    ...REFERS,
    name: "1-metadata",
  });
});

const NAMED = { name: "md", namespace: "shop" };

test.each<{ why: string; view: UdnView; problems: string[] }>([
  {
    why: "no name",
    view: udn(layer2(PRIMARY, ref({}))),
    problems: ["metadataServiceRef.name is required"],
  },
  {
    why: "an empty name",
    view: udn(layer2(PRIMARY, ref({ name: "" }))),
    problems: ["metadataServiceRef.name is required"],
  },
  {
    why: "a long name",
    view: udn(layer2(PRIMARY, ref({ name: "m".repeat(254) }))),
    problems: ["metadataServiceRef.name may not be longer than 253 characters"],
  },
  {
    why: "no name of a Service",
    view: udn(layer2(PRIMARY, ref({ name: "a/../b" }))),
    problems: ['metadataServiceRef.name "a/../b" is not the name of a Service'],
  },
  {
    why: "no object",
    view: udn(layer2(PRIMARY, ref("md"))),
    problems: ["metadataServiceRef.name is required"],
  },
  {
    why: "a long namespace",
    view: cudn(layer2(PRIMARY, ref({ name: "md", namespace: "n".repeat(64) }))),
    problems: ["metadataServiceRef.namespace may not be longer than 63 characters"],
  },
  {
    why: "no name of a namespace",
    view: cudn(layer2(PRIMARY, ref({ name: "md", namespace: "../x" }))),
    problems: ['metadataServiceRef.namespace "../x" is not the name of a namespace'],
  },
  {
    why: "another namespace",
    view: udn(layer2(PRIMARY, ref({ name: "md", namespace: "bank" }))),
    problems: [
      'metadataServiceRef.namespace is "bank": a UserDefinedNetwork can refer to a Service of its own namespace shop only',
    ],
  },
  {
    why: "another namespace in the annotation",
    view: udn(layer2(PRIMARY), annotated("bank/md")),
    problems: [
      'metadataServiceRef.namespace is "bank": a UserDefinedNetwork can refer to a Service of its own namespace shop only',
    ],
  },
  {
    why: "no namespace",
    view: cudn(layer2(PRIMARY, ref({ name: "md" }))),
    problems: ["metadataServiceRef.namespace is required for ClusterUserDefinedNetwork"],
  },
  {
    why: "no namespace in the annotation",
    view: cudn(layer2(PRIMARY), annotated("md")),
    problems: ["metadataServiceRef.namespace is required for ClusterUserDefinedNetwork"],
  },
  {
    why: "a secondary network",
    view: udn(layer2({ role: "Secondary", subnets: ["10.0.0.0/16"] }, ref(NAMED))),
    problems: ["metadataServiceRef is only supported for Primary network role"],
  },
  {
    why: "IPv6 only",
    view: udn(layer2({ role: "Primary", subnets: ["fd00::/64"] }, ref(NAMED))),
    problems: ["metadataServiceRef requires at least one IPv4 subnet"],
  },
  {
    why: "IPv6 only, layer3",
    view: cudn(layer3({ role: "Primary", subnets: [{ cidr: "fd00::/48" }] }, ref(NAMED))),
    problems: ["metadataServiceRef requires at least one IPv4 subnet"],
  },
  {
    why: "a localnet",
    view: cudn(localnet({ subnets: ["10.0.0.0/24"] }, ref(NAMED))),
    problems: [
      "metadataServiceRef is only supported for Primary network role",
      "metadataServiceRef requires at least one IPv4 subnet",
    ],
  },
  {
    why: "everything at once",
    view: cudn(layer2({ role: "Secondary", subnets: [] }, ref({}))),
    problems: [
      "metadataServiceRef.name is required",
      "metadataServiceRef.namespace is required for ClusterUserDefinedNetwork",
      "metadataServiceRef is only supported for Primary network role",
      "metadataServiceRef requires at least one IPv4 subnet",
    ],
  },
])("a wrong reference is refused: $why", ({ view, problems }) => {
  const reference = readUdnServiceReference(view);
  expect(reference).toEqual({ kind: "wrong", problems });
  expect(describeReference(reference)).toBe(problems.join("; "));
});

test("a NetworkAttachmentDefinition refers to a Service beside it", () => {
  expect(readNadServiceReference("md", "shop")).toEqual(REFERS);
  expect(readNadServiceReference("shop/md", "shop")).toEqual(REFERS);
  expect(readNadServiceReference("bank/md", "shop")).toMatchObject({
    kind: "wrong",
    problems: [expect.stringContaining("of its own namespace shop only")],
  });
  expect(readNadServiceReference("", "shop")).toMatchObject({ kind: "wrong" });
});

const service = (spec: object) =>
  projectService({
    metadata: { namespace: "shop", name: "md", uid: "u", resourceVersion: "1", creationTimestamp: "t" },
    spec: { ports: [{ port: 80 }], ...spec },
  });

test.each([
  { why: "the usual one", spec: { type: "ClusterIP" }, port: "" },
  { why: "headless", spec: { type: "ClusterIP", clusterIP: "None" }, port: "" },
  { why: "dual stack", spec: { ipFamilies: ["IPv6", "IPv4"] }, port: "" },
  {
    why: "the first port",
    spec: {
      ports: [
        { name: "web", port: 82 },
        { name: "admin", port: 81 },
      ],
    },
    port: "web",
  },
  {
    why: "the port for it",
    spec: {
      ports: [
        { name: "http", port: 82 },
        { name: "metadata", port: 81 },
      ],
    },
    port: "metadata",
  },
  {
    why: "port 80 before any name",
    spec: {
      ports: [
        { name: "metadata", port: 81 },
        { name: "web", port: 80 },
      ],
    },
    port: "web",
  },
  {
    why: "http else",
    spec: {
      ports: [
        { name: "admin", port: 82 },
        { name: "http", port: 81 },
      ],
    },
    port: "http",
  },
  {
    why: "not UDP",
    spec: {
      ports: [
        { name: "dns", port: 53, protocol: "UDP" },
        { name: "web", port: 80 },
      ],
    },
    port: "web",
  },
])("a Service that can be used: $why", ({ spec, port }) => {
  expect(judgeService("shop/md", service(spec))).toMatchObject({ kind: "ok", portName: port });
});

test.each([
  ...["NodePort", "LoadBalancer", "ExternalName"].map((type) => ({
    spec: { type },
    problem: `Service shop/md is of type ${type}: only ClusterIP Services are supported`,
  })),
  {
    spec: { ipFamilies: ["IPv6"] },
    problem: "Service shop/md has no IPv4 address family: only IPv4 is supported",
  },
  { spec: { ports: [{ port: 53, protocol: "UDP" }] }, problem: "Service shop/md has no TCP port" },
])("a Service that cannot be used is refused: $problem", ({ spec, problem }) => {
  expect(judgeService("shop/md", service(spec))).toEqual({ kind: "refused", problem });
});

test("a Service that does not exist is refused", () => {
  expect(judgeService("shop/md", null)).toEqual({
    kind: "refused",
    problem: "Service shop/md does not exist",
  });
});

test("guests reach the other TCP ports of a Service, 16 at most, and are told of the rest", () => {
  const ports = (count: number) => Array.from({ length: count }, (_, n) => ({ name: `p${n}`, port: 5000 + n }));
  const judged = (list: object[]) => {
    const verdict = judgeService("shop/md", service({ ports: list }));
    return verdict.kind === "ok" ? verdict : null;
  };
  expect(judged(ports(17))?.others.map(({ port }) => port)).toEqual(
    ports(17)
      .slice(1)
      .map(({ port }) => port),
  );
  expect(judged(ports(17))?.unserved).toBeNull();
  const beyond = judged(ports(19));
  expect(beyond?.others).toHaveLength(16);
  expect(beyond?.unserved).toMatch(/at most 16 ports .* not 5017\/TCP, 5018\/TCP$/);
  const foreign = judged([
    { name: "http", port: 80 },
    { name: "clock", port: 123, protocol: "UDP" },
    { name: "signal", port: 2905, protocol: "SCTP" },
    // The same number as TCP, and beside a port that answers port 80.
    { name: "dns", port: 53, protocol: "UDP" },
    { name: "dns-tcp", port: 53 },
    { name: "metadata", port: 8775 },
  ]);
  expect(foreign).toMatchObject({ portName: "http" });
  expect(foreign?.others.map(({ name }) => name)).toEqual(["dns-tcp", "metadata"]);
  expect(foreign?.unserved).toContain("only TCP is served, not 123/UDP, 2905/SCTP, 53/UDP");
  // Nobody reaches what believes who asks by another way.
  expect(
    judged([
      { name: "metadata", port: 8775 },
      { name: "raw", port: 5000 },
    ])?.others,
  ).toMatchObject([{ port: 5000 }]);
});
