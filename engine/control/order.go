package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
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

// Bounds on an order.
const (
	maxOrder  = 64 << 10 // bytes
	maxReason = 1000     // bytes
)

// decodeBody reads the one JSON value of a request strictly: what is not understood is not half done.
func decodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fmt.Errorf("%w: the body must be JSON, with \"Content-Type: application/json\"", ErrBadRequest)
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one value")
		}
	}
	if err != nil {
		return fmt.Errorf("%w: the daemon cannot read this order: %s", ErrBadRequest, site.Printable(err.Error()))
	}
	return nil
}

// readOrder reads the order of a request. Whose it is says the connection and not the body.
func readOrder(c *call) (site.Order, error) {
	o := site.Order{Verb: site.Verb(c.route.verb), By: c.caller.String()}
	var target allOrOne
	switch c.route.body.(type) {
	case approveBody:
		var b approveBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		o.Digest, o.Node, o.Shown, o.Reason = b.Digest, b.Node, b.Shown, b.Reason
		if o.Node != "" && !site.IsDigest(o.Shown) {
			return o, fmt.Errorf("%w: \"shown\" must be the \"approval\" that the status of the node had when the person read it", ErrBadRequest)
		}
		if o.Node == "" && o.Shown != "" {
			return o, fmt.Errorf("%w: \"shown\" belongs to a node", ErrBadRequest)
		}
		return o, checkOrder(&o, exactlyOne)
	case disapproveBody:
		var b disapproveBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		o.Digest, o.Node, o.Reason = b.Digest, b.Node, b.Reason
		return o, checkOrder(&o, exactlyOne)
	case verifyBody:
		var b verifyBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		return o, checkVerify(&o, b)
	case releaseBody:
		var b releaseBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		o.Incident = b.Incident
		return o, checkTarget(&o, b.allOrOne, func(o *site.Order) error {
			if o.Incident != "" && !site.IsIncidentName(o.Incident) {
				return errIncidentName
			}
			return nil
		})
	case incidentBody:
		var b incidentBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		o.Incident, o.Nodes, o.CompromisedSince, o.Reason, o.DryRun, o.Digest = b.Incident, b.Nodes, b.Since, b.Reason, b.DryRun, b.Confirm
		return o, checkOrder(&o, checkIncident)
	case grantBody:
		var b grantBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		o.Digest, o.Reason = b.Digest, b.Reason
		return o, checkOrder(&o, func(o *site.Order) error {
			if o.Digest == "" {
				return fmt.Errorf("%w: grant takes the \"digest\" of the access that the person was shown", ErrBadRequest)
			}
			return nil
		})
	case takeOverBody:
		var b takeOverBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		o.Reason = b.Reason
		return o, checkOrder(&o, reasoned)
	case pauseBody:
		var b pauseBody
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		target, o.Reason, o.Until = b.allOrOne, b.Reason, b.Until
		if !o.Until.IsZero() && !o.Until.After(time.Now()) {
			return o, fmt.Errorf("%w: \"until\" is over already", ErrBadRequest)
		}
		return o, checkTarget(&o, target, reasoned)
	case withReason:
		var b withReason
		if err := decodeBody(c.w, c.r, &b); err != nil {
			return o, err
		}
		o.Reason = b.Reason
		return o, checkTarget(&o, b.allOrOne, reasoned)
	}
	if err := decodeBody(c.w, c.r, &target); err != nil {
		return o, err
	}
	return o, checkTarget(&o, target, func(*site.Order) error { return nil })
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

// checkVerify has an order name what is looked at in exactly one way.
func checkVerify(o *site.Order, b verifyBody) error {
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

// orderedNodes are the nodes that an order is about; one "" is the whole site. A set by its digest is
// about its nodes as far as that can be known: the digest names exactly these losses. To take a set
// back is for the whole site: it takes back what a merged proposal approves, too, on nodes that are not known here.
func (c *call) orderedNodes() ([]string, error) {
	o := c.order
	if o.Verb == site.VerbVerify {
		return c.verifiedNodes()
	}
	if o.Verb == site.VerbIncident && o.Digest == "" {
		return o.Nodes, nil
	}
	if o.Digest == "" || o.Verb != site.VerbApprove || c.may(access.Verb(o.Verb), "") == nil {
		return []string{o.Node}, nil
	}
	r, err := c.report()
	if err != nil {
		return nil, err
	}
	var nodes []string
	if r.Status.Approve == o.Digest {
		for _, l := range r.Status.Waiting {
			nodes = append(nodes, l.Node)
		}
	}
	if len(nodes) == 0 {
		return []string{""}, nil // of other sets it is not known which nodes they have
	}
	return nodes, nil
}

// verifiedNodes are the nodes that are to be looked at. A role is resolved here, once.
func (c *call) verifiedNodes() ([]string, error) {
	if c.order.Role != "" {
		d, err := c.design()
		if err != nil {
			return nil, err
		}
		for _, name := range d.NodeNames() {
			if d.Nodes[name].Role == c.order.Role {
				c.order.Nodes = append(c.order.Nodes, name)
			}
		}
		if len(c.order.Nodes) == 0 {
			return nil, fmt.Errorf("%w: site %s has no node of role %q", site.ErrNotFound, c.site, c.order.Role)
		}
	}
	if len(c.order.Nodes) == 0 {
		return []string{""}, nil
	}
	return c.order.Nodes, nil
}

// verify has the daemon look at nodes now.
func verify(c *call) (any, error) {
	return c.daemon.RunVerification(c.r.Context(), c.site, site.VerificationRequest{Nodes: c.order.Nodes, By: c.order.By})
}

// carryOut has the daemon carry out the order.
func carryOut(c *call) (any, error) {
	sentence, err := c.daemon.Do(c.r.Context(), c.site, c.order)
	return done{sentence}, err
}

// certifyLogin has the daemon sign a certificate. Whose it is says the connection and not the body.
func certifyLogin(c *call) (any, error) {
	var b sshBody
	if err := decodeBody(c.w, c.r, &b); err != nil {
		return nil, err
	}
	return c.daemon.CertifyLogin(c.r.Context(), c.site, site.SSHRequest{Node: c.node, Account: b.Account, Key: b.Key, Life: b.Life, By: c.caller.String()})
}
