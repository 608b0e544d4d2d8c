// Command pr measures how soon people read what a proposal would do: from a push
// to a pull request, of which GitHub tells by webhook, until the comment about
// it can be read. It runs the built daemon (bin/slipway) on simulated machines,
// beside a GitHub on loopback that keeps GitHub's limits: the daemon makes at
// most one write a second, as with the real one.
package main

import "github.com/slipway-gitops/slipway/tests/bench/rig"

func main() {
	rig.Main(
		rig.Bench{Name: "push", Run: func(quick bool) ([]string, error) { return pushToComment(quick, 100, "pr/push-to-comment") }},
		rig.Bench{Name: "push-10000", Run: func(quick bool) ([]string, error) { return pushToComment(quick, 10_000, "pr/push-to-comment-10000") }},
	)
}
