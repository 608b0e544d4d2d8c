#!/bin/sh
# Fetches GitHub's own description of its API from npm, and the example
# webhooks, into the user's cache. Of the description's 385 MB only the file for
# github.com is kept. Does nothing when they are there.
set -eu
cache="${XDG_CACHE_HOME:-$HOME/.cache}/slipway"
work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

# fetch NAME VERSION SHA256 FILE...: keeps files of a package's archive.
fetch() {
	name=$1 version=$2 sum=$3
	shift 3
	[ -d "$cache/$name-$version" ] && return
	echo "setup: fetching @octokit/$name $version" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/fetch.XXXXXX")
	(cd "$work" && npm pack --silent --ignore-scripts "@octokit/$name@$version" >/dev/null)
	archive="$work/octokit-$name-$version.tgz"
	echo "$sum  $archive" | sha256sum --check --quiet
	mkdir "$work/kept"
	tar -xzf "$archive" -C "$work/kept" --strip-components=2 "$@"
	mv "$work/kept" "$cache/$name-$version"
	rm -rf "$work"
}

fetch openapi 23.0.2 71a18407dd5e8464f4e0525daf03deabbe65abd9287d6adc7b5d98f516cd0d0c package/generated/api.github.com.json
fetch webhooks-examples 7.6.1 89e6cb1c6345d32e3dd775617fa54effbdc26c859e514898d7728e95e9738280 package/api.github.com/index.json
