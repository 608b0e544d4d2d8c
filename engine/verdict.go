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

// endpointError is an error at one endpoint of a node, as the driver gave it.
type endpointError struct {
	who string // see endpointName
	error
}

func (e endpointError) Unwrap() error { return e.error }

// Plain implements driver.Plain: what the driver says of it, or what the
// network means.
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

// fromNetwork says whether an error comes of a connection.
func fromNetwork(err error) bool {
	var request *url.Error
	var operation net.Error
	return errors.As(err, &request) || errors.As(err, &operation) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNRESET)
}

// verdict is what an error means in one sentence, which is the same as long as the
// trouble is.
func verdict(err error) string {
	if v := driver.PlainOf(err); v != "" {
		return v
	}
	return retry.Steady(err)
}

// cause is how an error was found: its text, where the verdict is not the end of
// it.
func cause(err error) string {
	if text := retry.Steady(err); !strings.HasSuffix(text, verdict(err)) {
		return text
	}
	return ""
}

// explained is an error's verdict, and what it comes of.
func explained(err error) string {
	if c := cause(err); c != "" {
		return verdict(err) + " (" + c + ")"
	}
	return verdict(err)
}

// endpointName is what people call an endpoint of a node.
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
