# Runs in mount and PID namespaces of its own, which take everything with them when this shell ends: a copy of this
# system's root (an overlay in memory), and on each line "boot" read from stdin one boot of it with systemd as PID 1.
# $1 name, $2 directory for the mounts, $3 project, $4 boot ID: "own", as in a system container, or "kernel", $5 the root, "/" is this one
set -eu
name=$1 directory=$2 project=$3 boot_id=$4 lower=$5
mount -t tmpfs tmpfs "$directory"
mkdir "$directory"/upper "$directory"/work "$directory"/root
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$directory/upper,workdir=$directory/work" "$directory/root"
root=$directory/root

# What this system runs, mounts or has of Holdfast is none of the machine's.
rm -rf "$root"/etc/systemd/system/*.wants "$root"/etc/fstab "$root"/etc/holdfast "$root"/var/lib/holdfast* "$root"/etc/cni/net.d \
  "$root"/var/lib/cni "$root"/etc/systemd/system/holdfast* "$root"/opt/cni/bin/holdfast-ipam "$root"/var/lib/containers "$root"/var/log/journal
rm -rf "$root"/tmp && mkdir -m 1777 "$root"/tmp && mkdir -p "$root"/etc/cni/net.d "$root"/opt/cni/bin
rm -f "$root"/etc/machine-id && tr -d - </proc/sys/kernel/random/uuid >"$root"/etc/machine-id
echo "$name" >"$root"/etc/hostname
# haproxy's own service wants port 80 of nobody here; the network is the machine's own.
for unit in haproxy postgresql systemd-resolved systemd-timesyncd systemd-sysctl systemd-modules-load apt-daily.timer apt-daily-upgrade.timer man-db.timer systemd-update-utmp-runlevel systemd-update-utmp; do
  case $unit in *.timer) ;; *) unit=$unit.service ;; esac
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root$project"
# A system container sees a boot ID of its own, mounted over the kernel's; a virtual or real machine does not.
if [ "$boot_id" = kernel ]; then
  mkdir -p "$root/etc/systemd/system/sysinit.target.wants"
  printf '%s\n' '[Unit]' DefaultDependencies=no Before=sysinit.target '[Service]' Type=oneshot \
    'ExecStart=/bin/umount /proc/sys/kernel/random/boot_id' >"$root/etc/systemd/system/boot-id.service"
  ln -s ../boot-id.service "$root/etc/systemd/system/sysinit.target.wants/"
fi

# Two machines, and whatever else is called "payload", must not meet in one control group.
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$name"
echo 1 >"/sys/fs/cgroup/$name/cgroup.procs"
while read -r word; do
  [ "$word" = boot ] || continue
  SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --directory="$root" --bind-ro="$project" --boot --machine="$name" \
    --private-network --register=no --keep-unit --capability=all --system-call-filter="@keyring bpf" --console=pipe </dev/null &
done
