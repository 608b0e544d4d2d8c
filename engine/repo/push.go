package repo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Push commits a tree's files on top of its head and puts the commit onto a
// branch, which must still be at that head: nothing is ever forced, and the
// server checks it again under its lock. It returns the commit's id, and the
// tree then continues that commit. ErrMoved means that the branch is
// elsewhere. After an error the tree must be dropped: whether the commit
// arrived is not known.
func (r Remote) Push(ctx context.Context, branch string, t *Tree, m Message) (string, error) {
	return r.push(ctx, branch, t.head, t, m)
}

// Branch is Push onto a branch that is not there yet. ErrMoved means that it is.
func (r Remote) Branch(ctx context.Context, branch string, t *Tree, m Message) (string, error) {
	return r.push(ctx, branch, plumbing.ZeroHash, t, m)
}

// push puts a commit onto a branch that must be at old, or must not be there.
func (r Remote) push(ctx context.Context, branch string, old plumbing.Hash, t *Tree, m Message) (string, error) {
	id, objects, err := t.commit(m)
	if err != nil {
		return "", err
	}
	name := plumbing.NewBranchReferenceName(branch)
	command := &packp.Command{Name: name, Old: old, New: id}
	var refused error
	err = r.do(ctx, receiving, transferTimeout, func(s *session) error {
		out := bufio.NewReader(s.out)
		adv, err := advertised(io.LimitReader(out, maxListing))
		if err != nil {
			return err
		}
		if adv.References[name.String()] != old {
			return ErrMoved
		}
		refused, err = send(s.in, out, adv, command, t.fresh, objects)
		return err
	})
	if err == nil && refused != nil {
		err = r.whyRefused(ctx, branch, old, refused)
	}
	if err != nil {
		return "", err
	}
	t.head = id
	t.blobs = nil
	t.fresh = memory.NewStorage()
	return id.String(), nil
}

// send writes the command and the pack, and reads whether it was accepted.
func send(in io.WriteCloser, out io.Reader, adv *packp.AdvRefs, command *packp.Command, from *memory.Storage, objects []plumbing.Hash) (refused, err error) {
	if !adv.Capabilities.Supports(capability.ReportStatus) {
		return nil, errors.New("the server cannot say whether it accepted a push")
	}
	req := packp.NewReferenceUpdateRequest()
	_ = req.Capabilities.Set(capability.ReportStatus) // fails for capabilities with arguments only
	req.Commands = []*packp.Command{command}
	if err := req.Encode(in); err != nil {
		return nil, err
	}
	// A window of 0: what changed is small, and its older versions are not
	// in the pack to be a delta's base.
	if _, err := packfile.NewEncoder(in, from, false).Encode(objects, 0); err != nil {
		return nil, err
	}
	if err := in.Close(); err != nil {
		return nil, err
	}
	status := packp.NewReportStatus()
	if err := status.Decode(out); err != nil {
		return nil, err
	}
	return status.Error(), nil
}

// whyRefused tells a lost race from a server that does not want the push.
// What the server says differs from one to the next, so the branch is asked.
func (r Remote) whyRefused(ctx context.Context, branch string, head plumbing.Hash, refused error) error {
	now, err := r.Head(ctx, branch)
	switch {
	case err == nil && now != head.String(), errors.Is(err, ErrNoBranch) && !head.IsZero():
		return fmt.Errorf("%s: %w", r, ErrMoved)
	}
	return fmt.Errorf("%s: the server refused the push to %s: %s: the key or token needs write access, and no rule of the server may protect this branch from it", r, plain(branch), plain(refused.Error()))
}
