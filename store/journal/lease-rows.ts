import type Database from "better-sqlite3";

/** An address that was recorded from a file of host-local's. */
export interface LeaseRow {
  readonly network_id: number;
  readonly address: Buffer;
  readonly path: string;
  readonly file_id: string;
  readonly container_id: string;
  readonly interface: string;
}

export class LeaseRows {
  readonly #directories: Database.Statement<[], { network: string; directory: string }>;
  readonly #remember: Database.Statement<[number, string]>;
  readonly #get: Database.Statement<[number, Uint8Array], LeaseRow>;
  readonly #ofNetwork: Database.Statement<[number], LeaseRow>;
  readonly #put: Database.Statement<[number, Uint8Array, string, string, string, string]>;
  readonly #delete: Database.Statement<[number, Uint8Array]>;
  readonly #nameless: Database.Statement<[string], LeaseRow>;
  readonly #nameAllocations: Database.Statement<[string, number, number, string]>;
  readonly #nameLeases: Database.Statement<[string, number, string]>;
  /** Some file may lack its interface, as of a host-local before 0.8. Every ADD checks this; most nodes have none. */
  #mayHaveNameless: boolean;

  constructor(db: Database.Database) {
    this.#directories = db.prepare(
      `SELECT networks.name AS network, directory FROM host_local_folders
       JOIN networks ON networks.id = network_id ORDER BY networks.name, directory`,
    );
    this.#remember = db.prepare("INSERT OR IGNORE INTO host_local_folders (network_id, directory) VALUES (?, ?)");
    this.#get = db.prepare("SELECT * FROM host_local_leases WHERE network_id = ? AND address = ?");
    this.#ofNetwork = db.prepare("SELECT * FROM host_local_leases WHERE network_id = ? ORDER BY address");
    this.#put = db.prepare(
      `INSERT INTO host_local_leases (network_id, address, path, file_id, container_id, interface) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (network_id, address) DO UPDATE SET path = excluded.path, file_id = excluded.file_id,
         container_id = excluded.container_id, interface = excluded.interface`,
    );
    this.#delete = db.prepare("DELETE FROM host_local_leases WHERE network_id = ? AND address = ?");
    this.#nameless = db.prepare("SELECT * FROM host_local_leases WHERE container_id = ? AND interface = ''");
    this.#nameAllocations = db.prepare(
      `UPDATE allocations SET owner_interface = ? WHERE network_id = ? AND owner_kind = 'container' AND owner_interface = ''
         AND address IN (SELECT address FROM host_local_leases WHERE network_id = ? AND container_id = ? AND interface = '')`,
    );
    this.#nameLeases = db.prepare(
      "UPDATE host_local_leases SET interface = ? WHERE network_id = ? AND container_id = ? AND interface = ''",
    );
    this.#mayHaveNameless =
      db.prepare("SELECT 1 FROM host_local_leases WHERE interface = '' LIMIT 1").get() !== undefined;
  }

  directories(): { network: string; directory: string }[] {
    return this.#directories.all();
  }

  remember(networkId: number, directory: string): void {
    this.#remember.run(networkId, directory);
  }

  get(networkId: number, address: Uint8Array): LeaseRow | undefined {
    return this.#get.get(networkId, address);
  }

  ofNetwork(networkId: number): LeaseRow[] {
    return this.#ofNetwork.all(networkId);
  }

  put(row: LeaseRow): void {
    if (row.interface === "") this.#mayHaveNameless = true;
    this.#put.run(row.network_id, row.address, row.path, row.file_id, row.container_id, row.interface);
  }

  delete({ network_id: networkId, address }: Pick<LeaseRow, "network_id" | "address">): void {
    this.#delete.run(networkId, address);
  }

  /** Records the interface of a container's files on a network, and of what it owns through them. */
  nameInterface(networkId: number, containerId: string, interfaceName: string): void {
    this.#nameAllocations.run(interfaceName, networkId, networkId, containerId);
    this.#nameLeases.run(interfaceName, networkId, containerId);
  }

  namelessOf(containerId: string): LeaseRow[] {
    return this.#mayHaveNameless ? this.#nameless.all(containerId) : [];
  }
}
