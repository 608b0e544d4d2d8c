package repo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// protocolV2 asks a server for version 2 of Git's protocol. In it, a client
// names the references that it wants: one line instead of all of them
// (gitprotocol-v2(5)). A server without version 2 answers in version 0.
const (
	protocolVariable = "GIT_PROTOCOL"
	protocolV2       = "version=2"
)

const heads = "refs/heads/"

// Head returns the commit of a branch. It lists only that reference, or all
// references if the server speaks only the old protocol. ErrNoBranch is
// returned when the branch does not exist.
func (r Remote) Head(ctx context.Context, branch string) (string, error) {
	refs, err := r.list(ctx, heads+branch)
	if err != nil {
		return "", err
	}
	head, ok := refs[heads+branch]
	if !ok {
		return "", fmt.Errorf("%s: branch %s: %w", r, plain(branch), ErrNoBranch)
	}
	return head.String(), nil
}

// Branches lists the remote's branches in order. An empty repository has none.
func (r Remote) Branches(ctx context.Context) ([]string, error) {
	refs, err := r.list(ctx, heads)
	var names []string
	for name := range refs {
		if branch, ok := strings.CutPrefix(name, heads); ok {
			names = append(names, plain(branch))
		}
	}
	slices.Sort(names)
	return names, err
}

// Heads returns the commits of the branches whose names begin with a prefix, by
// branch.
func (r Remote) Heads(ctx context.Context, prefix string) (map[string]string, error) {
	refs, err := r.References(ctx, heads+prefix)
	found := map[string]string{}
	for name, id := range refs {
		found[strings.TrimPrefix(name, heads)] = id
	}
	return found, err
}

// References returns the commits of the references that begin with a prefix, such as "refs/slipway/", by their whole names.
func (r Remote) References(ctx context.Context, prefix string) (map[string]string, error) {
	refs, err := r.list(ctx, prefix)
	found := map[string]string{}
	for name, id := range refs {
		if strings.HasPrefix(name, prefix) {
			found[name] = id.String()
		}
	}
	return found, err
}

// list returns the remote's references, at least those with the prefix.
func (r Remote) list(ctx context.Context, prefix string) (map[string]plumbing.Hash, error) {
	var refs map[string]plumbing.Hash
	err := r.do(ctx, listing, listTimeout, func(s *session) (err error) {
		out := bufio.NewReader(io.LimitReader(s.out, maxListing))
		greeting, err := out.Peek(len(greetingV2))
		if err == nil && string(greeting) == greetingV2 {
			refs, err = listV2(s.in, out, prefix)
			return err
		}
		adv, err := advertised(out)
		if err != nil {
			return err
		}
		refs = adv.References
		_, err = s.in.Write(pktline.FlushPkt)
		return err
	})
	return refs, err
}

// greetingV2 is the first line of a server that speaks version 2.
const greetingV2 = "000eversion 2\n"

// listV2 requests the references with a prefix, according to gitprotocol-v2(5).
func listV2(in io.Writer, out io.Reader, prefix string) (map[string]plumbing.Hash, error) {
	lines := pktline.NewScanner(out)
	for lines.Scan() && len(lines.Bytes()) > 0 { // capabilities, up to a flush
		if c := string(bytes.TrimSpace(lines.Bytes())); strings.HasPrefix(c, "object-format=") && c != "object-format=sha1" {
			return nil, errNotSHA1
		}
	}
	if lines.Err() != nil {
		return nil, lines.Err()
	}
	if err := askV2(in, prefix); err != nil {
		return nil, err
	}
	refs := map[string]plumbing.Hash{}
	for lines.Scan() {
		line := strings.Fields(string(lines.Bytes()))
		if len(line) == 0 { // flush: the end
			return refs, nil
		}
		if len(line) < 2 || !plumbing.IsHash(line[0]) {
			return nil, fmt.Errorf("reference %q is not understood", plain(string(lines.Bytes())))
		}
		refs[line[1]] = plumbing.NewHash(line[0])
	}
	return nil, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

var errNotSHA1 = errors.New("the repository names its objects by SHA-256, which is not supported yet: use one with SHA-1 (git init --object-format=sha1)")

// askV2 writes the request. A delimiter packet separates it from its arguments,
// and a flush after those of the answer ends the session.
func askV2(in io.Writer, prefix string) error {
	const delimiter = "0001"
	e := pktline.NewEncoder(in)
	if err := e.EncodeString("command=ls-refs\n", "agent=slipway\n", "object-format=sha1\n"); err != nil {
		return err
	}
	if _, err := io.WriteString(in, delimiter); err != nil {
		return err
	}
	if err := e.EncodeString("ref-prefix " + prefix + "\n"); err != nil {
		return err
	}
	return e.Flush()
}

// advertised reads the references that a server of version 0 or 1 sends first.
// An empty repository has none.
func advertised(out io.Reader) (*packp.AdvRefs, error) {
	adv := packp.NewAdvRefs()
	err := adv.Decode(out)
	if errors.Is(err, packp.ErrEmptyAdvRefs) {
		return adv, nil
	}
	if f := adv.Capabilities.Get("object-format"); err == nil && len(f) > 0 && f[0] != "sha1" {
		return nil, errNotSHA1
	}
	return adv, err
}
