/**
 * Statements of the two pages about threats, by how they begin, and the tests that hold them: a file below test/, and a
 * title or a row in it.
 */
interface PromiseOf {
  readonly says: string;
  readonly heldBy: readonly (readonly [file: string, title: string])[];
}

interface Page {
  readonly sections: readonly string[];
  readonly promises: readonly PromiseOf[];
  /** What has no test, by how it begins, and why. */
  readonly untested: Readonly<Record<string, string>>;
}

const row = (says: string, ...heldBy: (readonly [string, string])[]): PromiseOf => ({ says, heldBy });

const ALLOCATIONS = "harness/admission-cases/allocations.ts";
const METADATA = "harness/admission-cases/allocation-metadata.ts";
const OTHERS = "harness/admission-cases/others.ts";
const WRITTEN = "controller/written-claims.test.ts";
const MANIFESTS = "deploy/manifests.test.ts";
const LISTENER = "metadata-net/listener.test.ts";
const NEIGHBOURS = "metadata-net/neighbours.test.ts";
const HOSTILE = "metadata-net/hostile-container.test.ts";

const THREATS: Page = {
  sections: [
    "Accounts",
    "A stolen token of one node",
    "A stolen token of the metadata service",
    "Machines",
    "What claims can hold",
    "What networks can make the daemon do",
    "What pods can hold",
  ],
  promises: [
    row(
      "`holdfast-node` |",
      [MANIFESTS, "may not $verb $resource$subresource $namespace"],
      ["harness/rights/unused.ts", "no test uses this right"],
    ),
    row("`holdfast-controller` |", [MANIFESTS, "may not $verb $resource$subresource $namespace"]),
    row("`holdfast-metadata` |", [
      "deploy/metadata.test.ts",
      "reads the Secrets that the tenant's manifest names, cannot list any",
    ]),
    row("none | `holdfast metadata-net`", [
      "deploy/metadata.test.ts",
      "the server has no privilege, and only it has a token",
    ]),
    row(
      "writes, changes and ends attachments of its own node",
      [ALLOCATIONS, "create one for another node's container"],
      [ALLOCATIONS, "end another node's attachment"],
      [ALLOCATIONS, "use the address of a pod that runs on another node"],
    ),
    row(
      "releases only what its own containers alone used",
      [ALLOCATIONS, "release another node's address"],
      [ALLOCATIONS, "release a claim's address that it uses itself"],
    ),
    row(
      "changes nothing of a Bound address but attachments",
      [ALLOCATIONS, "give a Bound address to its own pod"],
      [ALLOCATIONS, "say that another VM stands behind an address"],
      [ALLOCATIONS, "have a stopped pod's node forgotten"],
      [METADATA, "take an administrator's finalizer from an address"],
    ),
    row(
      "writes no metadata that would move, delete or keep",
      [METADATA, "have the garbage collector delete another node's address"],
      [METADATA, "keep another node's address for ever by a finalizer"],
      [METADATA, "add a label to an address that it takes"],
    ),
    row(
      "does not retain an address, and does not end",
      [ALLOCATIONS, "retain a stopped VM's address"],
      [ALLOCATIONS, "end a retention"],
    ),
    row(
      "does not shorten the cool-down",
      [ALLOCATIONS, "end a cool-down by an old date"],
      [OTHERS, "give one to another namespace"],
      [OTHERS, "share one"],
    ),
    row(
      "records the owner of a network that has none",
      [OTHERS, "create one as if an administrator had"],
      [OTHERS, "create one under another network's name"],
      [OTHERS, "create one without the finalizer that keeps it"],
      [OTHERS, "write a count"],
      [OTHERS, "have a paused cluster forgotten"],
    ),
    row(
      "only appends to what a claim lists",
      [OTHERS, "replace an address"],
      [OTHERS, "put them in another order"],
      [OTHERS, "remove one"],
      [OTHERS, "list too many at once"],
      [WRITTEN, "a stolen token that makes an allocation in a claim's name and lists it"],
      [MANIFESTS, "may not $verb $resource$subresource $namespace"],
    ),
    row(
      "The policies hold every service account of the name",
      ["deploy/unit/admission-policies.test.ts", "the policies hold the daemons of every namespace"],
      ["admin/check-policies.test.ts", "names a policy %s"],
      ["cluster/viewer.test.ts", "holdfast %s is refused nothing"],
    ),
    row(
      "An IPNetwork has a finalizer of the controller's",
      ["cluster/stolen-token.test.ts", "an IPNetwork that the garbage collector or an administrator deletes stays"],
      ["cluster/stolen-token.test.ts", "an IPNetwork that was deleted without the controller is restored"],
    ),
    row(
      "Administrators and the controller are not concerned",
      ["deploy/unit/admission-policies.test.ts", "the policies do not restrict the controller and administrators"],
      ["kube/admission.test.ts", "a refusal by admission is reported with its message"],
    ),
    row(
      "It reads the Secrets that opted-in namespaces have named",
      [
        "metadata-kube/metadata-secrets.test.ts",
        "a stolen token can read only the Secrets that the tenant's Role names",
      ],
      ["deploy/metadata.test.ts", "may not $verb $resource$subresource $namespace"],
    ),
    row(
      "**An AddressPool is a grant.**",
      ["machines/foreign-answers.test.ts", "a claim that another provider has answered is left alone"],
      ["machines/pools-in-a-world.test.ts", "is imported and counted, and belongs to the pool's namespace"],
    ),
    row(
      "**Own mode**",
      [MANIFESTS, "does not let it $verb $resource$subresource"],
      [
        "machines/data/refused-writes.test.ts",
        "neither a host in another namespace nor the host of that name here is written",
      ],
    ),
    row("`status.ips` of a claim that has some", [WRITTEN, "moves and releases nothing, whether the VM runs or not"]),
    row("`status.ips` of a claim that has none", [
      WRITTEN,
      "is reserved where its namespace may use the network, one of each subnet",
    ]),
    row("`spec.network` |", [WRITTEN, "a network that somebody writes into a claim moves nothing, and is put back"]),
    row("a claim that is deleted |", ["claims/relations.test.ts", "claim-gone"]),
    row("a claim that a backup has brought back", [
      "cluster/claims-prefilled.test.ts",
      "a claim that lists another pod's address is refused, and the condition names the holder",
    ]),
    row("Whoever may write a NetworkAttachmentDefinition", [
      "cni/resolver-files.test.ts",
      "a network whose ipam.resolvConf is",
    ]),
    row("Addresses that another plugin gave are recorded", [
      "cluster/switch-over.test.ts",
      "a pod's annotation reserves one address of each subnet for each interface that the pod selects",
    ]),
  ],
  untested: {
    "The daemon is root on its node": "a fact about nodes; the manifests' tests compare capabilities",
    "RBAC cannot tell the nodes apart": "the reason for the policies",
    "The server knows which node": "the reason for what follows",
    "Beside the above, the controller writes IPAddresses": "a fact; the rights are counted with all others",
    "Who may create IPAddressClaims":
      "what they can do, not what they cannot; quota and other rights are the administrator's",
    "an annotation |": "nothing reads one of a claim in a cluster",
    "Who may write the status of claims": "what they can do, not what they cannot",
    "**Which of its own a claim gets.**":
      "what they can do; a search of all orders of requests has shown that it is no more",
    "**Without a controller** nobody takes entries away.": "what is shown until one comes, not what anybody can do",
    "**A request that is taken back.**": "what may come of two requests, either of which is right",
  },
};

const METADATA_THREATS: Page = {
  sections: [
    "Who is believed about what",
    "What the listener's rules do",
    "Attacks and what becomes of them",
    "What the HTTP side does",
    "What a tenant can do",
  ],
  promises: [
    row("port |", [
      "metadata-net/port-identity.test.ts",
      "three guests on one bridge with one address and one MAC each get their own answer",
    ]),
    row("attachment and network |", [LISTENER, "network, subject and the recorded address arrive"]),
    row("source address |", ["metadata-server/subject.test.ts", "is identified by its port, not by its address"]),
    row("VM behind the attachment |", [
      "metadata-server/real-daemon.test.ts",
      "an address that changes its owner is never answered with the former one",
    ]),
    row(
      "instance ID, tenant, signature |",
      ["metadata-server/nova.test.ts", "says who asks, signed, in headers that are all ours"],
      ["metadata-server/nova.test.ts", "in every spelling, once and repeated, does not reach Nova"],
    ),
    row("`X-Forwarded-For` to backends |", [
      "metadata-server/subject.test.ts",
      "the recorded address, whatever the guest calls itself",
    ]),
    row("user data, keys, free metadata |", [
      "metadata-kube/metadata-content.test.ts",
      "an object without the label is not served",
    ]),
    row("what a template says |", [
      "metadata-kube/metadata-template.test.ts",
      "the guest gets the template rendered for its VM with its addresses",
    ]),
    row(
      "A guest that takes its neighbour's IP address",
      [NEIGHBOURS, "get their own answer even with its address and MAC"],
      ["metadata-ovs/identity.test.ts", "a guest that takes the address and MAC of another gets no answer of it"],
    ),
    row("Answers leave by the link of the port", [NEIGHBOURS, "lose it nothing by flooding the bridge with its MAC"]),
    row(
      "D exists on the node alone",
      ["metadata-net/flush.test.ts", "frames without the secret MAC are dropped"],
      ["metadata-net/port-identity.test.ts", "one of the listener's own range gets nothing"],
    ),
    row(
      "An address D belongs to one attachment",
      ["guests/port-memory.test.ts", "addresses are counted up and never used again, also after a restart"],
      ["metadata-net/port-identity.test.ts", "a recreated link is not served until its guest is admitted again"],
    ),
    row(
      "The listener takes TCP and echo requests",
      ["metadata-net/heard.test.ts", "only TCP and echo requests reach it over IPv4"],
      ["metadata-net/heard.test.ts", "ICMP errors are dropped in the namespace"],
    ),
    row(
      "ARP and neighbour solicitations for the service",
      [NEIGHBOURS, "get the right answers when they probe for a free address"],
      [
        "metadata-net/heard.test.ts",
        "thousands of neighbour solicitations are answered and create no neighbour entries",
      ],
    ),
    row(
      "**Nobody else is the metadata service.**",
      ["metadata-net/claimed-ipv6.test.ts", "no frame that claims or asks for one passes between guests"],
      [NEIGHBOURS, "are not believed when they claim 169.254.169.254"],
    ),
    row(
      "**Without rules it is closed.**",
      ["metadata-net/flush.test.ts", "leave the listener closed while they are missing"],
      ["metadata-net/flush.test.ts", "are restored whatever part of them was changed"],
    ),
    row("for every guest of a Linux bridge", [
      "metadata-net/closed.test.ts",
      "answers no guest of its bridges during %s",
    ]),
    row(
      "On a bridge without such a rule no guest with metadata is attached",
      ["cni/open-guests.test.ts", "while metadata-net is away, an ADD"],
      ["metadata-net/closed-bridges.test.ts", "is closed again after a reboot, before metadata-net and the daemon run"],
    ),
    row("for a guest with metadata whose link is in no bridge", [
      "metadata-ovs/closed.test.ts",
      "answers no guest while metadata-net is stopped",
    ]),
    row("whether the node has the address itself", [
      "metadata-net/closed.test.ts",
      "answers no guest when routing rules were changed",
    ]),
    row("**While metadata-net is stopped, nobody answers.**", [
      "metadata-net/closed.test.ts",
      "is answered for by no neighbour while metadata-net is stopped",
    ]),
    row(
      "**What a guest does in its own namespace is its own.**",
      [HOSTILE, "cannot disturb others by link names and aliases that are not valid JSON"],
      ["metadata-net/odd-names.test.ts", "a command that prints or runs without end is ended"],
    ),
    row("claims `fe80::a9fe:a9fe`", ["metadata-node/claimed.test.ts", "does not reach its neighbours"]),
    row("takes the victim's IP address, MAC, or both |", [
      "metadata-node/attacks.test.ts",
      "with the other's address and MAC it gets nothing of the other's, and the other loses nothing",
    ]),
    row("sends with the MAC of the service", [
      NEIGHBOURS,
      "lose it nothing by flooding the bridge with its MAC and with those of the listener",
    ]),
    row("waits with an open connection", [
      "metadata-net/flush.test.ts",
      "let no other guest in during a hundred flushes",
    ]),
    row("waits until metadata-net is stopped", [
      "metadata-net/closed.test.ts",
      "is answered for by no neighbour while metadata-net is stopped",
    ]),
    row("solicits the service from thousands of addresses", [
      "metadata-net/heard.test.ts",
      "thousands of neighbour solicitations are answered and create no neighbour entries",
    ]),
    row(
      "names a link",
      ["metadata-net/odd-names.test.ts", "is served, and so are the others, also after a flush and a restart"],
      [HOSTILE, "cannot disturb others by a thousand links and addresses"],
    ),
    row("takes an abstract socket", [
      "metadata-net/run-lock.test.ts",
      "abstract sockets in the host's network namespace do not prevent the lock",
    ]),
    row("calls a process of its own haproxy", [
      "metadata-net/haproxy-process.test.ts",
      "a process named haproxy in a container is not taken for Holdfast's haproxy",
    ]),
    row(
      "deletes its interface and lets another one have",
      [HOSTILE, "ends only its own port by deleting its interface"],
      ["metadata-ovs/repair.test.ts", "a port that gets the number of a deleted one is not served"],
    ),
    row(
      "asks without a pause",
      [LISTENER, "have a request limit by port"],
      [
        "metadata-net/bounds.test.ts",
        "a guest that acknowledges nothing leaves at most some thousand connections behind",
      ],
    ),
    row("leads another name to 169.254.169.254", [
      LISTENER,
      "a host name that a foreign name server can point here is refused",
    ]),
    row(
      "haproxy speaks to guests",
      [LISTENER, "a request cannot be smuggled in another"],
      [LISTENER, "a request that is ambiguous about its host is refused"],
    ),
    row(
      "Every header that could name an identity",
      [LISTENER, "a guest cannot claim an identity, however it spells the header"],
      ["metadata/client-headers.test.ts", "no header that is passed on can be taken for one of ours"],
    ),
    row(
      "Absolute URIs and `Host`",
      ["metadata-node/attacks.test.ts", "absolute URIs, other hosts and climbing paths return only its own metadata"],
      ["metadata-server/nova.test.ts", "is not sent for what is no path of Nova's metadata"],
      ["metadata-server/nova.test.ts", "is not sent for what does not read"],
    ),
    row("A `Host` that is a name from the public DNS", [
      LISTENER,
      "a host name that a foreign name server can point here is refused",
    ]),
    row(
      "From one port there are at most 64 connections",
      [LISTENER, "a thousand idle connections of one VM do not delay another VM"],
      [LISTENER, "a request that does not end is given up after five seconds"],
    ),
    row("Who is behind a connection is looked up", [
      "metadata-net/life.test.ts",
      "a removed guest gets no answer, even on a kept connection",
    ]),
    row("A guest that acknowledges nothing", [
      "metadata-net/bounds.test.ts",
      "a guest that acknowledges nothing leaves at most some thousand connections behind",
    ]),
    row("Only haproxy itself may connect", [
      "metadata-net/bounds.test.ts",
      "a local user cannot connect to haproxy's waiting room",
    ]),
    row(
      "From one port 300 requests in 10 s",
      [LISTENER, "have a request limit by port"],
      [LISTENER, "may boot twice within the limit"],
    ),
    row(
      "Tokens (IMDSv2) belong to one instance",
      ["metadata/imds-tokens.test.ts", "a token is valid for its instance only"],
      ["metadata-server/passwords.test.ts", "a token is valid for its own VM, and a forwarded request gets none"],
    ),
    row(
      "Whoever may edit a VM decides",
      ["metadata-kube/metadata-content.test.ts", "an object without the label is not served"],
      ["metadata-kube/metadata-content.test.ts", "a namespace without the RoleBinding serves no content"],
    ),
    row("On one node without Kubernetes", [
      "metadata-server/node-content.test.ts",
      "serves the content of a container that runs here, and only what its claims name",
    ]),
    row("A Secret with both halves of an SSH key", [
      "metadata/public-keys.test.ts",
      "of a Secret with a public key and something else the guest gets the public key alone",
    ]),
    row(
      "In Kubernetes, whoever may edit a VM also chooses",
      ["metadata-server/real-nova.test.ts", "does not know an instance of another project"],
      ["metadata-kube/metadata-content.test.ts", "the tenant is the namespace's UID or its annotation"],
    ),
    row("In Kubernetes, whoever may create NetworkAttachmentDefinitions", [
      "cluster/network-owner.test.ts",
      "cannot redirect another network to its own metadata Service by an older NAD",
    ]),
  ],
  untested: {
    "They do not cover bridges without any served guest": "what is not covered",
    "What the rules cannot see": "what is not covered",
    "Where somebody else answers": "what is not covered",
    "There is no hop limit": "what is not covered",
    "Everything served to a guest can be read": "what is not covered",
  },
};

export const PROMISES: Readonly<Record<string, Page>> = {
  "docs/threats.md": THREATS,
  "docs/metadata-threats.md": METADATA_THREATS,
};
