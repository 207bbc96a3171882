/** The pages, in the order in which somebody reads them. A test holds this to the files of docs/. */
export const GROUPS = {
  Start: [
    "README",
    "docs/getting-started",
    "docs/one-node",
    "docs/comparison",
    "docs/release",
    "docs/troubleshooting",
    "docs/glossary",
  ],
  Addresses: ["docs/cni", "docs/choosing-addresses", "docs/switching"],
  Kubernetes: ["docs/kubernetes", "docs/kubernetes-controller", "docs/uses", "docs/machines", "docs/machine-data"],
  Metadata: [
    ...[
      "docs/metadata",
      "docs/metadata-kubernetes",
      "docs/metadata-listener",
      "docs/metadata-udn",
      "docs/metadata-ovn",
    ],
    "docs/metadata-threats",
    "docs/bounds",
  ],
  Operations: [
    ...[
      "docs/ui",
      "docs/operations",
      "docs/alerts",
      "docs/upgrade",
      "docs/uninstall",
      "docs/scale",
      "docs/known-limits",
      "docs/stability",
    ],
    ...["docs/threats", "docs/supply-chain", "SECURITY", "CHANGELOG"],
  ],
  "How it is built": [
    ...["CONTRIBUTING", "docs/decisions/", "docs/sources", "docs/simulation", "docs/soak"],
    "bench/README",
  ],
};
