import { join } from "node:path";
import type { Machine } from "./machine.ts";

const PROJECT = join(import.meta.dirname, "../..");

/** `make install` and the daemon switched on, as the README has it; the daemon serves afterwards. */
export async function installHoldfast(machine: Machine): Promise<void> {
  await machine.out(`make -s -C ${PROJECT} install`);
  await machine.out("systemctl enable -q --now holdfast");
}

/** podman with Debian's CNI plugins, and an image "busybox". Containers need `--cgroups=disabled` here. */
export async function preparePodman(machine: Machine): Promise<void> {
  await machine.out(`
    mkdir -p /etc/containers
    printf '[storage]\\ndriver="vfs"\\nrunroot="/run/containers/storage"\\ngraphroot="/var/lib/containers/storage"\\n' > /etc/containers/storage.conf
    printf '[network]\\nnetwork_backend="cni"\\n[engine]\\ncgroup_manager="cgroupfs"\\nevents_logger="file"\\n[containers]\\nlog_driver="k8s-file"\\n' > /etc/containers/containers.conf
    mkdir -p /tmp/image/bin && cp "$(command -v busybox)" /tmp/image/bin/ && ln -s busybox /tmp/image/bin/sh && ln -s busybox /tmp/image/bin/sleep
    ln -s busybox /tmp/image/bin/ping && ln -s busybox /tmp/image/bin/wget && tar -C /tmp/image -c . | podman import -q - docker.io/library/busybox
    podman tag docker.io/library/busybox localhost/busybox`);
}
