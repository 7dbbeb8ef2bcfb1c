#!/bin/sh
# Installs a release of rxlab after checking its signature: install.sh [--from URL|FOLDER] [--prefix FOLDER] [--version VERSION]
#
#   RXLAB_URL   where the files of the release are (or --from)
#   RXLAB_KEY   public key of minisign; a release has its own written here
#
# Needs minisign, tar, gzip, sha256sum, and for a URL curl or wget. Installs the program, manual pages and completions below
# /usr/local (or --prefix). Enables nothing: units are in share/rxlab/systemd.
set -eu

key=${RXLAB_KEY:-}
from=${RXLAB_URL:-}
prefix=/usr/local
version=""

fail() { # fail WHAT
  echo "install: $1" >&2
  exit 1
}
while [ $# -gt 0 ]; do
  [ $# -gt 1 ] || fail "usage: install.sh [--from URL|FOLDER] [--prefix FOLDER] [--version VERSION]"
  case $1 in
  --from) from=$2 ;;
  --prefix) prefix=$2 ;;
  --version) version=$2 ;;
  *) fail "unknown option $1 (known: --from, --prefix, --version)" ;;
  esac
  shift 2
done
[ -n "$from" ] || fail "no source: give --from URL or folder, or RXLAB_URL"
[ -n "$key" ] || fail "no public key: set RXLAB_KEY, or take install.sh from a release"

system=$(uname -s)
machine=$(uname -m)
case $system-$machine in
Linux-x86_64 | Linux-aarch64) ;;
*) fail "no release for $system on $machine (there are Linux on x86_64 and aarch64)" ;;
esac
for tool in minisign tar gzip sha256sum; do
  command -v "$tool" >/dev/null 2>&1 || fail "$tool is missing: install it with this machine's package manager"
done
fetch=""
case $from in
https://* | http://*)
  if command -v curl >/dev/null 2>&1; then
    fetch=curl
  elif command -v wget >/dev/null 2>&1; then
    fetch=wget
  else
    fail "curl and wget are missing: install one of them, or give a folder"
  fi
  ;;
esac

work=$(mktemp -d)
new=""
trap 'rm -rf "$work"; [ -z "$new" ] || rm -f "$new"' EXIT
trap 'exit 1' HUP INT TERM
get() { # get NAME
  case $fetch in
  curl) curl --fail --silent --show-error --location --output "$work/$1" "$from/$1" ;;
  wget) wget -q -O "$work/$1" "$from/$1" ;;
  *) cp "$from/$1" "$work/$1" ;;
  esac || fail "cannot get $1 from $from"
}

get SHA256SUMS
get SHA256SUMS.minisig
minisign -V -q -P "$key" -m "$work/SHA256SUMS" >"$work/said" 2>&1 ||
  fail "the signature of SHA256SUMS is not of the key $key; nothing was installed"
# Names are only taken from here on: they are signed. One release has one version.
end=-$machine-unknown-linux-gnu.tar.gz
signed=$(sed -n "s/^[0-9a-f]\{64\}  rxlab-\([0-9A-Za-z.+-]*\)$end\$/\1/p" "$work/SHA256SUMS")
[ -n "$signed" ] || fail "the release has no files for $machine"
[ -z "$version" ] || [ "$version" = "$signed" ] || fail "$from has version $signed, not $version; nothing was installed"
name=rxlab-$signed$end
get "$name"
grep -F "  $name" "$work/SHA256SUMS" >"$work/sum"
(cd "$work" && sha256sum -c sum >/dev/null 2>&1) ||
  fail "the sum of $name is not the signed one; nothing was installed"

# Other users read manual pages.
umask 022
tar -C "$work" -xzf "$work/$name"
tree=$work/${name%.tar.gz}
"$tree/bin/rxlab" --version >"$work/said" 2>&1 || fail "the program does not run on this machine; nothing was installed"
before=none
[ ! -x "$prefix/bin/rxlab" ] || before=$("$prefix/bin/rxlab" --version 2>/dev/null) || before="a broken one"
mkdir -p "$prefix/bin" "$prefix/share" || fail "cannot write to $prefix: run it as root, or give --prefix"
# Next to the old one first, then over it: a command that runs keeps its program.
new=$prefix/bin/.rxlab.new
cp "$tree/bin/rxlab" "$new" || fail "cannot write to $prefix/bin: run it as root, or give --prefix"
cp -R "$tree/share/." "$prefix/share/"
mv -f "$new" "$prefix/bin/rxlab"
new=""

echo "installed rxlab $signed in $prefix (before: $before): bin/rxlab, and in share manual pages, completions, units, alert rules"
echo "signature and sum are right; key $key"
echo "values that are applied, the journal and what was recorded are as before; services that run go on with the old program"
echo "next: $prefix/bin/rxlab doctor"
