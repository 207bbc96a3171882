import { type ASTNode, Environment } from "@marcbachmann/cel-js";
import type { KubeObject } from "./kube-api.ts";

/*
 * What a server compiles when ValidatingAdmissionPolicies and definitions are written, and refuses: names that CEL
 * reserves (https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax), syntax, and what nothing declares.
 */

const IDENTIFIER = /^[_a-zA-Z][_a-zA-Z0-9]*$/;
const RESERVED = new Set(
  (
    "true false null in as break const continue else for function if import let loop package namespace " +
    "return var void while"
  ).split(" "),
);
/** What Kubernetes declares where (k8s.io/apiserver, plugin/policy/validating and schema/cel). */
const OF_REQUESTS = ["object", "oldObject", "request", "authorizer"];
const OF_RULES = [...OF_REQUESTS, "params", "namespaceObject", "variables"];
const OF_SCHEMAS = ["self", "oldSelf"];

/** Why a server would refuse the expressions of an object; none for an object without any. */
export function expressionProblems(object: KubeObject): string[] {
  return object.kind === "ValidatingAdmissionPolicy"
    ? policyProblems(object.spec)
    : schemaRules(object).flatMap(({ rule, messageExpression }) =>
        [rule, messageExpression].flatMap((one) => (one === undefined ? [] : problemsOf(one, OF_SCHEMAS, []))),
      );
}

/** How many expressions an object has. */
export function expressionCount({ kind, spec, ...more }: KubeObject): number {
  if (kind !== "ValidatingAdmissionPolicy") return schemaRules({ kind, spec, ...more }).length;
  return [spec.matchConditions, spec.variables, spec.validations].flatMap((list) => list ?? []).length;
}

function policyProblems({ matchConditions = [], variables = [], validations = [], ...spec }: KubeObject) {
  const problems: string[] = [];
  for (const { expression } of matchConditions) problems.push(...problemsOf(expression, OF_REQUESTS, []));
  const declared: string[] = [];
  for (const { name, expression } of variables) {
    if (!IDENTIFIER.test(name) || RESERVED.has(name)) problems.push(`variable ${name}: no identifier of CEL`);
    if (declared.includes(name)) problems.push(`variable ${name} is declared twice`);
    problems.push(...problemsOf(expression, OF_RULES, declared));
    declared.push(name);
  }
  for (const { expression, messageExpression } of validations) {
    problems.push(...problemsOf(expression, OF_RULES, declared));
    if (messageExpression !== undefined) problems.push(...problemsOf(messageExpression, OF_RULES, declared));
  }
  for (const { valueExpression } of spec.auditAnnotations ?? [])
    problems.push(...problemsOf(valueExpression, OF_RULES, declared));
  return problems;
}

/** Every `x-kubernetes-validations` of an object, wherever it is. */
function schemaRules(within: unknown): KubeObject[] {
  if (typeof within !== "object" || within === null) return [];
  return Object.entries(within).flatMap(([key, value]) =>
    key === "x-kubernetes-validations" ? (value as KubeObject[]) : schemaRules(value),
  );
}

/** `variables`: those declared before the expression. */
function problemsOf(expression: string, names: readonly string[], variables: readonly string[]): string[] {
  const environment = new Environment();
  for (const name of names) environment.registerVariable(name, "dyn");
  try {
    const { valid, error } = environment.check(expression);
    if (!valid) throw error;
    return variablesIn(environment.parse(expression).ast)
      .filter((name) => !variables.includes(name))
      .map((name) => `${expression}: nothing before it declares variables.${name}`);
  } catch (error) {
    return [`${expression}: ${(error as Error).message}`];
  }
}

/** The names X of all `variables.X`. */
function variablesIn(node: unknown): string[] {
  if (Array.isArray(node)) return node.flatMap(variablesIn);
  if (typeof node !== "object" || node === null || !("op" in node)) return [];
  const { op, args } = node as ASTNode;
  const [of, field] = op === "." ? args : [];
  if (of?.op === "id" && of.args === "variables" && field !== undefined) return [field];
  return variablesIn(args);
}
