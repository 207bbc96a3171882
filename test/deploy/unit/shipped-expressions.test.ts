import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expressionCount, expressionProblems } from "../../harness/cel-expressions.ts";
import { readManifests } from "../../harness/kube-manifests.ts";

const DEPLOY = join(import.meta.dirname, "../../../deploy");

const SHIPPED = readdirSync(DEPLOY, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".yaml") && !file.endsWith("-patch.yaml"))
  .flatMap((file) => readManifests(join(DEPLOY, file)))
  .filter((object) => expressionCount(object) > 0)
  .map((object) => [`${object.kind} ${object.metadata.name}`, object] as const);

test("the policies of deploy/admission and deploy/udn have expressions", () => {
  expect(SHIPPED.map(([name]) => name)).toEqual(
    expect.arrayContaining([
      "ValidatingAdmissionPolicy holdfast-node-allocations",
      "ValidatingAdmissionPolicy holdfast-userdefinednetworks",
    ]),
  );
});

test.each(SHIPPED)("an API server compiles every expression of %s", (_, object) => {
  expect(expressionProblems(object)).toEqual([]);
});

const policy = (variables: object[], expression = "true") => ({
  kind: "ValidatingAdmissionPolicy",
  spec: { variables, validations: [{ expression }] },
});
const variable = (name: string, expression = "1") => ({ name, expression });

test.each([
  ["a variable with a reserved name", policy([variable("namespace")]), /variable namespace: no identifier/],
  ["a variable with a literal's name", policy([variable("null")]), /variable null: no identifier/],
  ["a variable with a name that is no identifier", policy([variable("my-name")]), /no identifier/],
  ["a variable that is declared twice", policy([variable("a"), variable("a")]), /declared twice/],
  ["a reserved word of a macro", policy([], "[1].exists(package, package == 1)"), /Reserved identifier/],
  ["a name that nothing declares", policy([], "subject == null"), /Unknown variable: subject/],
  ["a variable that nothing declares", policy([], "has(variables.b.c)"), /declares variables\.b/],
  ["a variable that is declared later", policy([variable("a", "variables.b"), variable("b")]), /variables\.b/],
  ["a broken expression", policy([], "1 +"), /1 \+: /],
  [
    "a variable in a condition of the match",
    { kind: "ValidatingAdmissionPolicy", spec: { matchConditions: [{ expression: "variables.a" }] } },
    /Unknown variable: variables/,
  ],
  [
    "a rule of a schema",
    {
      kind: "CustomResourceDefinition",
      spec: { a: [{ "x-kubernetes-validations": [{ rule: "object.a" }] }] },
    },
    /Unknown variable: object/,
  ],
])("%s is refused as an API server refuses it", (_, object, problem) => {
  expect(expressionProblems(object).join("\n")).toMatch(problem);
});
