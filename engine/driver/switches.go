package driver

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Switches configures switch ports for machines that boot over the network. A site has one, and the
// engine calls it for several nodes at a time. The engine calls Provision before it tells the
// machine to boot over the network. It calls Production before the machine boots from its disk
// again, or if the network boot failed.
//
// A switch's answer proves nothing. The engine counts ports as back once the machine's own system
// sees that they carry its networks, and calls Production again until it does. So both methods are
// called as often as needed: after errors, and after a daemon restart for ports that the earlier
// daemon prepared. "Already so" is success. Errors have the classes of a Machine's: ErrRefused
// needs a person, and any other error is retried.
type Switches interface {
	// Provision prepares ports for a network boot of the node's machine, and returns when the
	// switches confirm it.
	Provision(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error
	// Production makes ports carry their designed networks, and returns when the switches confirm
	// it.
	Production(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error
}
