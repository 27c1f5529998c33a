# What utils/quickstart and utils/check share. Sourced by bash, from the root of the checkout.
#
#   stage NAME COMMAND...   runs a stage: a line when it starts, its time when it ends, the end of its log if it fails
#   install_packages LIST   installs the Debian packages of the named lists that are missing
#   make_venv               .venv with the packages of utils/requirements.txt
#   configure, build        the release preset in build/

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

build_dir="$root/build"
venv="$root/.venv"
logs="$build_dir/logs"
mkdir -p "$logs"

# Objects are found again from a checkout in another folder.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
export LC_ALL=C.UTF-8

declare -A packages=(
  [build]="ca-certificates git g++ clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools cmake
           ninja-build ccache libonnx-dev libprotobuf-dev protobuf-compiler libflatbuffers-dev flatbuffers-compiler
           nlohmann-json3-dev libcli11-dev libfmt-dev libxxhash-dev libgtest-dev libgmock-dev zlib1g-dev libzstd-dev
           python3 python3-dev python3-venv"
  [test]="libonnx-testdata pkgconf libllvm15"
  [bench]="libdnnl-dev libopenblas-dev"
)

stage_number=0
stages_total=0

# The functions that stages run end in `|| return` where it matters: bash ignores `set -e` in a command whose status
# somebody looks at, and everybody looks at a stage's.

# Runs a stage. Its output goes to build/logs; while it runs, a line every 30 seconds says how far it is.
stage() {
  local name=$1 log pid start now next=30 status=0
  shift
  stage_number=$((stage_number + 1))
  log="$logs/$(printf '%02d' "$stage_number")-${name//[^A-Za-z0-9_]/-}.log"
  printf '[%d/%d] %s\n' "$stage_number" "$stages_total" "$name"
  start=$SECONDS
  ( "$@" ) >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    now=$((SECONDS - start))
    if [ "$now" -ge "$next" ]; then
      printf '      %4d s  %s\n' "$now" "$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)"
      next=$((now + 30))
    fi
  done
  wait "$pid" || status=$?
  if [ "$status" -ne 0 ]; then
    printf '      failed after %d s; the end of %s:\n' $((SECONDS - start)) "${log#"$root"/}"
    tail -n 40 "$log" | sed 's/^/      | /'
    return "$status"
  fi
  printf '      %4d s\n' $((SECONDS - start))
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "This needs root, and there is no sudo. Run as root: $*" >&2
    return 1
  fi
}

missing_packages() {
  local list name
  for list in "$@"; do
    for name in ${packages[$list]}; do
      [ "$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null)" = "install ok installed" ] || echo "$name"
    done
  done
}

has_candidate() {
  # Not -q: it ends early, and apt-cache's broken pipe would be the answer.
  apt-cache policy "$1" | grep 'Candidate: [0-9]' >/dev/null
}

# LLVM 22 lies in the security suite, which a root made by debootstrap does not list: the suite is taken from the
# mirror that the main suite comes from.
add_security_suite() {
  local uri codename
  while read -r uri codename; do
    uri=${uri%/}
    [ "${uri##*/}" = debian ] || continue
    echo "adding the suite $codename-security"
    echo "deb $uri-security $codename-security main" |
      as_root tee /etc/apt/sources.list.d/rlx-security.list >/dev/null || return
    as_root apt-get update
    return
  done < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | sort -u)
  echo "LLVM 22 is in Debian 12's security suite: add it to the package sources" >&2
  return 1
}

install_packages() {
  local missing
  missing=$(missing_packages "$@") || return
  if [ -z "$missing" ]; then
    echo "nothing is missing"
    return
  fi
  command -v apt-get >/dev/null || { echo "No apt-get here. Install by hand: $missing" >&2; return 1; }
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update || return
  has_candidate libmlir-22-dev || add_security_suite || return
  # shellcheck disable=SC2086
  as_root apt-get install -y --no-install-recommends $missing
}

make_venv() {
  if cmp -s utils/requirements.txt "$venv/requirements.txt"; then
    echo "nothing is missing"
    return
  fi
  rm -rf "$venv"
  python3 -m venv "$venv" || return
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-input -r utils/requirements.txt || return
  cp utils/requirements.txt "$venv/requirements.txt"
}

# A folder that has been configured keeps what it was configured with.
configure() {
  local stamp="$build_dir/CMakePresets.json"
  if [ -f "$build_dir/build.ninja" ] && cmp -s CMakePresets.json "$stamp"; then
    cmake "$build_dir"
  else
    rm -rf "$build_dir/CMakeCache.txt" "$build_dir/CMakeFiles"
    cmake --preset release "-DRLX_TEST_PYTHON=$venv/bin/python" || return
    cp CMakePresets.json "$stamp"
  fi
}

# A compile takes up to 1.5 GB: no more of them at a time than fit.
jobs_that_fit() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemTotal/ { print int($2 / 1500000) }' /proc/meminfo)
  [ "$memory" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

build() {
  ninja -C "$build_dir" -j "$(jobs_that_fit)" "$@"
}
