#!/bin/sh
# Of the tests of some packages prints those that do not belong to one part of them, as go test's -skip takes
# them: each begins with "|". Its arguments are the part, how many there are, and the packages' folders.
# Proofs belong to all parts, and so does the list of the fields that are tried, which takes no time. So does a
# test of whose name there is another one in the project: -skip would leave out both.
set -eu
part=$1 parts=$2
shift 2
cd "$(dirname "$0")/.."
tests() { grep -rhoE --include='*_test.go' '^func Test[A-Za-z0-9]+\(t ' "$@" | grep -vE '^func Test(Prove|EveryFieldIsTried)'; }
only=$(mktemp)
trap 'rm "$only"' EXIT
tests . | sort | uniq -u >"$only"
for folder; do tests "$folder"/*_test.go; done | grep -xFf "$only" |
	awk -F'[ (]' -v part="$part" -v parts="$parts" 'NR % parts != part { printf "|%s", $2 }'
