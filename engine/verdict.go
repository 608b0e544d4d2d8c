package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// endpointError is a driver's error at one endpoint of a node.
type endpointError struct {
	who string // see endpointName
	error
}

func (e endpointError) Unwrap() error { return e.error }

// Plain implements driver.Plain. It returns the driver's own words, or what the
// network error means.
func (e endpointError) Plain() string {
	if v := driver.PlainOf(e.error); v != "" {
		return v
	}
	var name *net.DNSError
	switch err := e.error; {
	case driver.Class(err) != driver.ErrUnreachable.Error() || !fromNetwork(err):
		return strings.TrimPrefix(retry.Steady(err), driver.Class(err)+": ")
	case errors.As(err, &name):
		return fmt.Sprintf("the name of %s is not known: %s", e.who, name.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return e.who + " refuses connections"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to the network of " + e.who
	}
	return e.who + " does not answer"
}

// fromNetwork reports whether an error comes from a connection.
func fromNetwork(err error) bool {
	var request *url.Error
	var operation net.Error
	return errors.As(err, &request) || errors.As(err, &operation) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNRESET)
}

// verdict returns what an error means in one sentence, which stays the same while
// the trouble lasts.
func verdict(err error) string {
	if v := driver.PlainOf(err); v != "" {
		return v
	}
	return retry.Steady(err)
}

// cause returns the text of an error, if the verdict does not say it all.
func cause(err error) string {
	if text := retry.Steady(err); !strings.HasSuffix(text, verdict(err)) {
		return text
	}
	return ""
}

// explained returns an error's verdict and its cause.
func explained(err error) string {
	if c := cause(err); c != "" {
		return verdict(err) + " (" + c + ")"
	}
	return verdict(err)
}

// endpointName returns an endpoint of a node in words.
func endpointName(n *site.Node, kind site.EndpointKind) string {
	switch {
	case kind == site.OS:
		return "the installed system"
	case kind == site.Agent:
		return "the agent"
	case n.IsVirtual():
		return "the hypervisor " + n.Virtual.Host.Hypervisor
	}
	return "the BMC"
}
