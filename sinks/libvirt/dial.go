package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// dialFunc makes the way to libvirt's socket. The context's end does nothing to
// it afterwards.
type dialFunc func(context.Context) (net.Conn, error)

// dialer is how a hypervisor is reached. It sends nothing.
func dialer(a address, e site.Endpoint, s secret.Value) (dialFunc, error) {
	switch a.transport {
	case "unix":
		if !s.IsZero() {
			return func(context.Context) (net.Conn, error) {
				return nil, fmt.Errorf("%w: a socket of this host takes no credential: who may use it is said by its permissions; take the credential out of the hypervisor", driver.ErrDenied)
			}, nil
		}
		return a.dialUnix, nil
	}
	return nil, fmt.Errorf("%s+%s: %w", Scheme, a.transport, errors.ErrUnsupported)
}

// sockets are where libvirt listens: libvirtd or the proxy in its place, and
// the daemon of QEMU's machines alone.
var sockets = []string{"/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"}

// paths are the sockets to try.
func (a address) paths() []string {
	if a.socket != "" {
		return []string{a.socket}
	}
	return sockets
}

func (a address) dialUnix(ctx context.Context) (conn net.Conn, err error) {
	for _, path := range a.paths() {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %w: the daemon's user may not use libvirt's socket; add it to the group libvirt", driver.ErrDenied, err)
	}
	return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}
