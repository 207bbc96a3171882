/** Dates of the OpenStack tree, oldest first, as Nova serves them. cloud-init takes the newest that it knows. */
export const OPENSTACK_VERSIONS = [
  "2012-08-10",
  "2013-04-04",
  "2013-10-17",
  "2015-10-15",
  "2016-06-30",
  "2016-10-06",
  "2017-02-22",
  "2018-08-27",
  "2020-10-14",
  "2025-04-04",
] as const;

export type OpenStackVersion = (typeof OPENSTACK_VERSIONS)[number];

const SINCE = {
  randomSeed: "2013-04-04",
  password: "2013-04-04",
  vendorData: "2013-10-17",
  projectId: "2015-10-15",
  networkData: "2015-10-15",
  devices: "2016-06-30",
  vendorData2: "2016-10-06",
  trustedVf: "2018-08-27",
  dedicatedCpus: "2020-10-14",
} as const satisfies Record<string, OpenStackVersion>;

/** The version a path names; `latest` is the newest. null: there is none of that name. */
export function readVersion(text: string): OpenStackVersion | null {
  if (text === "latest") return OPENSTACK_VERSIONS.at(-1) ?? null;
  return OPENSTACK_VERSIONS.find((version) => version === text) ?? null;
}

/** Has this version the thing? Dates in this form sort as texts. */
export function has(version: OpenStackVersion, thing: keyof typeof SINCE): boolean {
  return version >= SINCE[thing];
}
