package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
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
func readOrder(c *call) (o site.Order, err error) {
	o = site.Order{Verb: site.Verb(c.route.verb), By: c.caller.String()}
	switch c.route.body.(type) {
	case approveBody:
		err = readBody(c, &o, approveBody.order)
	case disapproveBody:
		err = readBody(c, &o, disapproveBody.order)
	case verifyBody:
		err = readBody(c, &o, verifyBody.order)
	case releaseBody:
		err = readBody(c, &o, releaseBody.order)
	case incidentBody:
		err = readBody(c, &o, incidentBody.order)
	case grantBody:
		err = readBody(c, &o, grantBody.order)
	case takeOverBody:
		err = readBody(c, &o, takeOverBody.order)
	case pauseBody:
		err = readBody(c, &o, pauseBody.order)
	case withReason:
		err = readBody(c, &o, withReason.order)
	default:
		err = readBody(c, &o, allOrOne.order)
	}
	return o, err
}

// readBody reads a body of one type into an order.
func readBody[B any](c *call, o *site.Order, into func(B, *site.Order) error) error {
	var b B
	if err := decodeBody(c.w, c.r, &b); err != nil {
		return err
	}
	return into(b, o)
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
	s, err := c.report()
	if err != nil {
		return nil, err
	}
	var nodes []string
	if status := &s.value.Status; status.Approve == o.Digest {
		for _, l := range status.Waiting {
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

// certifyLogin has the daemon sign a certificate. Whose it is says the connection and not the body, in the form in which
// the design can revoke it.
func certifyLogin(c *call) (any, error) {
	var b sshBody
	if err := decodeBody(c.w, c.r, &b); err != nil {
		return nil, err
	}
	by, revocable := item.CallerNamed(string(c.caller.Kind), c.caller.Name)
	if !revocable {
		return nil, fmt.Errorf("%w: %s gets no certificate, because nothing could revoke it", access.ErrDenied, c.caller)
	}
	return c.daemon.CertifyLogin(c.r.Context(), c.site, site.SSHRequest{Node: c.node, Account: b.Account, Key: b.Key, Life: b.Life, By: by})
}
