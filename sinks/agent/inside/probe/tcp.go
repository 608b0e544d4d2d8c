package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// loopback holds the addresses where a service is tried first. The node's own addresses follow.
var loopback = []string{"127.0.0.1", "::1"}

// port reports whether a TCP port answers at one of the system's addresses.
func port(ctx context.Context, number int, addresses []string) string {
	c, said := connectAny(ctx, number, addresses)
	if c == nil {
		return said
	}
	c.Close()
	return item.Passed
}

// request requests a path by HTTP, and reports whether the answer has the expected status.
func request(ctx context.Context, p item.Probe, addresses []string) string {
	c, said := connectAny(ctx, p.Port, addresses)
	if c == nil {
		return said
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	c.SetDeadline(time.Now().Add(answering))
	host := p.Host
	if host == "" {
		host = "localhost"
	}
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: slipway\r\nAccept: */*\r\nConnection: close\r\n\r\n", p.Path, host)
	what := fmt.Sprintf("port %d", p.Port)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Sprintf("%s takes no request: %v", what, plain(err))
	}
	line, err := bufio.NewReader(io.LimitReader(c, 4<<10)).ReadString('\n')
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("%s does not answer %s within %s", what, p.Path, answering)
	case err != nil && line == "":
		return fmt.Sprintf("%s closes the connection without an answer to %s", what, p.Path)
	}
	status, isHTTP := statusOf(line)
	switch {
	case !isHTTP:
		return fmt.Sprintf("%s does not answer %s by HTTP", what, p.Path)
	case status != p.Status:
		return fmt.Sprintf("%s answers %s with %d and not with %d", what, p.Path, status, p.Status)
	}
	return item.Passed
}

// statusOf reads a status line (RFC 9112, section 4).
func statusOf(line string) (int, bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1.") || len(fields[1]) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(fields[1])
	return status, err == nil && status >= 100
}

// connectAny connects to a port at the first address that answers, or says why none does.
func connectAny(ctx context.Context, number int, addresses []string) (*os.File, string) {
	end := time.Now().Add(connecting)
	refused := true
	for _, text := range append(append([]string{}, loopback...), addresses...) {
		a, err := netip.ParseAddr(text)
		if err != nil || ctx.Err() != nil {
			continue
		}
		c, err := connect(ctx, a, number, end)
		if err == nil {
			return c, ""
		}
		unavailable := errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.ENETUNREACH)
		refused = refused && (unavailable || errors.Is(err, syscall.ECONNREFUSED))
	}
	if refused && ctx.Err() == nil {
		return nil, fmt.Sprintf("port %d does not answer: nothing listens there", number)
	}
	return nil, fmt.Sprintf("port %d does not answer within %s", number, connecting)
}

// connect makes a TCP connection with system calls, because the program does not link package net. The file
// supports deadlines.
func connect(ctx context.Context, a netip.Addr, number int, end time.Time) (*os.File, error) {
	family, to := syscall.AF_INET, syscall.Sockaddr(nil)
	if a = a.Unmap(); a.Is4() {
		to = &syscall.SockaddrInet4{Port: number, Addr: a.As4()}
	} else {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: number, Addr: a.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	begun := syscall.Connect(fd, to)
	c := os.NewFile(uintptr(fd), "a connection")
	if begun != nil && begun != syscall.EINPROGRESS && begun != syscall.EINTR {
		c.Close()
		return nil, begun
	}
	c.SetDeadline(end)
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	if err := connected(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connected waits for the end of a connect.
func connected(c *os.File) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		code, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		if err != nil || code != 0 {
			failed = errors.Join(err, syscall.Errno(code))
			return true
		}
		other, err := syscall.Getpeername(int(fd))
		if err != nil {
			return false // not yet
		}
		// A socket can connect to itself if the kernel assigns it the requested port and nobody listens there.
		if own, err := syscall.Getsockname(int(fd)); err == nil && reflect.DeepEqual(own, other) {
			failed = syscall.ECONNREFUSED
		}
		return true
	})
	return errors.Join(failed, err)
}

// plain removes the name of the connection's file from an error.
func plain(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
