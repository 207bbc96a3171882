import type { Buffer } from "node:buffer";
import type { IdentityView } from "../../identity/wire.ts";
import { uuidOf } from "./instance-of.ts";
import type { Passwords } from "./passwords.ts";
import type { Backend, TenantSource, TenantView } from "./tenant-source.ts";

/** A node outside Kubernetes: nobody has content for its guests. Their passwords are kept here. */
export class StandaloneSource implements TenantSource {
  readonly #passwords: Passwords;

  constructor(passwords: Passwords) {
    this.#passwords = passwords;
  }

  async viewOf(identity: IdentityView): Promise<TenantView> {
    return {
      firmwareUuid: null,
      hostname: null,
      projectId: null,
      links: [],
      publicKeys: [],
      userData: null,
      vendorData: null,
      networkDocument: null,
      meta: {},
      availabilityZone: null,
      instanceType: null,
      rootDevice: null,
      password: { stored: this.#passwords.read(uuidOf(identity, null)) },
    };
  }

  async backendOf(): Promise<Backend | null> {
    return null;
  }

  async keepPassword(identity: IdentityView, password: Buffer): Promise<"kept" | "taken"> {
    return this.#passwords.keep(uuidOf(identity, null), password);
  }
}
