import { expect, test } from "vitest";
import { read, tracked } from "./tracked.ts";

/**
 * Names of kinds that we mean, under which kubectl finds Kubernetes' own: networking.k8s.io has IPAddress since 1.33.
 */
const AMBIGUOUS = /\bkubectl\b[^`\n]*?[ ,](ipaddress|ipaddresses)(?![.\w])/;

test("commands for kubectl name a kind with its group where Kubernetes has one of that name too", () => {
  const found = tracked(/\.(md|ts)$/)
    .filter((file) => file !== "test/tidy/kubectl.test.ts")
    .flatMap((file) =>
      read(file)
        .split("\n")
        .map((line) => [file, AMBIGUOUS.exec(line)?.[0]]),
    )
    .filter(([, command]) => command !== undefined);
  expect(found).toEqual([]);
});
