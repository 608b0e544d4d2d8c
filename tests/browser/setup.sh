#!/bin/sh
# Fetches axe-core, which looks for what people who cannot see or point well
# stumble over in pages, from npm into the user's cache. Does nothing when it is there.
set -eu
version=4.14.1 sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
cache="${XDG_CACHE_HOME:-$HOME/.cache}/slipway"
[ ! -f "$cache/axe-core-$version/axe.min.js" ] || exit 0
echo "setup: fetching axe-core $version" >&2
mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent --ignore-scripts "axe-core@$version" >/dev/null)
echo "$sum  $work/axe-core-$version.tgz" | sha256sum --check --quiet
mkdir "$work/kept"
tar -xzf "$work/axe-core-$version.tgz" -C "$work/kept" --strip-components=1 package/axe.min.js package/LICENSE
rm -rf "$cache/axe-core-$version"
mv "$work/kept" "$cache/axe-core-$version"
