# Sourced by the tools that take long. They define `say`, and `log`: the file that the steps write to. They set pipefail.
LOCK_WAIT_S=1800 # unattended upgrades of a machine that has just booted take longer than anybody expects
running=""       # the process group of the step that runs

# step <what> <command…>: says what begins. While it lasts, a terminal shows every 5 s what the log says last, and anything
# else gets a line a minute. When it fails, the end of the log is printed.
step() {
  local what=$1 began=$SECONDS passed text due every=60 columns=0 size
  shift
  if [[ -t 2 ]]; then
    every=5 columns=80
    read -r _ size < <(stty size <&2 2>/dev/null) && ((size > 0)) && columns=$size
  fi
  due=$every
  say "$what"
  # A process group of its own: who interrupts the tool decides what becomes of it.
  set -m
  ("$@") >>"$log" 2>&1 </dev/null 9>&- &
  running=$!
  set +m
  while kill -0 "$running" 2>/dev/null; do
    sleep 0.5 || true
    passed=$((SECONDS - began))
    ((passed >= due)) || continue
    due=$((passed + every))
    text="  … $passed s: $(tail -n 3 "$log" | tr '\r' '\n' | grep . | tail -n 1)" || true
    if ((columns == 0)); then say "$text"; else printf '\r\e[K%s' "${text:0:columns-1}" >&2; fi
  done
  ((columns == 0)) || printf '\r\e[K' >&2
  wait "$running" || {
    running=""
    tail -n 40 "$log" >&2
    say "failed: $what (all of it in $log)"
    return 1
  }
  running=""
}

# apt-get, which waits for whoever has one of its locks. DPkg::Lock::Timeout waits silently, and for dpkg's locks alone.
apt_get() { while_locked apt_get_once "$@"; }
apt_get_once() { DEBIAN_FRONTEND=noninteractive apt-get "$@"; }

# while_locked <command…>: repeats a command in which apt-get finds one of its locks taken.
while_locked() {
  local output code began=$SECONDS
  output=$(mktemp)
  while true; do
    code=0
    "$@" 2>&1 | tee "$output" || code=$?
    ((code != 0 && SECONDS - began < LOCK_WAIT_S)) && grep -q "Could not get lock" "$output" || break
    echo "waiting for another package manager: $(sed -n 's/.*Could not get lock //p' "$output" | head -n 1)"
    sleep 5
  done
  rm -f "$output"
  return "$code"
}
