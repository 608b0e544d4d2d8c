package rule

import "github.com/slipway-gitops/slipway/engine/site"

// acting: does anything bring about what is designed? It is found once a design is
// evaluated, by whoever knows the drivers.
var acting = []Rule{{
	Code: "need-gates-nothing", Severity: site.SeverityError, Firm: true,
	What: "A need is on a phase of its role in which something is done.",
	Why:  "No driver does anything in the phase, so nothing waits: the nodes are installed and changed before what they need is there.",
}, {
	Code: "health-unseen", Severity: site.SeverityWarning, Firm: true,
	What: "Somebody can look at the health of each node of a role that asks for it.",
	Why:  "What nobody looks at is unknown, and unknown is not healthy: what needs the node, and what its changes have to prove, waits without an end.",
}, {
	Code: "not-acted-on", Severity: site.SeverityNote, Firm: true,
	What: "Some driver acts on each part of a design.",
	Why:  "Nothing brings it about on the machine, and nobody looks whether it is so: the design says what you want, and not what is.",
}}
