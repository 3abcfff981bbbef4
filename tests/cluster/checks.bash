# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests on a pocket cluster share.

: "${work:=}" # the test's folder for its files
failures=0

check() { # DESCRIPTION COMMAND...
  local description=$1
  shift
  if "$@" >"$work/check.out" 2>&1; then
    echo "ok - $description"
  else
    echo "not ok - $description"
    sed 's/^/    /' "$work/check.out"
    failures=$((failures + 1))
  fi
}

within() { # SECONDS COMMAND...: succeeds as soon as COMMAND does; on a slow machine it has three times as long
  local deadline=$((SECONDS + 3 * $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

fails() { ! "$@"; }
prints() { # EXPECTED COMMAND...
  local expected=$1 got
  shift
  got=$("$@")
  [[ $got == "$expected" ]] || { echo "expected: $expected"; echo "got: $got"; return 1; }
}
job_field() { scontrol show job "$1" -o 2>/dev/null | sed -n "s/.*\b$2=\([^ ]*\).*/\1/p"; }
job_is() { [[ $(job_field "$1" JobState) == "$2" ]]; }

conclude() {
  ((failures == 0)) || { echo "$failures checks failed"; exit 1; }
  echo "all checks passed in $SECONDS s"
}
