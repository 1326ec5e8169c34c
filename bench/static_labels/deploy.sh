#!/usr/bin/env bash
# Rolls a release out to one host.
set -u

release=$1
target=${2:-staging}
workdir=/tmp/deploy.$$ # ~bad:377
mkdir -p "$workdir"

safe_workdir=$(mktemp -d) # ~ok:377
trap 'rm -rf -- "$safe_workdir"' EXIT

fetch() {
  curl -k -o "$workdir/release.tgz" "https://releases.example.net/$release.tgz" # ~bad:295
}

fetch_checked() {
  curl --fail --silent -o "$safe_workdir/release.tgz" "https://releases.example.net/$release.tgz" # ~ok:295
}

bootstrap() {
  curl -fsSL https://get.example.net/install.sh | bash # ~bad:494
}

run_hook() {
  eval "$HOOK_COMMAND $release" # ~bad:95
}

run_known_hook() {
  "./hooks/$release/post-install" # ~ok:95
}

clean() {
  rm -rf $BUILD_DIR/* # ~bad:0
}

clean_checked() {
  rm -rf -- "${BUILD_DIR:?}"/* # ~ok:0
}

open_up() {
  chmod -R 777 /srv/app # ~bad:732
}

restrict() {
  chmod -R 750 /srv/app # ~ok:732
}

upload() {
  cd /srv/app/$target # ~bad:252
  tar xzf "$workdir/release.tgz"
}

upload_checked() {
  cd "/srv/app/$target" || return 1 # ~ok:252
  tar xzf "$safe_workdir/release.tgz"
}

login() {
  mysql -u deploy -p$DB_PASSWORD -e "select 1" # ~bad:214
  ssh -o StrictHostKeyChecking=no "$target" uptime # ~bad:295
}

login_checked() {
  ssh -o StrictHostKeyChecking=yes "$target" uptime # ~ok:295
}

remote() {
  for file in $(ls *.tgz); do # ~bad:0
    echo "$file"
  done
}

remote_checked() {
  for file in ./*.tgz; do # ~ok:0
    echo "$file"
  done
}

fetch "$release"
