-- The state database that a daemon of 0.1.0 has left: a claim of a stopped VM, a container and a released address.
PRAGMA user_version = 3;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE networks (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    runtime_config TEXT
  ) STRICT;
CREATE TABLE definitions (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    network TEXT NOT NULL,
    config TEXT NOT NULL,
    manifest TEXT NOT NULL,
    UNIQUE (namespace, name)
  ) STRICT;
CREATE TABLE allocations (
    id INTEGER PRIMARY KEY,
    network_id INTEGER NOT NULL REFERENCES networks (id),
    address BLOB NOT NULL CHECK (length(address) = 5 OR length(address) = 17),
    prefix_length INTEGER NOT NULL,
    owner_kind TEXT NOT NULL CHECK (owner_kind = 'claim' OR owner_kind = 'pod' OR owner_kind = 'container'),
    owner_uid TEXT NOT NULL CHECK (owner_uid <> ''),
    owner_interface TEXT NOT NULL,
    owner_namespace TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state = 'Bound' OR state = 'Cooling'),
    adopted INTEGER NOT NULL DEFAULT 0,
    since_ms INTEGER NOT NULL,
    UNIQUE (network_id, address)
  ) STRICT;
CREATE INDEX allocations_by_owner ON allocations (owner_uid, owner_interface, network_id, address)
    WHERE owner_kind = 'claim' OR state = 'Cooling';
CREATE INDEX allocations_cooling ON allocations (id) WHERE state = 'Cooling';
CREATE TABLE attachments (
    id INTEGER PRIMARY KEY,
    network_id INTEGER NOT NULL REFERENCES networks (id),
    container_id TEXT NOT NULL,
    interface TEXT NOT NULL,
    owner_kind TEXT NOT NULL,
    owner_uid TEXT NOT NULL,
    owner_interface TEXT NOT NULL,
    owner_namespace TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    claim_ref TEXT NOT NULL,
    ips TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    boot_us INTEGER NOT NULL,
    netns_path TEXT NOT NULL,
    netns_id TEXT NOT NULL,
    netns_witnessed INTEGER NOT NULL,
    pod_namespace TEXT,
    pod_name TEXT,
    pod_uid TEXT,
    node TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    history_id INTEGER NOT NULL,
    history_count INTEGER NOT NULL, lost INTEGER NOT NULL DEFAULT 0, mac TEXT,
    UNIQUE (container_id, interface, network_id)
  ) STRICT;
CREATE INDEX attachments_by_owner ON attachments (owner_uid, owner_interface) WHERE owner_kind <> 'container';
CREATE TABLE tombstones (
    container_id TEXT NOT NULL,
    interface TEXT NOT NULL,
    network TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    boot_us INTEGER NOT NULL,
    PRIMARY KEY (container_id, interface, network)
  ) STRICT, WITHOUT ROWID;
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
CREATE TABLE intents (
    id INTEGER PRIMARY KEY,
    network_id INTEGER NOT NULL REFERENCES networks (id),
    container_id TEXT NOT NULL,
    interface TEXT NOT NULL,
    owner_kind TEXT NOT NULL,
    owner_uid TEXT NOT NULL,
    owner_interface TEXT NOT NULL,
    owner_namespace TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    boot_us INTEGER NOT NULL,
    addresses TEXT NOT NULL
  ) STRICT;
CREATE INDEX intents_by_container ON intents (container_id, interface);
CREATE INDEX intents_by_owner ON intents (owner_uid);
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    network TEXT NOT NULL,
    address BLOB NOT NULL,
    owner_kind TEXT NOT NULL,
    owner_uid TEXT NOT NULL,
    owner_interface TEXT NOT NULL,
    container_id TEXT NOT NULL,
    interface TEXT NOT NULL,
    again INTEGER NOT NULL DEFAULT 0
  ) STRICT;
CREATE INDEX history_open ON history (address, network_id) WHERE until_ms IS NULL;
CREATE TABLE listener_plans (
    network_id INTEGER PRIMARY KEY REFERENCES networks (id),
    plan TEXT NOT NULL
  ) STRICT;
INSERT INTO meta VALUES ('opened', '1');
INSERT INTO networks VALUES (1, 'red', NULL);
INSERT INTO networks VALUES (2, 'blue', '{"cniVersion":"1.0.0","name":"blue","type":"bridge","ipam":{"type":"holdfast-ipam","subnets":"10.8.0.0/24"}}
');
INSERT INTO definitions VALUES (1, 'default', 'red', 'red', '{"cniVersion":"1.0.0","name":"red","type":"bridge","bridge":"br-red","ipam":{"type":"holdfast-ipam","subnets":"10.9.0.0/24","allowPersistentIPs":true}}', '{"metadata":{},"spec":{"config":"{\"cniVersion\":\"1.0.0\",\"name\":\"red\",\"type\":\"bridge\",\"bridge\":\"br-red\",\"ipam\":{\"type\":\"holdfast-ipam\",\"subnets\":\"10.9.0.0/24\",\"allowPersistentIPs\":true}}"}}');
INSERT INTO allocations VALUES (1, 1, X'040a0900d9', 24, 'claim', '9805bca1-0a1a-473e-9cf3-46bd065fd42a', '', 'default', 'vm1', 'Bound', 0, 1795335590426);
INSERT INTO allocations VALUES (2, 2, X'040a080001', 24, 'container', 'web', 'eth0', '', '', 'Bound', 0, 1795335590460);
INSERT INTO allocations VALUES (3, 2, X'040a080002', 24, 'container', 'db', 'eth0', '', '', 'Cooling', 0, 1795335590513);
INSERT INTO attachments VALUES (1, 2, 'web', 'eth0', 'container', 'web', 'eth0', '', '', '', '[{"address":"10.8.0.1/24"}]', '6c60fcae-4711-45ec-b1a7-ccbf13a10af7', 4062913657, '/run/netns/none', '', 0, NULL, NULL, NULL, 'vm', 1795335590460, 3, 1, 0, NULL);
INSERT INTO tombstones VALUES ('db', 'eth0', 'blue', '6c60fcae-4711-45ec-b1a7-ccbf13a10af7', 4062961066);
INSERT INTO tombstones VALUES ('vm1-run1', 'eth0', 'red', '6c60fcae-4711-45ec-b1a7-ccbf13a10af7', 4062893052);
INSERT INTO claims VALUES ('9805bca1-0a1a-473e-9cf3-46bd065fd42a', 'default', 'vm1', 'red', '{"metadata":{},"spec":{"network":"red","interface":""}}', '', '', '["10.9.0.217/24"]', NULL, '[{"type":"IPsAllocated","lastTransitionTime":"2026-11-22T08:19:50Z","status":"True","reason":"SuccessfulAllocation","message":"IP addresses successfully allocated"}]', 1795335590367, NULL, 2);
INSERT INTO history VALUES (1, 1, X'040a0900d9', 24, 'claim', '9805bca1-0a1a-473e-9cf3-46bd065fd42a', '', 'default', 'vm1', NULL, NULL, NULL, NULL, NULL, 'vm', 1795335590427, NULL, NULL);
INSERT INTO history VALUES (2, 1, X'040a0900d9', 24, 'claim', '9805bca1-0a1a-473e-9cf3-46bd065fd42a', '', 'default', 'vm1', 'vm1-run1', 'eth0', NULL, NULL, NULL, 'vm', 1795335590427, 1795335590442, 'DEL');
INSERT INTO history VALUES (3, 2, X'040a080001', 24, 'container', 'web', 'eth0', '', '', 'web', 'eth0', NULL, NULL, NULL, 'vm', 1795335590460, NULL, NULL);
INSERT INTO history VALUES (4, 2, X'040a080002', 24, 'container', 'db', 'eth0', '', '', 'db', 'eth0', NULL, NULL, NULL, 'vm', 1795335590483, 1795335590513, 'DEL');
