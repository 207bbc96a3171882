import { describe, test } from "vitest";
import { expectProportion } from "./measure.ts";
import { CASES, reflected } from "./views.ts";

describe.each(CASES)("$kind", ({ project, texts }) => {
  const read = reflected(project);

  test.each(texts)("$field: of $shape takes time in proportion to the text", ({ textOf }) => {
    expectProportion((share) => textOf(1, share), read);
  });
});
