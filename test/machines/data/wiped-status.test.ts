/** Every status is lost, as by a backup that has none, while the machines go on running. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

/** Beyond every grace, ms. */
const LONG_MS = 60_000;

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", {
    metaData: { indexes: [{ key: "number" }] },
    networkData: { services: { dns: ["192.0.2.53"] } },
  });
});
afterEach(() => here.stop());

async function machine(name: string): Promise<void> {
  here.host(name);
  here.machine(name);
  await here.settle();
}

const namesOf = (collection: string): string[] => here.all(collection).map(({ metadata }) => metadata.name);

/** What the controller alone has written, as others read it. */
function written(): unknown {
  return {
    indexes: here.readTemplate("t").status.indexes,
    claims: here.all(PATHS.claims).map(({ metadata, status }) => [metadata.name, status.renderedData]),
    datas: here.all(PATHS.datas).map(({ metadata, status }) => [metadata.name, status.ready]),
    machines: here.all(PATHS.machines).map(({ metadata, status }) => {
      const { renderedData, metaData, networkData } = status;
      return [metadata.name, renderedData, metaData, networkData];
    }),
    secrets: namesOf(PATHS.secrets).map((name) => [name, here.secret(name, "metaData")]),
  };
}

test("indexes, names, references and Secrets are as before when all statuses were wiped while no controller ran", async () => {
  here.start();
  for (const name of ["a", "b", "c"]) await machine(name);
  // A gap among the indexes, which a count from 0 would close.
  here.remove(PATHS.machines, "b");
  here.remove(PATHS.claims, "b");
  here.remove(PATHS.datas, "t-1");
  await here.settle(LONG_MS);
  const before = { indexes: here.indexes(), written: written() };
  expect(before.indexes).toEqual({ a: 0, c: 2 });
  await here.stop();

  for (const collection of [PATHS.templates, PATHS.claims, PATHS.datas, PATHS.machines])
    for (const name of namesOf(collection))
      here.change(collection, name, (object) => {
        delete object.status;
      });
  here.start();
  await here.settle(LONG_MS);
  expect({ indexes: here.indexes(), written: written() }).toEqual(before);
  await machine("d");
  expect(here.indexes()).toEqual({ a: 0, d: 1, c: 2 });
});
