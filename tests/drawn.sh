#!/bin/sh
# Prints the number that CI's samples are drawn by. It follows from the sources, so that what fails for a commit
# fails again for it, and each change draws others. Outside a repository it is the time.
set -eu
tree=$(git -C "$(dirname "$0")" rev-parse --quiet --verify 'HEAD^{tree}' 2>/dev/null | cut -c 1-7)
if [ "$tree" ]; then echo $((0x$tree)); else date +%s; fi
