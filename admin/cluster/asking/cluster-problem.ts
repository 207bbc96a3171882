/** https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes */
const CERTIFICATE_ERRORS: ReadonlySet<string> = new Set([
  "CERT_CHAIN_TOO_LONG",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REJECTED",
  "CERT_REVOKED",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "ERROR_IN_CERT_NOT_AFTER_FIELD",
  "ERROR_IN_CERT_NOT_BEFORE_FIELD",
  "HOSTNAME_MISMATCH",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "PATH_LENGTH_EXCEEDED",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY",
  "UNABLE_TO_DECRYPT_CERT_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

export class ClusterProblem extends Error {
  override readonly name = "ClusterProblem";
  readonly hint: string;
  /** `refused`: the server answered with a refusal. `away`: it did not answer. */
  readonly kind: "refused" | "away";

  constructor(kind: "refused" | "away", message: string, hint: string) {
    super(message);
    this.kind = kind;
    this.hint = hint;
  }
}

/** The server does not know a resource of Holdfast. `path` as in a list. */
export function unknownResource(path: string): ClusterProblem {
  return new ClusterProblem(
    "refused",
    `the cluster does not know ${resourceName(path)}: Holdfast is not installed there`,
    "kubectl apply -k deploy/crds installs its definitions",
  );
}

export function forbidden(path: string, said: string): ClusterProblem {
  return new ClusterProblem(
    "refused",
    `the cluster refuses: ${said}`,
    `give the user of the kubeconfig this right; kubectl auth can-i shows whether it has it (list ${resourceName(path)})`,
  );
}

export function unknownUser(server: string): ClusterProblem {
  return new ClusterProblem(
    "refused",
    `the API server at ${server} does not accept the credentials of the kubeconfig (401)`,
    "renew them, or name another kubeconfig with --kubeconfig",
  );
}

/** There is no connection to the server. `code`: of the connection's error, null: it has none. */
export function away(server: string, reason: string, code: string | null): ClusterProblem {
  const hint = CERTIFICATE_ERRORS.has(code ?? "")
    ? "see server and certificate-authority of the cluster in the kubeconfig"
    : "check the API server and the way to it, or name another kubeconfig with --kubeconfig";
  return new ClusterProblem("away", `the cluster is not reachable at ${server}: ${reason}`, hint);
}

export function silent(server: string, ms: number): ClusterProblem {
  return new ClusterProblem(
    "away",
    `the cluster is not reachable at ${server}: no answer within ${ms / 1_000} s`,
    "check the API server and the way to it; --timeout waits longer",
  );
}

/** `/apis/ipam.holdfast.dev/v1alpha1/ipallocations` is `ipallocations.ipam.holdfast.dev`. */
function resourceName(path: string): string {
  const [, root, group, version, ...rest] = path.split("/");
  if (root !== "apis") return version ?? path;
  const resource = rest[0] === "namespaces" ? rest[2] : rest[0];
  return `${resource}.${group}`;
}
