package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// dialFunc connects to libvirt's socket. The end of the context does not affect the connection afterwards.
type dialFunc func(context.Context) (net.Conn, error)

// dialer says how a hypervisor is reached. It sends nothing.
func dialer(a address, e site.Endpoint, s secret.Value) (dialFunc, error) {
	switch a.transport {
	case "unix":
		if !s.IsZero() {
			return func(context.Context) (net.Conn, error) {
				return nil, fmt.Errorf("%w: a socket of this host takes no credential: its permissions say who may use it; remove the credential from the hypervisor", driver.ErrDenied)
			}, nil
		}
		return a.dialUnix, nil
	case "tls":
		return tlsDialer(a, e.Trust, s)
	}
	return sshDialer(a, e, s)
}

// sockets are libvirt's sockets: that of libvirtd or its proxy, and that of the QEMU daemon.
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
	return nil, fmt.Errorf("%w: libvirt does not listen on this host: %w; check whether libvirtd, or virtqemud, runs", driver.ErrUnreachable, err)
}

func unreachable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnreachable, err) }

// sshDialer reaches the socket through an SSH login on the hypervisor, like virsh with qemu+ssh.
func sshDialer(a address, e site.Endpoint, s secret.Value) (dialFunc, error) {
	client, err := sshclient.Open(e, s)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (net.Conn, error) {
		login, err := client.Dial(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := a.through(ctx, login)
		if err != nil {
			login.Close()
			return nil, err
		}
		return &tunnel{conn, login}, nil
	}, nil
}

// through opens libvirt's socket at the other end of a login.
func (a address) through(ctx context.Context, login *gossh.Client) (conn net.Conn, err error) {
	for _, path := range a.paths() {
		if conn, err = login.DialContext(ctx, "unix", path); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("%w: libvirt's socket on %s: %w; libvirt has to run there, sshd needs AllowStreamLocalForwarding, and the user the group libvirt", driver.ErrUnreachable, a, err)
}

// tunnel is a connection that closes its login too.
type tunnel struct {
	net.Conn
	login *gossh.Client
}

func (t *tunnel) Close() error { return errors.Join(t.Conn.Close(), t.login.Close()) }
