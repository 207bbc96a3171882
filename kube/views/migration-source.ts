import { objectAt, readMetadata } from "./object-metadata.ts";
import { textIn } from "./tenant-objects.ts";

const KIND = "VirtualMachineInstance";

/**
 * Where the guest of a VMI comes from when it migrates across namespaces (KubeVirt's DecentralizedLiveMigration,
 * `status.migrationState.sourceState`); null: it does not, or from another cluster. KubeVirt writes it before it
 * creates the launcher pod of the target. See docs/decisions/0057. Throws MalformedObjectError.
 */
export function readMigrationSource(vmi: unknown) {
  const { namespace: own } = readMetadata(vmi, KIND);
  const state = objectAt(objectAt(objectAt(vmi, "status", KIND), "migrationState", KIND), "sourceState", KIND);
  const namespace = textIn(state, "domainNamespace");
  const name = textIn(state, "pod");
  const vmiUid = textIn(state, "virtualMachineInstanceUID");
  if (namespace === null || name === null || vmiUid === null || namespace === own) return null;
  return { pod: { namespace, name }, vmiUid };
}
