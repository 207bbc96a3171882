import type { Buffer } from "node:buffer";
import type { IdentityView } from "../../identity/wire.ts";
import { uuidOf } from "./instance-of.ts";
import type { NodeContents } from "./node-content.ts";
import type { Passwords } from "./passwords.ts";
import type { Backend, TenantSource, TenantView } from "./tenant-source.ts";

/** A node outside Kubernetes: claims name content that is kept by the daemon. Guests' passwords are kept here. */
export class StandaloneSource implements TenantSource {
  readonly #passwords: Passwords;
  readonly #contents: Pick<NodeContents, "of">;

  constructor(passwords: Passwords, contents: Pick<NodeContents, "of">) {
    this.#passwords = passwords;
    this.#contents = contents;
  }

  async viewOf(identity: IdentityView): Promise<TenantView> {
    const { tenantId, template: _, problems: __, forbidden: ___, ...content } = await this.#contents.of(identity);
    return {
      ...content,
      firmwareUuid: null,
      projectId: tenantId,
      links: [],
      networkDocument: null,
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
