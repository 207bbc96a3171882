import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Certificate {
  /** PEM; its own authority. */
  readonly certificate: string;
  /** PEM. */
  readonly key: string;
}

/** Makes `tls.crt` and `tls.key` for a server on the loopback in a directory. Throws when openssl is missing. */
export function makeCertificate(directory: string): Certificate {
  const certificate = join(directory, "tls.crt");
  const key = join(directory, "tls.key");
  const subject = ["-subj", "/CN=holdfast-test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  execFileSync("openssl", ["req", "-x509", ...curve, ...subject, "-keyout", key, "-out", certificate], {
    stdio: "pipe",
  });
  return { certificate: readFileSync(certificate, "utf8"), key: readFileSync(key, "utf8") };
}
