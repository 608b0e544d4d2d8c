package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// The bounds on what a merge may cost.
const (
	// maxMerged is how many folders of all sides are read.
	maxMerged = 50_000
	// maxNested is how deep folders may be in each other; git itself stops at
	// as many (core.maxTreeDepth, git-config(1)).
	maxNested = 2048
	// MaxConflicts is how many conflicts are named.
	MaxConflicts = 100
)

// ErrUnmergeable is wrapped by what keeps two commits from being merged for as
// long as they are what they are.
var ErrUnmergeable = errors.New("they cannot be merged")

// ErrUnrelated is returned for two commits without a common one in their
// history.
var ErrUnrelated = fmt.Errorf("%w: they have no commit in common", ErrUnmergeable)

// Merged is what a merge of two commits comes to.
type Merged struct {
	// ID is the digest of the files, which is that of git's tree: the same for
	// the same result, whatever commits led to it. It is empty, and Files nil,
	// when there are conflicts.
	ID    string
	Files fs.FS
	// Done says that the base has the head in its history.
	Done bool
	// Conflicts are files that both sides changed, in order; no more than
	// MaxConflicts are named, and More is how many others there are.
	Conflicts []Conflict
	More      int
}

// Conflict is a file that both sides changed, each in its own way.
type Conflict struct {
	Path string
	// Why says what each side did, without a final stop.
	Why string
}

func (c Conflict) String() string { return c.Path + ": " + c.Why }

// Merge merges two commits by path: a file that one side left as it was in
// the commit where both parted is as on the other side, and one that both
// made the same is so. Any other is a conflict; content is never mixed, and
// what was renamed is not followed, so that the result is never a guess. All
// files have the head's time. It is valid as long as the store.
//
// Where the sides have parted at several commits (each was merged into the
// other), a file must come out the same by all of them. ErrShallow means that
// more history has to be fetched first.
func (s *Store) Merge(base, head string) (Merged, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.commit(plumbing.NewHash(base))
	if err != nil {
		return Merged{}, err
	}
	h, err := s.commit(plumbing.NewHash(head))
	if err != nil {
		return Merged{}, err
	}
	parted, err := s.parted(b.Hash, h.Hash)
	if err != nil {
		return Merged{}, fmt.Errorf("merge %s and %s: %w", base, head, err)
	}
	m := merger{store: s, made: map[plumbing.Hash]*object.Tree{}}
	root, err := m.byAll(parted, b.TreeHash, h.TreeHash)
	if err != nil {
		return Merged{}, fmt.Errorf("merge %s and %s: %w", base, head, err)
	}
	if len(m.conflicts) > 0 {
		return m.conflicted(), nil
	}
	f := newFiles(s, root, h.Committer.When)
	f.made = m.made
	return Merged{ID: root.String(), Files: f, Done: slices.Equal(parted, []plumbing.Hash{h.Hash})}, nil
}

// merger merges trees, and keeps those that it made.
type merger struct {
	store     *Store
	made      map[plumbing.Hash]*object.Tree
	conflicts map[string]string // by path
	looked    int
}

func (m *merger) conflicted() Merged {
	var all Merged
	for name, why := range m.conflicts {
		all.Conflicts = append(all.Conflicts, Conflict{plain(name), why})
	}
	sort.Slice(all.Conflicts, func(i, j int) bool { return all.Conflicts[i].Path < all.Conflicts[j].Path })
	if len(all.Conflicts) > MaxConflicts {
		all.More = len(all.Conflicts) - MaxConflicts
		all.Conflicts = all.Conflicts[:MaxConflicts]
	}
	return all
}

func (m *merger) conflict(name, why string) {
	if m.conflicts == nil {
		m.conflicts = map[string]string{}
	}
	m.conflicts[name] = why
}

// byAll merges by every commit at which the sides parted. Where two of them
// lead to different files, these are conflicts.
func (m *merger) byAll(parted []plumbing.Hash, base, head plumbing.Hash) (plumbing.Hash, error) {
	var first plumbing.Hash
	for i, id := range parted {
		c, err := m.store.commit(id)
		if err != nil {
			return first, err
		}
		root, err := m.folders(".", c.TreeHash, base, head)
		if err != nil {
			return first, err
		}
		if i == 0 {
			first = root
		} else if root != first && len(m.conflicts) == 0 {
			if err := m.disagree(".", first, root); err != nil {
				return first, err
			}
		}
	}
	return first, nil
}

// disagree notes the files in which two results differ.
func (m *merger) disagree(dir string, one, other plumbing.Hash) error {
	const why = "the sides were merged before, in more than one way, and each leads to another content"
	a, err := m.open(dir, one)
	if err != nil {
		return err
	}
	b, err := m.open(dir, other)
	if err != nil {
		return err
	}
	for name := range union(a, b) {
		x, y, at := a[name], b[name], path.Join(dir, name)
		switch {
		case x == y:
		case !x.folder().IsZero() && !y.folder().IsZero():
			if err := m.disagree(at, x.folder(), y.folder()); err != nil {
				return err
			}
		default:
			m.conflict(at, why)
		}
	}
	return nil
}

// item is what has a name in a folder: its mode and content; the zero item is
// nothing.
type item struct {
	mode filemode.FileMode
	hash plumbing.Hash
}

// folder is the item's tree, zero when it is none.
func (i item) folder() plumbing.Hash {
	if i.mode == filemode.Dir {
		return i.hash
	}
	return plumbing.ZeroHash
}

// file is the item when it is no folder.
func (i item) file() item {
	if i.mode == filemode.Dir {
		return item{}
	}
	return i
}

// open reads a folder by name; the zero hash is an empty one.
func (m *merger) open(dir string, id plumbing.Hash) (map[string]item, error) {
	if id.IsZero() {
		return nil, nil
	}
	if m.looked++; m.looked > maxMerged {
		return nil, fmt.Errorf("%w: more than %d folders are changed: propose it in smaller parts", ErrUnmergeable, maxMerged)
	}
	tree := m.made[id]
	if tree == nil {
		var err error
		if tree, err = object.GetTree(m.store.objects, id); err != nil {
			return nil, fmt.Errorf("folder %s: %w", plain(dir), err)
		}
	}
	items := make(map[string]item, len(tree.Entries))
	for _, e := range tree.Entries {
		if _, twice := items[e.Name]; twice {
			return nil, fmt.Errorf("%w: folder %s has %s twice, which git does not allow: git fsck tells more", ErrUnmergeable, plain(dir), plain(e.Name))
		}
		items[e.Name] = item{e.Mode, e.Hash}
	}
	return items, nil
}

func union(all ...map[string]item) map[string]bool {
	names := map[string]bool{}
	for _, items := range all {
		for name := range items {
			names[name] = true
		}
	}
	return names
}

// folders merges one folder, of which any may be missing, and returns the
// result's hash: zero for one without files.
func (m *merger) folders(dir string, old, base, head plumbing.Hash) (plumbing.Hash, error) {
	if strings.Count(dir, "/") > maxNested {
		return plumbing.ZeroHash, fmt.Errorf("%w: more than %d folders are in each other", ErrUnmergeable, maxNested)
	}
	var was, ours, theirs map[string]item
	var err error
	for _, side := range []struct {
		id    plumbing.Hash
		items *map[string]item
	}{{old, &was}, {base, &ours}, {head, &theirs}} {
		if *side.items, err = m.open(dir, side.id); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	tree := &object.Tree{}
	for name := range union(ours, theirs) {
		result, err := m.items(path.Join(dir, name), was[name], ours[name], theirs[name])
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if result != (item{}) {
			tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: result.mode, Hash: result.hash})
		}
	}
	return m.keep(dir, tree)
}

// items merges what has one name: the file of that name, and what is in the
// folder of that name. Both can come out of it only when one side made one a
// file's and the other left something in the folder.
func (m *merger) items(at string, old, base, head item) (item, error) {
	if result, ok := pick(old, base, head); ok {
		return result, nil
	}
	file, ok := pick(old.file(), base.file(), head.file())
	if !ok {
		m.conflict(at, said(old.file(), base, head))
	}
	folder, err := m.folder(at, old.folder(), base.folder(), head.folder())
	if err != nil || folder.IsZero() {
		return file, err
	}
	if file != (item{}) {
		m.conflict(at, "it is a file on one side and a folder on the other")
	}
	return item{filemode.Dir, folder}, nil
}

func (m *merger) folder(at string, old, base, head plumbing.Hash) (plumbing.Hash, error) {
	if result, ok := pick(old, base, head); ok {
		return result, nil
	}
	return m.folders(at, old, base, head)
}

// pick is the rule of a merge: what both sides have, or what one of them has
// changed while the other did not.
func pick[T comparable](old, base, head T) (result T, ok bool) {
	switch {
	case base == head || old == head:
		return base, true
	case old == base:
		return head, true
	}
	return result, false
}

// said says what each side did to a file.
func said(old, base, head item) string {
	switch {
	case old == item{}:
		return "both sides added it, and not the same"
	case base.file() == item{}:
		return "it was changed in the proposal and removed on the branch"
	case head.file() == item{}:
		return "it was changed on the branch and removed in the proposal"
	case base.hash == head.hash:
		return "both sides changed what kind of file it is"
	}
	return "both sides changed it"
}

// keep names a tree that was made by its content, as git does. The top one is
// there also without files.
func (m *merger) keep(dir string, tree *object.Tree) (id plumbing.Hash, err error) {
	if len(tree.Entries) == 0 && dir != "." {
		return id, nil
	}
	if len(m.conflicts) > 0 {
		return id, nil // it comes to nothing
	}
	sort.Sort(object.TreeEntrySorter(tree.Entries))
	o := &plumbing.MemoryObject{}
	if err := tree.Encode(o); err != nil {
		return id, err
	}
	m.made[o.Hash()] = tree
	return o.Hash(), nil
}
