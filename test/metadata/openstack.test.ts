import { Buffer } from "node:buffer";
import { describe, expect, test } from "vitest";
import { PASSWORD_BYTES_MAX } from "../../metadata/documents/openstack.ts";
import { respond } from "../../metadata/documents/route.ts";
import { BARE, get, instance, NOW_MS, OPTIONS, request } from "./instances.ts";

const DATES = [
  "2012-08-10",
  "2013-04-04",
  "2013-10-17",
  "2015-10-15",
  "2016-06-30",
  "2016-10-06",
  "2017-02-22",
  "2018-08-27",
  "2020-10-14",
  "2025-04-04",
];

test.each(["/openstack", "/openstack/"])("%s lists the versions, without a final line break", (path) => {
  const { status, headers, text } = get(path);
  expect([status, headers["content-type"]]).toEqual([200, "text/plain; charset=UTF-8"]);
  expect(text).toBe([...DATES, "latest"].join("\n"));
});

describe("the listing of a version", () => {
  const since = (version: string, things: [string, string][]) =>
    things.filter(([date]) => version >= date).map(([, name]) => name);
  test.each([...DATES, "latest"])("%s", (version) => {
    const names = since(version === "latest" ? "9" : version, [
      ["", "meta_data.json"],
      ["", "user_data"],
      ["2013-04-04", "password"],
      ["2013-10-17", "vendor_data.json"],
      ["2015-10-15", "network_data.json"],
      ["2016-10-06", "vendor_data2.json"],
    ]);
    expect(get(`/openstack/${version}`).text).toBe(names.join("\n"));
    for (const name of ["user_data", "password", "vendor_data.json", "network_data.json", "vendor_data2.json"]) {
      expect([name, get(`/openstack/${version}/${name}`).status]).toEqual([name, names.includes(name) ? 200 : 404]);
    }
  });

  test("files without content are not listed: user data, password and network data", () => {
    expect(get("/openstack/latest", { of: BARE }).text).toBe(
      ["meta_data.json", "vendor_data.json", "vendor_data2.json"].join("\n"),
    );
    expect(get("/openstack/latest/network_data.json", { of: BARE }).status).toBe(404);
  });
});

describe("meta_data.json", () => {
  const of = (version: string, given = instance()) =>
    JSON.parse(get(`/openstack/${version}/meta_data.json`, { of: given }).text);

  test("the newest version is complete", () => {
    const { random_seed, ...rest } = of("latest");
    expect(Buffer.from(random_seed, "base64")).toHaveLength(512);
    expect(rest).toEqual({
      uuid: "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11",
      meta: { role: "db", "cost-centre": "17" },
      public_keys: {
        alice: "ssh-ed25519 AAAAalice alice@example.net",
        bob: "ssh-ed25519 AAAAbob bob@example.net",
      },
      keys: [
        { name: "alice", type: "ssh", data: "ssh-ed25519 AAAAalice alice@example.net" },
        { name: "bob", type: "ssh", data: "ssh-ed25519 AAAAbob bob@example.net" },
      ],
      hostname: "vm1.example.net",
      name: "vm1",
      launch_index: 0,
      availability_zone: "zone-a",
      project_id: "0b4c7f0e-2f7d-4a43-8a52-6a1a4c5d0f01",
      devices: [
        {
          vf_trusted: false,
          type: "nic",
          mac: "52:54:00:de:5b:bf",
          bus: "none",
          address: "none",
          tags: ["tenantblue"],
        },
        {
          vf_trusted: false,
          type: "nic",
          mac: "52:54:00:00:00:02",
          bus: "none",
          address: "none",
          tags: ["storage"],
        },
      ],
      dedicated_cpus: [],
    });
    expect(get("/openstack/latest/meta_data.json").headers["content-type"]).toBe("application/json");
  });

  test.each([
    ["2012-08-10", [], "the first"],
    ["2013-04-04", ["random_seed"], "the seed"],
    ["2013-10-17", ["random_seed"], "no new key"],
    ["2015-10-15", ["random_seed", "project_id"], "the tenant"],
    ["2016-06-30", ["random_seed", "project_id", "devices"], "the devices"],
    ["2017-02-22", ["random_seed", "project_id", "devices"], "no VLAN is known of any"],
    ["2020-10-14", ["random_seed", "project_id", "devices", "dedicated_cpus"], "processors"],
    ["2025-04-04", ["random_seed", "project_id", "devices", "dedicated_cpus"], "shares: none here"],
  ])("%s has %j beyond the first: %s", (version, more, _why) => {
    const first = ["uuid", "hostname", "name", "launch_index", "availability_zone"];
    expect(Object.keys(of(version, BARE))).toEqual([...first, ...more]);
  });

  test("vf_trusted came with 2018-08-27", () => {
    expect(of("2017-02-22").devices[0]).not.toHaveProperty("vf_trusted");
  });

  test("an unknown zone has Nova's default name", () => {
    expect(of("latest", BARE).availability_zone).toBe("nova");
  });

  test.each([
    ["disabled", undefined, "the guest would drop the source, and with it its keys"],
    ["local", "local", "when to run is the tenant's to say"],
    ["net", "net", "likewise"],
  ])("dsmode %s becomes %s: %s", (dsmode, told, _why) => {
    expect(of("latest", instance({ meta: { dsmode, a: "b" } })).meta.dsmode).toBe(told);
  });

  test("the random seed is new in each request, and absent where there is none", () => {
    const seedOf = (seed: (() => Buffer) | null) =>
      JSON.parse(
        respond(request("/openstack/latest/meta_data.json"), instance(), { ...OPTIONS, seed }, NOW_MS).body.toString(),
      ).random_seed;
    expect(seedOf(null)).toBeUndefined();
    let calls = 0;
    const next = () => Buffer.alloc(512, ++calls);
    expect([seedOf(next), seedOf(next)]).toEqual([
      Buffer.alloc(512, 1).toString("base64"),
      Buffer.alloc(512, 2).toString("base64"),
    ]);
  });

  test("public keys with one name, a line break or no content are handled", () => {
    const publicKeys = [
      { name: "k", data: "ssh-rsa A" },
      { name: "k", data: "ssh-rsa B" },
      { name: "__proto__", data: "ssh-rsa C" },
      { name: "x\n1=root", data: "ssh-rsa D\nssh-rsa E" },
      { name: "empty", data: " \n" },
    ];
    const { public_keys, keys } = of("latest", instance({ publicKeys }));
    expect(Object.entries(public_keys)).toEqual([
      ["k", "ssh-rsa A"],
      ["k-2", "ssh-rsa B"],
      ["__proto__", "ssh-rsa C"],
      ["x 1=root", "ssh-rsa D ssh-rsa E"],
    ]);
    expect(keys).toHaveLength(4);
  });
});

test("user data is served byte for byte, also when it is compressed", () => {
  const userData = Buffer.from([0x1f, 0x8b, 0, 255, 10, 13]);
  expect(get("/openstack/latest/user_data", { of: instance({ userData }) }).body).toEqual(userData);
  expect(get("/openstack/latest/user_data", { of: BARE }).status).toBe(404);
  const empty = instance({ userData: Buffer.alloc(0) });
  expect(get("/openstack/latest/user_data", { of: empty }).status).toBe(200);
});

test("vendor data is where cloud-init looks for it, and an empty object where there is none", () => {
  expect(get("/openstack/latest/vendor_data.json").text).toBe('{"cloud-init":"#cloud-config\\nntp: {}\\n"}');
  expect(get("/openstack/latest/vendor_data2.json").text).toBe(
    '{"static":{"cloud-init":"#cloud-config\\nntp: {}\\n"}}',
  );
  expect(get("/openstack/latest/vendor_data.json", { of: BARE }).text).toBe("{}");
  expect(get("/openstack/latest/vendor_data2.json", { of: BARE }).text).toBe('{"static":{}}');
});

test("network_data.json is text/plain, as Nova sends it", () => {
  const { headers, text } = get("/openstack/latest/network_data.json");
  expect(headers["content-type"]).toBe("text/plain; charset=UTF-8");
  expect(JSON.parse(text).links).not.toEqual([]);
});

describe("password", () => {
  const PATH = "/openstack/2013-04-04/password";
  const body = Buffer.from("c2VjcmV0");
  const post = (given: Buffer, stored: Buffer | null = null) =>
    get(PATH, { method: "POST", body: given, of: instance({ password: { stored } }) });

  test("is empty until it is set, and then has the posted value", () => {
    expect(get(PATH)).toMatchObject({ status: 200, text: "" });
    expect(get(PATH, { of: instance({ password: { stored: body } }) })).toMatchObject({
      status: 200,
      text: "c2VjcmV0",
    });
  });

  test("is kept at the first POST", () => {
    expect(post(body)).toMatchObject({
      status: 200,
      text: "",
      effect: { kind: "keepPassword", instanceUuid: instance().uuid, password: body },
    });
  });

  test.each([
    [body, body, 409, "only once"],
    [Buffer.alloc(PASSWORD_BYTES_MAX, 65), null, 200, "the largest"],
    [Buffer.alloc(PASSWORD_BYTES_MAX + 1, 65), null, 400, "one byte more"],
    [Buffer.alloc(PASSWORD_BYTES_MAX + 1, 65), body, 409, "what is set comes first"],
    [Buffer.alloc(0), null, 200, "nothing to keep"],
  ])("POST %#: %3$s", (given, stored, status, _why) => {
    const answer = post(given, stored);
    expect(answer.status).toBe(status);
    expect(answer.effect !== undefined).toBe(status === 200 && given.length > 0);
  });

  test.each([
    ["PUT", PATH, 400, "Nova's answer to any third method"],
    ["DELETE", PATH, 400, "likewise"],
    ["HEAD", PATH, 200, "as GET"],
    ["POST", "/openstack/2012-08-10/password", 405, "the version has none"],
    ["POST", "/openstack/latest/meta_data.json", 405, "nothing else can be set"],
  ])("%s %s is %s: %s", (method, path, status, _why) => {
    expect(get(path, { method, body }).status).toBe(status);
  });

  test("is absent where no passwords are kept", () => {
    for (const method of ["GET", "POST", "PUT"]) {
      expect(get(PATH, { method, of: BARE }).status).toBe(404);
    }
  });
});

test.each([
  ["/openstack/2099-01-01", "a version of the future"],
  ["/openstack/2013-04-04x/meta_data.json", "not quite a version"],
  ["/openstack/latest/nothing", "no such file"],
  ["/openstack/latest/meta_data.json/uuid", "a file is no directory"],
  ["/openstack/content", "there is no content"],
  ["/openstack/content/0000", "nor any of it"],
  ["/openstack/latest/__proto__", "no file of that name"],
  ["/OpenStack/latest", "names are exact"],
])("%s is 404: %s", (path, _why) => {
  expect(get(path).status).toBe(404);
});
