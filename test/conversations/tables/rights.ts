import { type Conversation, get, patch, post, remove } from "../steps.ts";
import { NAMESPACES, namespace } from "./objects.ts";

const RBAC = "rbac.authorization.k8s.io/v1";
const ROLES = `/apis/${RBAC}/namespaces/{id}/roles`;
const BINDINGS = `/apis/${RBAC}/namespaces/{id}/rolebindings`;
const SECRETS = "/api/v1/namespaces/{id}/secrets";
const NODE = { who: "holdfast-node" } as const;
/** The server hears of roles a moment after they were written. */
const SOON = { ...NODE, intime: true } as const;

const secret = (name: string) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name },
  data: { userdata: "eA==" },
});

export const RIGHTS: readonly Conversation[] = [
  {
    title:
      "a role grants its rights in the namespace of its binding, for the names that it lists, until the binding goes",
    steps: [
      post(NAMESPACES, namespace(), 201),
      post(SECRETS, secret("boot"), 201),
      post(SECRETS, secret("other"), 201),
      get(`${SECRETS}/boot`, 403, { reason: "Forbidden" }, NODE),
      post(
        ROLES,
        {
          apiVersion: RBAC,
          kind: "Role",
          metadata: { name: "reads" },
          rules: [{ apiGroups: [""], resources: ["secrets"], resourceNames: ["boot"], verbs: ["get"] }],
        },
        201,
      ),
      get(`${SECRETS}/boot`, 403, {}, NODE),
      post(
        BINDINGS,
        {
          apiVersion: RBAC,
          kind: "RoleBinding",
          metadata: { name: "reads" },
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "reads" },
          subjects: [{ kind: "ServiceAccount", name: "holdfast-node", namespace: "holdfast-system" }],
        },
        201,
      ),
      get(`${SECRETS}/boot`, 200, { data: { userdata: "eA==" } }, SOON),
      get(`${SECRETS}/other`, 403, { details: { name: "other", kind: "secrets" } }, NODE),
      get(SECRETS, 403, {}, NODE),
      get("/api/v1/namespaces/default/secrets/boot", 403, {}, NODE),
      patch(`${ROLES}/reads`, [{ op: "add", path: "/rules/0/resourceNames/-", value: "other" }], 200, {
        rules: [{ resourceNames: ["boot", "other"] }],
      }),
      get(`${SECRETS}/other`, 200, {}, SOON),
      remove(`${BINDINGS}/reads`, undefined, 200, { status: "Success" }),
      get(`${SECRETS}/boot`, 403, {}, SOON),
    ],
  },
];
