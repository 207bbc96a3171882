export interface KubeconfigOptions {
  readonly user: string;
  readonly token: string;
  /** URL. */
  readonly server: string;
  /** PEM; "": plain HTTP needs none. */
  readonly ca: string;
}

/** The text of a kubeconfig file with one cluster and one user. */
export function kubeconfigText({ user, token, server, ca }: KubeconfigOptions): string {
  const authority = ca === "" ? {} : { "certificate-authority-data": Buffer.from(ca).toString("base64") };
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster: { server, ...authority } }],
    users: [{ name: user, user: { token } }],
    contexts: [{ name: "test", context: { cluster: "test", user } }],
    "current-context": "test",
  });
}
