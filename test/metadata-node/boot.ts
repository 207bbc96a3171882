/** What cloud-init asks of an OpenStack source in one boot, in its order: 28 requests, the EC2 tree's leaves last. */
export const BOOT: readonly string[] = [
  "/openstack",
  "/openstack",
  ...["meta_data.json", "user_data", "vendor_data.json", "vendor_data2.json", "network_data.json"].map(
    (file) => `/openstack/2018-08-27/${file}`,
  ),
  ...[
    "",
    "ami-id",
    "ami-launch-index",
    "ami-manifest-path",
    "block-device-mapping/",
    "block-device-mapping/ami",
    "block-device-mapping/root",
    "hostname",
    "instance-action",
    "instance-id",
    "instance-type",
    "local-hostname",
    "local-ipv4",
    "placement/",
    "placement/availability-zone",
    "public-hostname",
    "public-ipv4",
    "reservation-id",
    "security-groups",
    "public-keys/",
    "kernel-id",
  ].map((leaf) => `/latest/meta-data/${leaf}`),
];

/**
 * Boots until its standard input ends. Each request is made like cloud-init's, on a connection of its own, and again
 * after a failure or a status that it takes as one, at most five times. Prints each answer: path, status, body; after
 * each boot `whole`.
 */
export const BOOTS = `
import http.client, json, sys, threading, time
paths = json.loads(sys.argv[1]); ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
def ask(path):
    for attempt in range(6):
        if attempt: time.sleep(1)
        try:
            connection = http.client.HTTPConnection("169.254.169.254", timeout=5)
            connection.request("GET", path); answer = connection.getresponse(); body = answer.read().decode()
            connection.close()
            if answer.status not in (408, 429, 500, 502, 503, 504): return answer.status, body
            failure = f"status {answer.status}: {body}"
        except (OSError, http.client.HTTPException) as error: failure = repr(error)
    return 0, failure
print("begun", flush=True)
while not ended.is_set():
    for path in paths:
        # Slower than the requests that one port may make in ten seconds, so that every answer counts.
        time.sleep(0.035); status, body = ask(path)
        print(json.dumps({"path": path, "status": status, "body": body}), flush=True)
    print("whole", flush=True)
`;

/** One answer that BOOTS prints; status 0: none came. */
export interface BootAnswer {
  readonly path: string;
  readonly status: number;
  readonly body: string;
}

/** Everything that BOOTS has printed. */
export function answersOf(output: string): BootAnswer[] {
  return output
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line): BootAnswer => JSON.parse(line));
}
