package repo

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/slipway-gitops/slipway/engine/secret"
)

// service is a program of a Git server and the protocol to request.
type service struct{ program, protocol string }

var (
	listing   = service{"upload-pack", protocolV2}
	fetching  = service{"upload-pack", ""}
	receiving = service{"receive-pack", ""}
)

// session is one run of a service on the remote.
type session struct {
	in     io.WriteCloser
	out    io.Reader
	stderr *tail
	close  func() // ends the service; stderr is complete then
}

// do runs a service and talks to it. Its error includes what the server wrote
// to its standard error, and the reason when time ran out.
func (r Remote) do(ctx context.Context, what service, limit time.Duration, talk func(*session) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := r.start(ctx, what)
	if err != nil {
		return r.explain(ctx.Err(), err, "")
	}
	err = talk(s)
	late := ctx.Err()
	if err != nil {
		cancel() // stop the other side
	}
	s.close()
	if err == nil {
		return nil
	}
	return r.explain(late, err, s.stderr.String())
}

// explain turns a transport error into one that a person can act on. The same
// problem always gives the same text, without port numbers of a connection, so
// that people are told once.
func (r Remote) explain(late, err error, stderr string) error {
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ErrNoBranch), errors.Is(err, ErrMoved):
		return fmt.Errorf("%s: %w", r, err)
	case errors.Is(late, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer in time: %w", r, late)
	case late != nil:
		return fmt.Errorf("%s: %w", r, late)
	case errors.As(err, &dns):
		return fmt.Errorf("%s cannot be reached: the name %s is not found", r, dns.Name)
	case errors.As(err, &cert):
		return fmt.Errorf("%s: its certificate is not trusted, so anyone could be posing as %s: %w: if the authority is your own, name its certificate", r, r.host, cert.Err)
	case errors.As(err, &op):
		return fmt.Errorf("%s cannot be reached: %w", r, op.Err)
	case strings.Contains(stderr, "not appear to be a git repository"):
		return fmt.Errorf("there is no Git repository at %s, or no longer: check the address, and that it may be read from here", r)
	case stderr != "":
		return fmt.Errorf("%s: the server says: %s", r, stderr)
	}
	return fmt.Errorf("%s: %w", r, err)
}

func (r Remote) start(ctx context.Context, what service) (*session, error) {
	switch {
	case r.web != nil:
		return r.web.start(ctx, what)
	case r.host == "":
		return startLocal(ctx, what, r.path)
	}
	return r.startSSH(ctx, what)
}

// startLocal runs the git program on a repository of this host, as git itself
// does. So hooks, locks and permissions are those of any other push.
func startLocal(ctx context.Context, what service, path string) (*session, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("there is no Git repository, or no longer: %w", err)
	}
	cmd := exec.CommandContext(ctx, "git", what.program, path)
	cmd.Env = append(withoutGit(os.Environ()), protocolVariable+"="+what.protocol)
	cmd.WaitDelay = time.Second
	stderr := &tail{}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("a repository on this host is read with the git program: %w", err)
	}
	// A hook's child may hold the pipes open after git was killed.
	stop := context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
	end := func() {
		stop()
		_ = in.Close()
		if ctx.Err() != nil {
			_ = out.Close()
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // its errors were already read
	}
	return &session{in, out, stderr, end}, nil
}

// withoutGit drops the variables by which an outer git would redirect ours to
// another repository.
func withoutGit(env []string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, "GIT_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// startSSH runs a service over a new connection, which is closed when ctx ends,
// so that neither a handshake nor a read can outlast it.
func (r Remote) startSSH(ctx context.Context, what service) (*session, error) {
	config, err := r.clientConfig()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(r.host, r.port)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	end := func() {
		stop()
		_ = conn.Close()
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		end()
		return nil, r.explainHandshake(err)
	}
	s, err := r.openSession(ssh.NewClient(c, chans, reqs), what, end)
	if err != nil {
		end()
		return nil, err
	}
	return s, nil
}

func (r Remote) openSession(client *ssh.Client, what service, end func()) (*session, error) {
	channel, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	// A server that rejects the variable answers in the older protocol.
	if what.protocol != "" {
		_ = channel.Setenv(protocolVariable, what.protocol)
	}
	stderr := &tail{}
	channel.Stderr = stderr
	in, err := channel.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := channel.StdoutPipe()
	if err != nil {
		return nil, err
	}
	err = channel.Start("git-" + what.program + " " + quoted(r.path))
	return &session{in, out, stderr, func() {
		end()
		_ = channel.Wait()
	}}, err
}

// quoted quotes a path as one word of a POSIX shell, as git does (quote.c,
// sq_quote_buf): "!" stays outside the quotes because of csh.
func quoted(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

func (r Remote) clientConfig() (*ssh.ClientConfig, error) {
	key, err := signer(r.credential)
	if err != nil {
		return nil, err
	}
	known, err := knownhosts.NewDB(r.knownHosts)
	if err != nil {
		return nil, fmt.Errorf("known_hosts %s: %w", r.knownHosts, err)
	}
	return &ssh.ClientConfig{
		User:              r.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback:   known.HostKeyCallback(),
		HostKeyAlgorithms: known.HostKeyAlgorithms(net.JoinHostPort(r.host, r.port)),
	}, nil
}

// signer parses a private key. Its errors never quote the key.
func signer(credential secret.Value) (ssh.Signer, error) {
	text, _ := credential.PEM() // without any there is none to parse
	key, err := ssh.ParsePrivateKey(text)
	var encrypted *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &encrypted):
		return nil, errors.New("the private key is protected by a passphrase, which nobody can type for a daemon: make a deploy key without one (ssh-keygen -t ed25519 -N '')")
	case err != nil:
		return nil, errors.New("the credential is not a private key in PEM form: pass the file that ssh-keygen -t ed25519 writes, not its .pub")
	}
	return key, nil
}

func (r Remote) explainHandshake(err error) error {
	var key *xknownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) > 0:
		return fmt.Errorf("the host key of %s is not the one in %s (line %d): somebody may pose as the server; if its key really changed, correct that line",
			r.host, r.knownHosts, key.Want[0].Line)
	case errors.As(err, &key):
		return fmt.Errorf("the host key of %s is not in %s: ask the server's owner for the key, or run ssh-keyscan -p %s %s and compare its fingerprint, then add the line",
			r.host, r.knownHosts, r.port, r.host)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("the server refused the key for user %s: add its public half to the repository's deploy keys (with write access, for status commits)", plain(r.user))
	}
	return err
}

// tail keeps the beginning of a server's standard error.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4096
	if room := most - t.text.Len(); room > 0 {
		t.text.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return plain(t.text.String())
}
