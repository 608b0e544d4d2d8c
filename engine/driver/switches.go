package driver

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Switches sets up ports of switches for machines that start over the network. There is one for a
// site, and the engine calls it for several nodes at a time. It calls Provision before the machine
// is told to start over the network, and Production before it starts from its disk again, or when
// that start came to nothing.
//
// What a switch says proves nothing: the engine counts ports as back once the machine's own system
// sees that they carry its networks, and calls Production again where that does not come about. So
// both are called as often as it takes, also after an error, and after a restart of the daemon for
// ports that an earlier one has prepared. "Already so" is success. An error is of a class as a
// Machine's is: with ErrRefused a person must decide, and any other one is tried again.
type Switches interface {
	// Provision prepares ports for a start of the node's machine over the network, and returns
	// when the switches say that they are so.
	Provision(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error
	// Production has ports carry the networks that the design has them for, and returns when the
	// switches say that they do.
	Production(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error
}
