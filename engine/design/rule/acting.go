package rule

import "github.com/slipway-gitops/slipway/engine/site"

// acting: does a driver act on what is designed? Code that knows the drivers
// checks this after a design is evaluated.
var acting = []Rule{{
	Code: "need-gates-nothing", Severity: site.SeverityError, Firm: true,
	What: "Each phase for which a role has `needs` is one in which Slipway does something.",
	Why:  "No driver does anything in the phase, so nothing waits: the nodes are installed and changed before what they need is there.",
}, {
	Code: "health-unseen", Severity: site.SeverityWarning, Firm: true,
	What: "Slipway can look at the health of each node whose role asks for health.",
	Why:  "Health that Slipway cannot look at is unknown, and unknown is not healthy: whatever needs the node waits forever, and its changes never count as done.",
}, {
	Code: "not-acted-on", Severity: site.SeverityNote, Firm: true,
	What: "Some driver acts on each part of a design.",
	Why:  "Slipway does not apply it to the machine, and does not check it: the design says what you want, and not what the machine has.",
}}
