package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What each order takes as its body. A body never says which order it is: the path does, so that what
// is allowed is what is done.
type (
	// allOrOne is an order for one node, or expressly for all.
	allOrOne struct {
		// Node is the node, where the order is for one.
		Node string `json:"node,omitempty"`
		// All is true for the whole site.
		All bool `json:"all,omitempty"`
	}
	// withReason is allOrOne with why.
	withReason struct {
		allOrOne
		// Reason is why, for the record and for others.
		Reason string `json:"reason"`
	}
	pauseBody struct {
		withReason
		// Until is when the pause ends by itself.
		Until time.Time `json:"until,omitzero"`
	}
	// approveBody names what is approved by what was shown: a set by its digest, or a node with the
	// digest of its text.
	approveBody struct {
		// Digest is that of the set, as the status has it in "approve".
		Digest string `json:"digest,omitempty"`
		// Node is a node, with Shown.
		Node string `json:"node,omitempty"`
		// Shown is the "approval" of the node, read together with its "approve": what was shown to the
		// person. It is another one as soon as the machine, its system, the steps or the revision are.
		Shown string `json:"shown,omitempty"`
		// Reason is a note for the record.
		Reason string `json:"reason,omitempty"`
	}
	disapproveBody struct {
		// Digest is that of a set whose approvals end.
		Digest string `json:"digest,omitempty"`
		// Node is a node of which all approvals end.
		Node string `json:"node,omitempty"`
		// Reason is a note for the record.
		Reason string `json:"reason,omitempty"`
	}
	// sshBody asks for a certificate that logs in to the node of the path.
	sshBody struct {
		// Account is one of the node's; empty for the first.
		Account string `json:"account,omitempty"`
		// Key is the public key of the person, "ssh-ed25519 AAAA…".
		Key string `json:"key"`
		// Life is how long the certificate is to be valid, such as "5m".
		Life site.Duration `json:"life"`
	}
	// verifyBody names what is looked at: nodes, a role, or expressly all.
	verifyBody struct {
		// Nodes are the names of nodes.
		Nodes []string `json:"nodes,omitempty"`
		// Role is a role, for all of its nodes.
		Role string `json:"role,omitempty"`
		// All is true for the whole site.
		All bool `json:"all,omitempty"`
	}
	releaseBody struct {
		allOrOne
		// Incident is the name of the incident that the node is part of, where it is part of one.
		Incident string `json:"incident,omitempty"`
	}
	// incidentBody begins an incident, or confirms one that waits.
	incidentBody struct {
		// Incident is its name: lower case letters, digits and hyphens.
		Incident string `json:"incident,omitempty"`
		// Nodes were compromised.
		Nodes []string `json:"nodes,omitempty"`
		// Since is the earliest time at which they can have been in other hands.
		Since time.Time `json:"since,omitzero"`
		// Reason is what is known, for the record and for others.
		Reason string `json:"reason,omitempty"`
		// DryRun is true to be told what the order would do.
		DryRun bool `json:"dryRun,omitempty"`
		// Confirm is the ID of the incident that the person was shown, in place of all else.
		Confirm string `json:"confirm,omitempty"`
		// End is the ID of an incident whose nodes are all released, to end it although secrets are not known
		// to be replaced. It takes a reason.
		End string `json:"end,omitempty"`
	}
	grantBody struct {
		// Digest is the one that the person was shown with the changes.
		Digest string `json:"digest"`
		// Reason is for the record and for others.
		Reason string `json:"reason,omitempty"`
	}
	takeOverBody struct {
		// Reason is why the other daemon is gone.
		Reason string `json:"reason"`
	}
)

// order reads into an order what the body says, and checks it.
func (b approveBody) order(o *site.Order) error {
	o.Digest, o.Node, o.Shown, o.Reason = b.Digest, b.Node, b.Shown, b.Reason
	if o.Node != "" && !site.IsDigest(o.Shown) {
		return fmt.Errorf("%w: \"shown\" must be the \"approval\" that the status of the node had when the person read it", ErrBadRequest)
	}
	if o.Node == "" && o.Shown != "" {
		return fmt.Errorf("%w: \"shown\" belongs to a node", ErrBadRequest)
	}
	return checkOrder(o, exactlyOne)
}

func (b disapproveBody) order(o *site.Order) error {
	o.Digest, o.Node, o.Reason = b.Digest, b.Node, b.Reason
	return checkOrder(o, exactlyOne)
}

func (b releaseBody) order(o *site.Order) error {
	o.Incident = b.Incident
	return checkTarget(o, b.allOrOne, func(o *site.Order) error {
		if o.Incident != "" && !site.IsIncidentName(o.Incident) {
			return errIncidentName
		}
		return nil
	})
}

func (b incidentBody) order(o *site.Order) error {
	o.Incident, o.Nodes, o.CompromisedSince, o.Reason, o.DryRun, o.Digest = b.Incident, b.Nodes, b.Since, b.Reason, b.DryRun, cmp.Or(b.Confirm, b.End)
	if o.End = b.End != ""; o.End && b.Confirm != "" {
		return fmt.Errorf("%w: \"confirm\" and \"end\" exclude each other", ErrBadRequest)
	}
	return checkOrder(o, checkIncident)
}

func (b grantBody) order(o *site.Order) error {
	o.Digest, o.Reason = b.Digest, b.Reason
	return checkOrder(o, func(o *site.Order) error {
		if o.Digest == "" {
			return fmt.Errorf("%w: grant takes the \"digest\" of the access that the person was shown", ErrBadRequest)
		}
		return nil
	})
}

func (b takeOverBody) order(o *site.Order) error {
	o.Reason = b.Reason
	return checkOrder(o, reasoned)
}

func (b pauseBody) order(o *site.Order) error {
	o.Until = b.Until
	if !o.Until.IsZero() && !o.Until.After(time.Now()) {
		return fmt.Errorf("%w: \"until\" is in the past", ErrBadRequest)
	}
	return b.withReason.order(o)
}

func (b withReason) order(o *site.Order) error {
	o.Reason = b.Reason
	return checkTarget(o, b.allOrOne, reasoned)
}

func (b allOrOne) order(o *site.Order) error {
	return checkTarget(o, b, func(*site.Order) error { return nil })
}

// checkTarget has an order be for one node or expressly for all: one that was left out by mistake must
// not be an order for the whole site.
func checkTarget(o *site.Order, t allOrOne, more func(*site.Order) error) error {
	if (t.Node == "") != t.All {
		return fmt.Errorf("%w: %s takes either \"node\" or \"all\": true", ErrBadRequest, o.Verb)
	}
	o.Node = t.Node
	return checkOrder(o, more)
}

func checkOrder(o *site.Order, more func(*site.Order) error) error {
	switch {
	case o.Node != "" && !nodeInPath.MatchString(o.Node):
		return fmt.Errorf("%w: no node is called %s", site.ErrNotFound, site.Printable(o.Node[:min(len(o.Node), 100)]))
	case o.Digest != "" && !site.IsDigest(o.Digest):
		return fmt.Errorf("%w: a digest has %d digits of 0-9 and a-f", ErrBadRequest, site.DigestDigits)
	case len(o.Reason) > maxReason:
		return fmt.Errorf("%w: the reason has more than %d bytes", ErrBadRequest, maxReason)
	}
	o.Reason = site.Printable(o.Reason)
	return more(o)
}

// order names what is looked at in exactly one way.
func (b verifyBody) order(o *site.Order) error {
	ways := 0
	for _, named := range []bool{len(b.Nodes) > 0, b.Role != "", b.All} {
		if named {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("%w: %s takes one of \"nodes\", \"role\" and \"all\": true", ErrBadRequest, o.Verb)
	}
	for _, name := range append([]string{b.Role}, b.Nodes...) {
		if name != "" && !nodeInPath.MatchString(name) {
			return fmt.Errorf("%w: no node or role is called %s", site.ErrNotFound, site.Printable(name[:min(len(name), 100)]))
		}
	}
	if slices.Contains(b.Nodes, "") {
		return fmt.Errorf("%w: the name of a node is empty", ErrBadRequest)
	}
	o.Nodes, o.Role = b.Nodes, b.Role
	switch {
	case len(b.Nodes) == 1:
		o.Node = b.Nodes[0]
	case b.Role != "":
		o.Reason = "the nodes of role " + b.Role
	case len(b.Nodes) > 0:
		text := strings.Join(b.Nodes, ", ")
		o.Reason = text[:min(len(text), maxReason)]
	}
	return nil
}

var errIncidentName = fmt.Errorf("%w: the name of an incident has up to 63 lower case letters, digits and hyphens", ErrBadRequest)

// checkIncident has an order confirm an incident, or name all that begins one.
func checkIncident(o *site.Order) error {
	switch {
	case o.End && (o.Incident != "" || len(o.Nodes) > 0 || !o.CompromisedSince.IsZero() || o.DryRun):
		return fmt.Errorf("%w: \"end\" takes a \"reason\", and nothing else", ErrBadRequest)
	case o.End:
		return reasoned(o)
	case o.Digest != "" && (o.Incident != "" || len(o.Nodes) > 0 || o.Reason != "" || !o.CompromisedSince.IsZero() || o.DryRun):
		return fmt.Errorf("%w: \"confirm\" stands alone: the incident has its nodes already", ErrBadRequest)
	case o.Digest != "":
		return nil
	case !site.IsIncidentName(o.Incident):
		return errIncidentName
	case len(o.Nodes) == 0:
		return fmt.Errorf("%w: an incident needs \"nodes\"", ErrBadRequest)
	case o.CompromisedSince.IsZero():
		return fmt.Errorf("%w: an incident needs \"since\": the earliest time at which its machines can have been in other hands", ErrBadRequest)
	}
	named := map[string]bool{}
	for _, name := range o.Nodes {
		if !nodeInPath.MatchString(name) {
			return fmt.Errorf("%w: no node is called %s", site.ErrNotFound, site.Printable(name[:min(len(name), 100)]))
		}
		if named[name] {
			return fmt.Errorf("%w: the order names %s twice", ErrBadRequest, name)
		}
		named[name] = true
	}
	return reasoned(o)
}

func exactlyOne(o *site.Order) error {
	if (o.Digest == "") == (o.Node == "") {
		return fmt.Errorf("%w: %s takes either \"digest\" or \"node\"", ErrBadRequest, o.Verb)
	}
	return nil
}

func reasoned(o *site.Order) error {
	if o.Reason == "" {
		return fmt.Errorf("%w: %s needs a \"reason\": others will want to know", ErrBadRequest, o.Verb)
	}
	return nil
}
