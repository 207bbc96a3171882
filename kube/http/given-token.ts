import { dirname, resolve } from "node:path";
import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { parse } from "yaml";
import { type ExecPlugin, runPlugin } from "./exec-plugin.ts";
import { type OidcConfig, OidcLogin } from "./oidc-login.ts";
import { UserToken } from "./user-token.ts";

const EXEC = "holdfast-exec";
const OIDC = "holdfast-oidc";
/** What the library's authenticators leave alone, since they are for nobody of these names. */
type OwnProvider =
  | { readonly name: typeof EXEC; readonly exec: ExecPlugin }
  | {
      readonly name: typeof OIDC;
      readonly oidc: OidcConfig;
      readonly from: { readonly file: string; readonly user: string };
    };

/** A token that is in no file: a credential plug-in or an OIDC issuer gives it. */
export interface GivenToken {
  readonly from: string;
  readonly token: UserToken;
  readonly login: OidcLogin | null;
}

/** `before`: a login that goes on, with the tokens that the issuer has given meanwhile. */
export function givenToken(config: KubeConfig, before: GivenToken | null): GivenToken | null {
  const provider: OwnProvider | undefined = config.getCurrentUser()?.authProvider;
  if (provider?.name === EXEC) {
    const { exec } = provider;
    const cluster = config.getCurrentCluster();
    const token = new UserToken((clock) => runPlugin(exec, cluster, clock));
    return { from: `the credential plug-in ${exec.command}`, token, login: null };
  }
  if (provider?.name !== OIDC) return null;
  if (before?.login?.isOf(provider.oidc, provider.from.user)) return before;
  const login = new OidcLogin(provider.oidc, provider.from);
  const token = new UserToken((clock) => login.renew(clock), login.first);
  return { from: `the OIDC issuer ${login.issuer}`, token, login };
}

/** The name of the current user's auth-provider, if nobody here knows it; else null. */
export function unsupportedProvider(config: KubeConfig): string | null {
  const name = config.getCurrentUser()?.authProvider?.name;
  return name === undefined || [EXEC, OIDC, "tokenFile"].includes(name) ? null : name;
}

/**
 * The library does not know `tokenFile`, which kubectl does: the token is read from that file, again and again. Its
 * ways of plug-ins and of OIDC are not for processes that live long: see docs/decisions/0096.
 */
export function completeUsers(config: KubeConfig, file: string, text: string): void {
  // Its warnings would show lines of the file.
  const content: { users?: { name?: string; user?: { tokenFile?: unknown } }[] } = parse(text, {
    logLevel: "error",
  });
  const files = new Map(content.users?.map(({ name, user }) => [name, user?.tokenFile]));
  config.users = config.users.map((user) => {
    const tokenFile = files.get(user.name);
    const at = dirname(file);
    if (typeof tokenFile === "string") {
      const { token: _static, ...others } = user;
      return {
        ...others,
        authProvider: { name: "tokenFile", config: { tokenFile: resolve(at, tokenFile) } },
      };
    }
    const { exec, authProvider, ...others } = user;
    if (exec) {
      // As client-go: a path is one from the directory of the kubeconfig.
      const command = exec.command?.includes("/") ? resolve(at, exec.command) : exec.command;
      return { ...others, authProvider: { name: EXEC, exec: { ...exec, command } } satisfies OwnProvider };
    }
    if (authProvider?.name !== "oidc") return user;
    const oidc: OidcConfig = authProvider.config ?? {};
    const from = { file, user: user.name };
    return { ...others, authProvider: { name: OIDC, oidc, from } satisfies OwnProvider };
  });
}
