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

// Push commits a tree's files on top of its head and pushes the commit to a
// branch, which must still be at that head. Push never forces, and the server
// checks the head again under its lock. Push returns the commit's id, and the
// tree then continues that commit. ErrMoved means that the branch has moved.
// After an error the caller must drop the tree, because the commit may or may
// not have arrived.
func (r Remote) Push(ctx context.Context, branch string, t *Tree, m Message) (string, error) {
	return r.push(ctx, branch, t.head, t, m)
}

// Branch is Push to a new branch. ErrMoved means that the branch exists.
func (r Remote) Branch(ctx context.Context, branch string, t *Tree, m Message) (string, error) {
	return r.push(ctx, branch, plumbing.ZeroHash, t, m)
}

// Replace points a reference that is no branch, such as "refs/slipway/alive/berlin", at a commit of the files of a new tree.
// That commit has no parent, and the one that the reference had is given up. It returns the commit's id.
func (r Remote) Replace(ctx context.Context, ref string, t *Tree, m Message) (string, error) {
	id, objects, err := t.commit(m)
	if err != nil {
		return "", err
	}
	refused, err := r.update(ctx, t, objects, func(adv *packp.AdvRefs) (*packp.Command, error) {
		return &packp.Command{Name: plumbing.ReferenceName(ref), Old: adv.References[ref], New: id}, nil
	})
	if err == nil && refused != nil {
		err = fmt.Errorf("%s: the server refused to change the reference %s: %s: the key or token needs write access, and the server must let it create and replace references of this name", r, plain(ref), plain(refused.Error()))
	}
	return id.String(), err
}

// push pushes a commit to a branch that must be at old, or must not exist.
func (r Remote) push(ctx context.Context, branch string, old plumbing.Hash, t *Tree, m Message) (string, error) {
	id, objects, err := t.commit(m)
	if err != nil {
		return "", err
	}
	name := plumbing.NewBranchReferenceName(branch)
	refused, err := r.update(ctx, t, objects, func(adv *packp.AdvRefs) (*packp.Command, error) {
		if adv.References[name.String()] != old {
			return nil, ErrMoved
		}
		return &packp.Command{Name: name, Old: old, New: id}, nil
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

// update sends a command for what the server has now, with the objects of a tree.
func (r Remote) update(ctx context.Context, t *Tree, objects []plumbing.Hash, command func(*packp.AdvRefs) (*packp.Command, error)) (refused, err error) {
	err = r.do(ctx, receiving, transferTimeout, func(s *session) error {
		out := bufio.NewReader(s.out)
		adv, err := advertised(io.LimitReader(out, maxListing))
		if err != nil {
			return err
		}
		c, err := command(adv)
		if err != nil {
			return err
		}
		refused, err = send(s.in, out, adv, c, t.fresh, objects)
		return err
	})
	return refused, err
}

// send writes the command and the pack, and reads whether it was accepted.
func send(in io.WriteCloser, out io.Reader, adv *packp.AdvRefs, command *packp.Command, from *memory.Storage, objects []plumbing.Hash) (refused, err error) {
	if !adv.Capabilities.Supports(capability.ReportStatus) {
		return nil, errors.New("the server cannot say whether it accepted a push")
	}
	req := packp.NewReferenceUpdateRequest()
	_ = req.Capabilities.Set(capability.ReportStatus) // fails only for capabilities with arguments
	req.Commands = []*packp.Command{command}
	if err := req.Encode(in); err != nil {
		return nil, err
	}
	// The window is 0: changes are small, and their older versions are not in
	// the pack to serve as a delta's base.
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

// whyRefused distinguishes a lost race from a server that refuses the push.
// Servers use different messages, so it looks at the branch.
func (r Remote) whyRefused(ctx context.Context, branch string, head plumbing.Hash, refused error) error {
	now, err := r.Head(ctx, branch)
	switch {
	case err == nil && now != head.String(), errors.Is(err, ErrNoBranch) && !head.IsZero():
		return fmt.Errorf("%s: %w", r, ErrMoved)
	}
	return fmt.Errorf("%s: the server refused the push to %s: %s: the key or token needs write access, and no rule of the server may protect this branch from it", r, plain(branch), plain(refused.Error()))
}
