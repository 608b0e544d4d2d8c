// Package github is a GitHub on loopback, for tests. It has users with rights,
// Apps with installations, repositories that are real Git repositories behind
// smart HTTP, pull requests that live the life of pull requests, and webhooks. It
// enforces the limits that GitHub documents, breaks down on demand, and
// remembers every request.
//
// Every request that it receives, every answer that it gives and every webhook
// that it sends is held against GitHub's own OpenAPI description; a test
// during which one did not agree fails.
//
//	gh := github.Start(t)
//	site := gh.Repository("acme/site")
//	site.Grant("ada", github.Write)
//	site.Push("ada", "main", "begin", github.Files{"site.cue": design})
//	site.Hook(receiver, secret, "push", "pull_request")
//	site.Push("ada", "more", "one more node", github.Files{"n2.cue": node})
//	pull := site.Open(github.Proposal{Author: "ada", Head: "more", Title: "One more"})
//	client := slipway(gh.API(), gh.CA(), gh.Token("bot", "repo"))
//	gh.Pass(time.Hour)
//
// It answers like a GitHub Enterprise Server: the API under /api/v3/, Git at
// the root, over TLS. Where GitHub's documentation leaves something open, the
// comment says what was chosen. The methods by which a test moves this world
// panic when they are used wrongly: on a branch that is not there, for one.
package github
