import type { KubeObject } from "../harness/kube-api.ts";
import type { Machine } from "../harness/machine.ts";

/** Where a pod's own volumes are on a node, as a kubelet has them. */
const PODS = "/var/lib/kubelet/pods";
const NODE = { "spec.nodeName": "n1", "status.hostIP": "127.0.0.1" } as Readonly<Record<string, string>>;

/**
 * A pod of a manifest on a machine: podman starts what the template says, with its volumes and rights, as a kubelet
 * would. Not so: there is no API server, so projected volumes are empty, as optional ConfigMaps are; and no SELinux and
 * no limits.
 */
export class PodByPodman {
  readonly #machine: Machine;
  readonly #workload: KubeObject;
  readonly #template: KubeObject;
  readonly #directory: string;

  constructor(machine: Machine, workload: KubeObject) {
    this.#machine = machine;
    this.#workload = workload;
    this.#template = workload.spec.template.spec;
    this.#directory = `${PODS}/${workload.metadata.name}`;
  }

  /** The same with another volume in place of the one of its name. */
  with(volume: KubeObject): PodByPodman {
    const changed = structuredClone(this.#workload);
    const { volumes } = changed.spec.template.spec;
    volumes.splice(
      volumes.findIndex(({ name }: KubeObject) => name === volume.name),
      1,
      volume,
    );
    return new PodByPodman(this.#machine, changed);
  }

  /** The node's directories that its containers have. */
  get directories(): string[] {
    return this.#template.volumes.flatMap(({ hostPath }: KubeObject) =>
      hostPath?.type === "DirectoryOrCreate" ? [hostPath.path] : [],
    );
  }

  /**
   * Makes its volumes and runs its init containers. `secrets`: shell commands that write a Secret's files, by its name.
   */
  async prepare(secrets: Readonly<Record<string, string>> = {}): Promise<void> {
    const { volumes, initContainers = [], securityContext } = this.#template;
    for (const volume of volumes) {
      const path = this.#pathOf(volume);
      const { hostPath, secret } = volume;
      await this.#machine.out(hostPath?.type === "File" ? `test -f ${path}` : `mkdir -p ${path}`);
      if (secret !== undefined) await this.#machine.out(`cd ${path} && ${secrets[secret.secretName]} && chmod 0440 *`);
      if (hostPath === undefined && securityContext?.fsGroup !== undefined)
        await this.#machine.out(`chown -R :${securityContext.fsGroup} ${path} && chmod g+rwxs ${path}`);
    }
    for (const { name } of initContainers) await this.#machine.out(this.#run(name, "--rm"));
  }

  /** Starts one of its containers, which is called by its name. */
  start(name: string): Promise<string> {
    return this.#machine.out(this.#run(name, "-d"));
  }

  /** Asks the readiness probe of a container once. */
  async isReady(name: string): Promise<boolean> {
    const { readinessProbe, ports } = this.#container(name);
    const { exec, httpGet } = readinessProbe;
    const port = ports.find((one: KubeObject) => one.name === httpGet?.port)?.containerPort;
    const ask = exec
      ? `podman exec ${name} ${words(exec.command)}`
      : `curl -sf -m ${readinessProbe.timeoutSeconds} http://${NODE["status.hostIP"]}:${port}${httpGet.path}`;
    return (await this.#machine.sh(ask)).code === 0;
  }

  #container(name: string): KubeObject {
    const { initContainers = [], containers } = this.#template;
    return [...initContainers, ...containers].find((one: KubeObject) => one.name === name);
  }

  #pathOf({ name, hostPath }: KubeObject): string {
    return hostPath?.path ?? `${this.#directory}/${name}`;
  }

  #run(name: string, how: string): string {
    const container = this.#container(name);
    const { command, args = [], env = [], volumeMounts, securityContext: own, image } = container;
    const { hostNetwork, securityContext: pod = {}, volumes } = this.#template;
    const set: Record<string, string> = {};
    const expanded = (text: string) => text.replace(/\$\((\w+)\)/g, (all, key) => set[key] ?? all);
    for (const { name: key, value, valueFrom } of env)
      set[key] = value === undefined ? (NODE[valueFrom.fieldRef.fieldPath] as string) : expanded(value);
    const groups = new Set([...(pod.supplementalGroups ?? []), ...(pod.fsGroup ? [pod.fsGroup] : [])]);
    const flags = [
      ...["--cgroups=disabled", how, "--name", name, "--network", hostNetwork ? "host" : "none"],
      ...["--user", `${own.runAsUser}:${own.runAsGroup}`],
      ...[...groups].flatMap((group) => ["--group-add", String(group)]),
      ...(own.privileged ? ["--privileged"] : []),
      ...(own.readOnlyRootFilesystem ? ["--read-only", "--read-only-tmpfs=false"] : []),
      ...(own.allowPrivilegeEscalation === false ? ["--security-opt", "no-new-privileges"] : []),
      ...(own.capabilities?.drop ?? []).flatMap((one: string) => ["--cap-drop", one]),
      ...(own.capabilities?.add ?? []).flatMap((one: string) => ["--cap-add", one]),
      ...Object.entries(set).flatMap(([key, value]) => ["--env", `${key}=${value}`]),
      ...volumeMounts.flatMap((mount: KubeObject) => {
        const volume = volumes.find((one: KubeObject) => one.name === mount.name);
        const propagation = PROPAGATION[mount.mountPropagation as keyof typeof PROPAGATION];
        const options = [mount.readOnly ? "ro" : "rw", propagation ?? "rprivate"].join(",");
        return ["--volume", `${this.#pathOf(volume)}:${mount.mountPath}:${options}`];
      }),
      ...(command === undefined ? [] : ["--entrypoint", JSON.stringify(command)]),
    ];
    return `podman run ${words([...flags, image, ...args.map(expanded)])}`;
  }
}

const PROPAGATION = { HostToContainer: "rslave", Bidirectional: "rshared" } as const;

/** Of a shell, each as it is. */
const words = (list: readonly string[]) => list.map((one) => `'${one.replaceAll("'", "'\\''")}'`).join(" ");
