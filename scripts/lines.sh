#!/bin/sh
# Lines of Rust by crate, code and tests apart: scripts/lines.sh [COMMIT]
#
# Without COMMIT it counts the work tree. Tests are the files named tests.rs or below a folder tests, the rest of a
# file from a line `#[cfg(test)]` before `mod tests`, and everything below tests/ and bench/.
set -eu
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
  list() { git ls-tree -r --name-only "$commit"; }
  show() { git show "$commit:$1"; }
  commit=$1
else
  list() { git ls-files; }
  show() { cat "$1"; }
fi

list | grep '\.rs$' | while read -r file; do
  case $file in
  crates/*) module=${file#crates/} module=${module%%/*} ;;
  src/*) module=rxlab ;;
  *) module=${file%%/*} ;;
  esac
  case $file in
  */tests.rs | */tests/* | tests/* | bench/*) tests=1 ;;
  *) tests=0 ;;
  esac
  show "$file" | awk -v module="$module" -v tests="$tests" '
    /^#\[cfg\(test\)\]$/ { mark = NR }
    /^mod tests \{$/ && mark == NR - 1 && !tests { tests = 1; code--; test++ }
    { if (tests) test++; else code++ }
    END { print module, code + 0, test + 0 }'
done | sort | awk '
  { if (!($1 in files)) names[++count] = $1; files[$1]++; code[$1] += $2; test[$1] += $3 }
  END {
    printf "%-10s %6s %8s %8s\n", "crate", "files", "code", "tests"
    for (i = 1; i <= count; i++) {
      name = names[i]
      printf "%-10s %6d %8d %8d\n", name, files[name], code[name], test[name]
      f += files[name]; c += code[name]; t += test[name]
    }
    printf "%-10s %6d %8d %8d\n", "all", f, c, t
  }'
