import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { migrate } from "../../store/journal/migrations.ts";

/** The schema of release 0.2.0, which kept a plan of each network's listener. */
const VERSION_BEFORE = 5;

const PLANS: readonly (readonly [network: string, plan: string | null, mtu: number | null])[] = [
  ["whole", '{"bridge":"br1","vlan":7,"preserveDefaultVlan":true,"mtu":1400,"others":["c9/eth0"]}', 1400],
  ["without", '{"bridge":"br1","vlan":null,"preserveDefaultVlan":true,"mtu":null}', null],
  ["odd", '{"bridge":"br1","mtu":"1400"}', null],
  ["broken", '{"bridge":', null],
  ["plain", null, null],
];

test("a journal with listeners' plans: guests of those networks are marked, and of the plans the MTU stays", () => {
  const db = new Database(":memory:");
  migrate(db, VERSION_BEFORE);
  const values = "'c', 'pod', 'u', '', 'ns', 'p', '', '[]', 'boot', 1, '/run/netns/x', '', 1, 'n', 1, 1, 1";
  for (const [network, plan] of PLANS) {
    const { lastInsertRowid: id } = db.prepare("INSERT INTO networks (name) VALUES (?)").run(network);
    if (plan !== null)
      db.prepare("INSERT INTO listener_plans (network_id, plan) VALUES (?, ?)").run(id, plan);
    db.prepare(
      `INSERT INTO attachments (network_id, interface, container_id, owner_kind, owner_uid, owner_interface,
         owner_namespace, owner_name, claim_ref, ips, boot_id, boot_us, netns_path, netns_id, netns_witnessed, node,
         since_ms, history_id, history_count) VALUES (?, ?, ${values})`,
    ).run(id, `net${id}`);
  }
  migrate(db);
  const rows = db
    .prepare(
      "SELECT name, mtu, via_reserved FROM networks JOIN attachments ON network_id = networks.id ORDER BY networks.id",
    )
    .all();
  expect(rows).toEqual(
    PLANS.map(([name, plan, mtu]) => ({ name, mtu, via_reserved: plan === null ? 0 : 1 })),
  );
  expect(db.prepare("SELECT name FROM sqlite_schema WHERE name = 'listener_plans'").all()).toEqual([]);
  db.close();
});
