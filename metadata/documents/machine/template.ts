/*
 * metadata/documents/machine/: from a Metal3DataTemplate to the text of its two documents
 *
 *   template, read-template   what a template says, read from an API object, and why it cannot be rendered
 *   objects       Machine, Metal3Machine and host: names, labels, annotations, MACs
 *   pools         the pools of a template, and what they gave
 *   meta-data, links, networks   the documents
 *   computed-address   an address from the machine's index
 *   yaml-*        values as YAML 1.1
 */

import type { YamlValue } from "./yaml-text.ts";

/**
 * `spec` of a Metal3DataTemplate, in the names of v1beta2 with two additions for addresses that are computed from the
 * index: `metaData.ipAddresses`, and `ipAddress` with `netmask` in a network. What an API server requires or fills in
 * may be absent here; each absent field means what its documentation says.
 */
export interface MachineTemplateSpec {
  readonly metaData?: TemplateMetaData;
  readonly networkData?: TemplateNetworkData;
}

export interface TemplateMetaData {
  readonly strings?: readonly { readonly key?: string; readonly value?: string }[];
  readonly objectNames?: readonly { readonly key?: string; readonly object?: string }[];
  readonly indexes?: readonly TemplateIndex[];
  readonly namespaces?: readonly { readonly key?: string }[];
  readonly ipAddresses?: readonly ({ readonly key?: string } & ComputedRange)[];
  readonly ipAddressesFromPool?: readonly TemplatePoolItem[];
  readonly prefixesFromPool?: readonly TemplatePoolItem[];
  readonly gatewaysFromPool?: readonly TemplatePoolItem[];
  readonly dnsServersFromPool?: readonly TemplatePoolItem[];
  readonly fromHostInterfaces?: readonly TemplateHostInterface[];
  readonly fromLabels?: readonly (ObjectValue & { readonly label?: string })[];
  readonly fromAnnotations?: readonly (ObjectValue & { readonly annotation?: string })[];
}

export interface TemplateIndex {
  readonly key?: string;
  /** Default 0. */
  readonly offset?: number;
  /** Default 1, which 0 means too. */
  readonly step?: number;
  readonly prefix?: string;
  readonly suffix?: string;
}

interface ObjectValue {
  readonly key?: string;
  /** machine, metal3machine or baremetalhost, in any case. */
  readonly object?: string;
}

export interface TemplateHostInterface {
  readonly key?: string;
  readonly interface?: string;
  readonly fromBootMAC?: boolean;
}

/** Default: the IPPool of ipam.metal3.io. */
export interface TemplatePoolReference {
  readonly name?: string;
  readonly kind?: string;
  readonly apiGroup?: string;
}

export type TemplatePoolItem = TemplatePoolReference & { readonly key?: string };

export interface AnnotationReference {
  /** machine, metal3machine or baremetalhost, in any case. */
  readonly object?: string;
  readonly annotation?: string;
}

/** The addresses from `start`, or else from the one after that of `subnet`, up to `end` and within `subnet`. */
export interface ComputedRange {
  readonly start?: string;
  readonly end?: string;
  readonly subnet?: string;
  /** Distance between the addresses of neighbouring indexes. Default 1, which 0 means too. */
  readonly step?: number;
}

export interface TemplateNetworkData {
  readonly links?: TemplateLinks;
  readonly networks?: TemplateNetworks;
  readonly services?: TemplateServices;
}

export interface TemplateLinks {
  readonly ethernets?: readonly TemplateEthernet[];
  readonly bonds?: readonly TemplateBond[];
  readonly vlans?: readonly TemplateVlan[];
}

interface TemplateLink {
  readonly id?: string;
  readonly name?: string;
  /** Bytes. Default 1500. */
  readonly mtu?: number;
  readonly macAddress?: TemplateMac;
}

export interface TemplateMac {
  readonly string?: string;
  readonly fromHostInterface?: string;
  readonly fromAnnotation?: AnnotationReference;
}

export interface TemplateEthernet extends TemplateLink {
  readonly type?: string;
}

export interface TemplateBond extends TemplateLink {
  readonly bondMode?: string;
  readonly bondXmitHashPolicy?: string;
  readonly bondLinks?: readonly string[];
  readonly parameters?: readonly { readonly name?: string; readonly value?: YamlValue }[];
}

export interface TemplateVlan extends TemplateLink {
  readonly vlanID?: number;
  readonly vlanLink?: string;
}

export interface TemplateNetworks {
  readonly ipv4?: readonly TemplateStaticNetwork[];
  readonly ipv6?: readonly TemplateStaticNetwork[];
  readonly ipv4DHCP?: readonly TemplateNetwork[];
  readonly ipv6DHCP?: readonly TemplateNetwork[];
  readonly ipv6SLAAC?: readonly TemplateNetwork[];
}

export interface TemplateNetwork {
  readonly id?: string;
  readonly link?: string;
  readonly routes?: readonly TemplateRoute[];
}

export interface TemplateStaticNetwork extends TemplateNetwork {
  readonly ipAddressFromIPPool?: string;
  readonly fromPoolRef?: TemplatePoolReference;
  readonly fromPoolAnnotation?: AnnotationReference;
  readonly ipAddress?: ComputedRange;
  /** Prefix length of `ipAddress`. Default: that of its subnet. */
  readonly netmask?: number;
}

export interface TemplateRoute {
  readonly network?: string;
  /** Prefix length. Default 0. */
  readonly prefix?: number;
  readonly gateway?: TemplateGateway;
  readonly services?: TemplateServices;
}

export interface TemplateGateway {
  readonly string?: string;
  readonly fromIPPool?: string;
  readonly fromPoolRef?: TemplatePoolReference;
  readonly fromPoolAnnotation?: AnnotationReference;
}

export interface TemplateServices {
  readonly dns?: readonly string[];
  readonly dnsFromIPPool?: string;
}

/** `awaits`: what the machine still lacks; null: the template, or an object or pool it names, has to change. */
export class TemplateProblem extends Error {
  override readonly name = "TemplateProblem";
  readonly awaits: "inspection" | null;

  constructor(message: string, awaits: "inspection" | null = null) {
    super(message);
    this.awaits = awaits;
  }
}

/** Renders one part of a template; a problem in it is told with the part's name before it. */
export function inPart<T>(part: string, render: () => T): T {
  try {
    return render();
  } catch (error) {
    if (!(error instanceof TemplateProblem)) throw error;
    throw new TemplateProblem(`${part}: ${error.message}`, error.awaits);
  }
}
