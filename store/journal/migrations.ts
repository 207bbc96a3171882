import type Database from "better-sqlite3";
import { OWNER_KINDS } from "../../ipam/owner.ts";
import { PROGRESS_SCHEMA } from "./files/progress.ts";
import { FORGETTABLE, kindIs, LIVE, OVER, PENDING, RELEASED } from "./rows.ts";

/**
 * The schema, one entry per version; `PRAGMA user_version` is the number of entries that have run. Until the first
 * release the one entry is edited in place (docs/decisions/0047). Released entries are never edited: a change, such as
 * another kind of owner, is a new entry.
 */
const MIGRATIONS: readonly string[] = [
  `
  -- How far this database has come: written in each commit, and compared at each start with what was answered.
  ${PROGRESS_SCHEMA}

  -- Which node it is of, which boot it last served, and whether it was rebuilt.
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

  -- Every network ever seen. runtime_config is the plugin configuration that last defined it on stdin.
  CREATE TABLE networks (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    runtime_config TEXT,
    -- 1: an ADD came through a bridge with isGateway, so the gateway's address is the bridge's, whatever defines the network.
    bridge_is_gateway INTEGER NOT NULL DEFAULT 0,
    -- mtu of the plugin's configuration at the last ADD on a network with metadata.
    mtu INTEGER
  ) STRICT;

  -- Applied NetworkAttachmentDefinitions; the oldest that names a network defines it.
  CREATE TABLE definitions (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    network TEXT NOT NULL,
    config TEXT NOT NULL,
    manifest TEXT NOT NULL,
    UNIQUE (namespace, name)
  ) STRICT;

  -- The truth. UNIQUE (network_id, address) is what makes a duplicate impossible.
  -- address: one family byte (4 or 6), then the address, so that rows sort as addresses do.
  CREATE TABLE allocations (
    id INTEGER PRIMARY KEY,
    network_id INTEGER NOT NULL REFERENCES networks (id),
    address BLOB NOT NULL CHECK (length(address) = 5 OR length(address) = 17),
    prefix_length INTEGER NOT NULL,
    owner_kind TEXT NOT NULL CHECK ${kindIs(Object.keys(OWNER_KINDS))},
    owner_uid TEXT NOT NULL CHECK (owner_uid <> ''),
    owner_interface TEXT NOT NULL,
    owner_namespace TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state = 'Bound' OR state = 'Retained' OR state = 'Cooling'),
    adopted INTEGER NOT NULL DEFAULT 0,
    since_ms INTEGER NOT NULL,
    -- Until when it is reserved for a claim of its owner's name.
    retained_until_ms INTEGER CHECK ((state = 'Retained') = (retained_until_ms IS NOT NULL)),
    UNIQUE (network_id, address)
  ) STRICT;
  -- Pods and containers hold exactly what their attachments were answered, so only these rows need to be found by owner.
  CREATE INDEX allocations_by_owner ON allocations (owner_uid, owner_interface, network_id, address)
    WHERE owner_kind = 'claim' OR state = 'Cooling';
  CREATE INDEX allocations_cooling ON allocations (id) WHERE state = 'Cooling';
  CREATE INDEX allocations_retained ON allocations (owner_namespace, owner_name, network_id, address)
    WHERE state = 'Retained';

  -- What this node knows of each use of addresses: one interface of one container on one network. phase:
  --   taking   in Kubernetes: an ADD is about to reserve ips; written before its first remote write
  --   held     answered, or learnt from the API server
  --   leaving  in Kubernetes: over; the release of ips is pending
  --   gone     given back, or a DEL of something unknown: what is older than that DEL takes nothing any more
  -- taking, held and leaving begin with a new id each, so that ids tell the order within them; gone keeps that of leaving, and
  -- without a cluster, where a DEL gives everything back at once, that of held.
  CREATE TABLE uses (
    id INTEGER PRIMARY KEY,
    phase TEXT NOT NULL CHECK (phase = 'taking' OR phase = 'held' OR phase = 'leaving' OR phase = 'gone'),
    -- NULL: a DEL of every network.
    network_id INTEGER REFERENCES networks (id) CHECK (network_id IS NOT NULL OR phase = 'gone'),
    container_id TEXT NOT NULL,
    interface TEXT NOT NULL,
    owner_kind TEXT NOT NULL DEFAULT '',
    owner_uid TEXT NOT NULL DEFAULT '',
    owner_interface TEXT NOT NULL DEFAULT '',
    owner_namespace TEXT NOT NULL DEFAULT '',
    owner_name TEXT NOT NULL DEFAULT '',
    claim_ref TEXT NOT NULL DEFAULT '',
    -- JSON: list of CIDR with gateways.
    ips TEXT NOT NULL DEFAULT '[]',
    boot_id TEXT NOT NULL DEFAULT '',
    boot_us INTEGER NOT NULL DEFAULT 0,
    netns_path TEXT NOT NULL DEFAULT '',
    netns_id TEXT NOT NULL DEFAULT '',
    netns_witnessed INTEGER NOT NULL DEFAULT 0,
    pod_namespace TEXT,
    pod_name TEXT,
    pod_uid TEXT,
    node TEXT NOT NULL DEFAULT '',
    since_ms INTEGER NOT NULL DEFAULT 0,
    history_id INTEGER NOT NULL DEFAULT 0,
    history_count INTEGER NOT NULL DEFAULT 0,
    -- In Kubernetes: an address of it was found in somebody else's hands.
    lost INTEGER NOT NULL DEFAULT 0,
    -- MAC that somebody asked for with the ADD, in any of the usual spellings.
    mac TEXT,
    -- In Kubernetes, held: the newest version of what was written for it; 0: not known. Gone: that of its release, for the
    -- last one and those in a gap in contact; 1: no number is known; 0: what it is remembered for is a DEL.
    version INTEGER NOT NULL DEFAULT 0,
    -- Leaving or gone, 1: a DEL of it was seen, and boot_id and boot_us are that DEL's.
    deleted INTEGER NOT NULL DEFAULT 0,
    -- Leaving, 1: the container certainly runs no more, or was never answered.
    ended INTEGER NOT NULL DEFAULT 0,
    -- Leaving or gone, 1: looked at once more later, because a write whose answer was lost may still arrive.
    again INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE UNIQUE INDEX uses_live ON uses (container_id, interface, network_id, phase) WHERE ${LIVE};
  CREATE INDEX uses_over ON uses (container_id, interface) WHERE ${OVER};
  -- A container as owner is found by container_id.
  CREATE INDEX uses_by_owner ON uses (owner_uid, owner_interface) WHERE ${LIVE} AND owner_kind <> 'container';
  -- A scrape counts by network, in one turn of the event loop.
  CREATE INDEX uses_by_network ON uses (network_id) WHERE phase = 'held';
  -- Which interfaces the pod has that a metadata server asks about.
  CREATE INDEX uses_by_pod ON uses (pod_uid) WHERE phase = 'held' AND pod_uid IS NOT NULL;
  CREATE INDEX uses_taking ON uses (id) WHERE phase = 'taking';
  -- Has all that housekeeping asks of what is gone.
  CREATE INDEX uses_gone ON uses (boot_id, boot_us) WHERE ${FORGETTABLE};
  CREATE INDEX uses_released ON uses (id) WHERE ${RELEASED};
  CREATE INDEX uses_pending ON uses (id) WHERE ${PENDING};

  CREATE TABLE claims (
    uid TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    network TEXT NOT NULL,
    manifest TEXT NOT NULL,
    vm_name TEXT NOT NULL,
    vm_uid TEXT NOT NULL,
    ips TEXT NOT NULL,
    owner_pod TEXT,
    conditions TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    deleted_ms INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    UNIQUE (namespace, name)
  ) STRICT, WITHOUT ROWID;

  -- Who had which address from when to when, where. container_id NULL: held by a claim, not in use.
  CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    network_id INTEGER NOT NULL,
    address BLOB NOT NULL,
    prefix_length INTEGER NOT NULL,
    owner_kind TEXT NOT NULL,
    owner_uid TEXT NOT NULL,
    owner_interface TEXT NOT NULL,
    owner_namespace TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    container_id TEXT,
    interface TEXT,
    pod_namespace TEXT,
    pod_name TEXT,
    pod_uid TEXT,
    node TEXT NOT NULL,
    from_ms INTEGER NOT NULL,
    until_ms INTEGER,
    ended_by TEXT
  ) STRICT;
  CREATE INDEX history_by_address ON history (address, network_id);
  -- Who uses an address now: what a metadata server asks for at each of its requests.
  CREATE INDEX history_open ON history (address, network_id) WHERE until_ms IS NULL;

  -- host-local's directories whose addresses were recorded: they are followed.
  CREATE TABLE host_local_folders (
    network_id INTEGER NOT NULL REFERENCES networks (id),
    directory TEXT NOT NULL,
    PRIMARY KEY (network_id, directory)
  ) STRICT, WITHOUT ROWID;

  -- Addresses that were recorded from a file of host-local's, with the attachment that stands for its container.
  -- Kept while the file is there, also when the attachment has ended: so that it is not recorded again.
  CREATE TABLE host_local_leases (
    network_id INTEGER NOT NULL REFERENCES networks (id),
    address BLOB NOT NULL,
    path TEXT NOT NULL,
    file_id TEXT NOT NULL,
    container_id TEXT NOT NULL,
    interface TEXT NOT NULL,
    PRIMARY KEY (network_id, address)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX host_local_leases_by_container ON host_local_leases (container_id);

  -- Applied Secrets and ConfigMaps: what claims name for their guests. labels, keys, data: JSON; values of data in base64.
  CREATE TABLE contents (
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    immutable INTEGER NOT NULL,
    keys TEXT NOT NULL,
    data TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (namespace, kind, name)
  ) STRICT;
  `,
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** Brings the schema up to date, each step in its own transaction. Throws when another release has written the file. */
export function migrate(db: Database.Database): void {
  const found = db.pragma("user_version", { simple: true }) as number;
  if (found > SCHEMA_VERSION) {
    throw new Error(
      `the state database has schema version ${found}, this release knows ${SCHEMA_VERSION}: install the release that wrote it`,
    );
  }
  for (let done = found; done < SCHEMA_VERSION; done += 1) {
    db.transaction(() => {
      db.exec(MIGRATIONS[done] as string);
      db.pragma(`user_version = ${done + 1}`);
    })();
  }
}
