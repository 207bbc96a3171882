import { expect, test } from "vitest";
import { ApiAway } from "../../../kube/kube-api.ts";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

const TEMPLATE = {
  metaData: { indexes: [{ key: "number" }], ipAddressesFromPool: [{ key: "address", name: "p" }] },
};
const MACHINES = ["a", "b"];

/** Writes that own mode makes for the machines, in the order in which they were sent. */
async function world(): Promise<OwnModeHere> {
  const here = new OwnModeHere();
  here.serveClaims();
  here.template("t", TEMPLATE);
  for (const name of MACHINES) {
    here.host(name);
    here.machine(name);
  }
  return here;
}

/** As a provider: every claim has its address. */
async function answered(here: OwnModeHere): Promise<void> {
  await here.settle();
  for (const [i, { metadata, status }] of here.all(PATHS.addressClaims).entries())
    if (status?.addressRef === undefined) here.answer(metadata.name, `10.0.0.${i + 10}`);
  await here.settle();
}

async function countWrites(): Promise<number> {
  const here = await world();
  here.start();
  await answered(here);
  await here.stop();
  return here.api.writes.length;
}

test.each([
  ["before it is delivered", false],
  ["after it is delivered", true],
])("a controller that ends with any of its writes, %s, leaves what the next one completes", async (_, delivered) => {
  const count = await countWrites();
  expect(count).toBeGreaterThan(10);
  for (let last = 1; last <= count; last += 1) {
    const here = await world();
    let writes = 0;
    let isDelivering = false;
    here.api.before = async (request) => {
      if (request.method === "GET" || isDelivering) return;
      writes += 1;
      if (writes < last) return;
      here.idle = "ended";
      isDelivering = delivered && writes === last;
      if (isDelivering) expect((await here.api.send(request)).status, `write ${last}`).toBeLessThan(300);
      isDelivering = false;
      throw new ApiAway("ended");
    };
    here.start();
    await answered(here);
    await here.stop();
    here.api.before = () => {};
    here.idle = null;
    here.start();
    await answered(here);
    const datas = here.all(PATHS.datas);
    expect(datas.map(({ spec }) => spec.claim.name).toSorted(), `write ${last}`).toEqual(MACHINES);
    expect(datas.map(({ spec }) => spec.index).toSorted(), `write ${last}`).toEqual([0, 1]);
    for (const { spec } of datas)
      expect(here.secret(`${spec.claim.name}-metadata`, "metaData"), `write ${last}`).toMatch(
        new RegExp(`^address: 10\\.0\\.0\\.\\d+\nnumber: "${spec.index}"\n`),
      );
    for (const name of MACHINES)
      expect(here.readHost(name).spec.metaData, `write ${last}`).toMatchObject({
        name: `${name}-metadata`,
      });
    await here.stop();
  }
});
