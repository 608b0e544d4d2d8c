package commit

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// termFile is the file that says which daemon acts for the site.
const termFile = "term.json"

// revokedFile has the lists of revoked TLS certificates, in PEM.
const revokedFile = "revoked.pem"

// maxRevoked bounds how much of it is read, in bytes.
const maxRevoked = 16 << 20

// maxFile bounds how much of a file on the branch is read, in bytes. Others may write to the branch.
const maxFile = 1 << 20

// lookup is the claim at a commit of the branch.
type lookup struct {
	head  string
	claim site.TermClaim
}

// Term implements engine.Anchor. If the branch has not moved since the last read, Term only lists its head.
func (r *Reporter) Term(ctx context.Context) (site.TermClaim, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is, err := r.published(ctx)
	if err != nil {
		return site.TermClaim{}, fmt.Errorf("status branch %s: %w", r.branch, err)
	}
	return is.claim, nil
}

// published reads the claim at the head of the branch.
func (r *Reporter) published(ctx context.Context) (lookup, error) {
	head, err := r.remote.Head(ctx, r.branch)
	switch {
	case errors.Is(err, repo.ErrNoBranch):
		return lookup{}, nil
	case err != nil:
		return lookup{}, err
	case head == r.known.head:
		return r.known, nil
	}
	files, head, err := r.files(ctx)
	if err != nil {
		return lookup{}, err
	}
	is, err := claimIn(files, head)
	if err != nil {
		return lookup{}, err
	}
	r.known = is
	return is, nil
}

// claimIn reads the claim in the files of a commit; zero for none.
func claimIn(files fs.FS, head string) (lookup, error) {
	is := lookup{head: head}
	if err := readJSON(files, termFile, &is.claim); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return lookup{}, err
	}
	return is, nil
}

// noteClaim notes the claim at the head of the branch, which is about to be written. One that cannot be read is nobody's.
func (r *Reporter) noteClaim(store *repo.Store, head string) error {
	files, err := store.Files(head)
	if err != nil {
		return err
	}
	if is, err := claimIn(files, head); err == nil {
		r.known = is
	}
	return nil
}

// isOvertaken reports whether another daemon has published its claim since this one has.
func (r *Reporter) isOvertaken() bool {
	is := r.known.claim.Instance
	return r.own != "" && is != "" && is != r.own
}

// files are the files at the head of the branch.
func (r *Reporter) files(ctx context.Context) (fs.FS, string, error) {
	store, err := repo.OpenStore("")
	if err != nil {
		return nil, "", err
	}
	head, err := r.remote.Fetch(ctx, store, r.branch, "")
	if err != nil {
		return nil, "", err
	}
	files, err := store.Files(head)
	return files, head, err
}

func readJSON(files fs.FS, name string, into any) error {
	data, err := readBounded(files, name, maxFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func readBounded(files fs.FS, name string, most int64) ([]byte, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, and Slipway reads at most %d", name, info.Size(), most)
	}
	return fs.ReadFile(files, name)
}

// Claim implements engine.Anchor.
func (r *Reporter) Claim(ctx context.Context, c, before site.TermClaim) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, err := asJSON(c)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("status: term %d begins\n\n%s%s\n", c.Term, trailerSite, r.site)
	r.tree, r.nodes = nil, nil // read the branch again
	err = r.bring(ctx, text, func() error {
		is, err := r.published(ctx)
		switch {
		case err != nil:
			return err
		case is.head != r.tree.Head():
			return repo.ErrMoved
		case is.claim.Instance != before.Instance:
			return site.ErrClaimed
		}
		return r.tree.Set(termFile, data)
	})
	if err != nil {
		return err
	}
	r.known, r.own = lookup{r.tree.Head(), c}, c.Instance
	return nil
}

// Seal implements engine.Anchor. It makes a separate commit. Like Report, it fails with site.ErrClaimed once another daemon acts.
func (r *Reporter) Seal(ctx context.Context, n site.NodeStatus) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("status: %s uses an approval\n\n%s%s\n", n.Name, trailerSite, r.site)
	return r.bring(ctx, text, func() error {
		if r.isOvertaken() {
			return site.ErrClaimed
		}
		delete(r.nodes, n.Name) // the next report has more of the node
		data, err := nodeJSON(n)
		if err != nil {
			return err
		}
		return r.tree.Set(nodeFile(n.Name), data)
	})
}

// Sealed implements engine.Anchor. It ignores a file that cannot be read, because that proves nothing.
func (r *Reporter) Sealed(ctx context.Context) ([]site.Sealed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	files, _, err := r.files(ctx)
	switch {
	case errors.Is(err, repo.ErrNoBranch):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("status branch %s: %w", r.branch, err)
	}
	var all []site.Sealed
	err = fs.WalkDir(files, nodesFolder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".json") {
			return err
		}
		var n site.NodeStatus
		if err := readJSON(files, name, &n); err == nil && n.Sealed != nil {
			all = append(all, *n.Sealed)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

// RevocationLists implements engine.Anchor.
func (r *Reporter) RevocationLists(ctx context.Context) (all []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	files, _, err := r.files(ctx)
	if errors.Is(err, repo.ErrNoBranch) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("status branch %s: %w", r.branch, err)
	}
	info, err := fs.Stat(files, revokedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxRevoked) {
		r.log.Warn("status branch has something else in place of the lists of revoked certificates, which is not read", "site", r.site, "branch", r.branch, "file", revokedFile, "bytes", info.Size())
		return nil, nil // Slipway wrote none of it
	}
	text, err := readBounded(files, revokedFile, maxRevoked)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, string(pem.EncodeToMemory(block)))
	}
	return all, err
}

// stageRevoked writes the lists of revoked certificates. Without one the file stays: a daemon that has none knows less.
func (r *Reporter) stageRevoked(lists []site.RevocationList) error {
	if len(lists) == 0 {
		return nil
	}
	var text []byte
	for _, l := range lists {
		text = append(text, l.PEM...)
	}
	return r.tree.Set(revokedFile, text)
}
