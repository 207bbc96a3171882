import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { type Address, AddressSyntaxError, parseAddress } from "../../ipam/space/address.ts";
import { type Cidr, networkOf, parseInterfaceAddress } from "../../ipam/space/cidr.ts";

/** One problem of a (Cluster)UserDefinedNetwork. */
export interface UdnProblem {
  /** `spec.layer2.subnets[0]` */
  readonly path: string;
  /** In OVN-Kubernetes' words, where it has a rule for it. */
  readonly message: string;
}

/** Longest text of a CIDR that the API takes, characters. */
const CIDR_CHARS_MAX = 43;
/** One for each IP family. */
const DUAL_STACK_MAX = 2;

/** A network as written. */
export interface CidrField {
  readonly cidr: Cidr;
  /** Without host bits. */
  readonly masked: boolean;
}

/** Reads the fields of one section of a specification and collects their problems. */
export class UdnFields {
  readonly object: JsonObject;
  readonly path: string;
  readonly #problems: UdnProblem[];

  constructor(value: unknown, path: string, problems: UdnProblem[]) {
    this.#problems = problems;
    this.path = path;
    this.object = isObject(value) ? value : {};
    if (value !== undefined && value !== null && !isObject(value)) this.wrong("", "expected an object");
  }

  wrong(key: string, message: string): void {
    this.#problems.push({ path: key === "" ? this.path : `${this.path}.${key}`, message });
  }

  /** Whether the field is set. An empty list is not: Go programs omit it. */
  has(key: string): boolean {
    const value = this.object[key];
    return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);
  }

  section(key: string): UdnFields {
    return new UdnFields(this.object[key], `${this.path}.${key}`, this.#problems);
  }

  oneOf<T extends string>(key: string, values: readonly T[], otherwise: T | null): T | null {
    const value = this.object[key];
    if (!this.has(key) || value === "") {
      if (otherwise === null) this.wrong(key, `expected one of ${values.join(", ")}`);
      return otherwise;
    }
    const found = values.find((one) => one === value);
    if (found !== undefined) return found;
    this.wrong(key, `expected one of ${values.join(", ")}, not ${describeValue(value)}`);
    return otherwise;
  }

  /** null: absent or wrong. */
  whole(key: string, min: number, max: number): number | null {
    const value = this.object[key];
    if (!this.has(key) || value === 0) return null;
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
    this.wrong(key, `expected a whole number from ${min} to ${max}, not ${describeValue(value)}`);
    return null;
  }

  list(key: string, countMax: number): readonly unknown[] {
    const value = this.object[key];
    if (!this.has(key)) return [];
    if (!Array.isArray(value)) this.wrong(key, "expected a list");
    else if (value.length > countMax) this.wrong(key, `at most ${countMax} items are taken`);
    else return value;
    return [];
  }

  cidrs(key: string, countMax: number): CidrField[] {
    return this.list(key, countMax).flatMap((value, i) => this.cidr(`${key}[${i}]`, value));
  }

  /** `key` is for messages. [] if it cannot be read. */
  cidr(key: string, value: unknown): CidrField[] {
    const cidr = readUdnCidr(value);
    if (cidr === null) this.wrong(key, "CIDR is invalid");
    return cidr === null ? [] : [cidr];
  }

  /** One or two, of different families. */
  dualStackCidrs(key: string): CidrField[] {
    const cidrs = this.cidrs(key, DUAL_STACK_MAX);
    const [a, b] = cidrs;
    if (a && b && a.cidr.family === b.cidr.family)
      this.wrong(key, "When 2 CIDRs are set, they must be from different IP families");
    return cidrs;
  }

  dualStackIPs(key: string): Address[] {
    const addresses = this.list(key, DUAL_STACK_MAX).flatMap((value, i) => {
      try {
        return [parseAddress(String(value))];
      } catch (error) {
        if (!(error instanceof AddressSyntaxError)) throw error;
        this.wrong(`${key}[${i}]`, "IP is invalid");
        return [];
      }
    });
    const [a, b] = addresses;
    if (a && b && a.family === b.family)
      this.wrong(key, "When 2 IPs are set, they must be from different IP families");
    return addresses;
  }
}

/** A CIDR in the forms that OVN-Kubernetes accepts, host bits included; null: it is none. */
export function readUdnCidr(value: unknown): CidrField | null {
  if (typeof value !== "string" || value.length > CIDR_CHARS_MAX || !value.includes("/")) return null;
  try {
    const { address, prefixLength } = parseInterfaceAddress(value);
    const cidr = networkOf(address, prefixLength);
    return { cidr, masked: cidr.base === address.value };
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}

function describeValue(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 120);
}
