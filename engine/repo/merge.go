package repo

import (
	"bytes"
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

// The limits on the cost of a merge.
const (
	// maxMerged is how many folders are read, of all sides together.
	maxMerged = 50_000
	// maxNested is how deep folders may nest. git has the same limit
	// (core.maxTreeDepth, git-config(1)).
	maxNested = 2048
	// MaxConflicts is how many conflicts are named.
	MaxConflicts = 100
)

// ErrUnmergeable is wrapped by errors that will always prevent merging these two
// commits.
var ErrUnmergeable = errors.New("they cannot be merged")

// ErrUnrelated is returned for two commits without a common ancestor.
var ErrUnrelated = fmt.Errorf("%w: they have no commit in common", ErrUnmergeable)

// Merged is the result of merging two commits.
type Merged struct {
	// ID is the digest of the files, as of git's tree: the same result has the same
	// ID, whatever commits led to it. When there are conflicts, ID is empty and
	// Files nil.
	ID    string
	Files fs.FS
	// Done says that the base already has the head in its history.
	Done bool
	// Conflicts are files that both sides changed, in order. At most MaxConflicts
	// are named; More counts the others.
	Conflicts []Conflict
	More      int
}

// Conflict is a file that both sides changed in different ways.
type Conflict struct {
	Path string
	// Why says what each side did, without a final stop.
	Why string
}

func (c Conflict) String() string { return c.Path + ": " + c.Why }

// Merge merges two commits as Git does without following renames. If one side left
// a file as in the commit where both parted, the other side's file is used. If both
// changed it, its lines are merged (see merge3). There is a conflict if both
// changed the same lines, or if one side removed or renamed what the other changed.
// All files have the head's time. The result is valid as long as the store.
//
// ErrShallow means that more history has to be fetched first.
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
	m := merger{store: s, made: newMade()}
	root, err := m.sides(parted, side{b.TreeHash, []plumbing.Hash{b.Hash}}, side{h.TreeHash, []plumbing.Hash{h.Hash}})
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

// merger merges trees and keeps what it made.
type merger struct {
	store     *Store
	made      made
	conflicts map[string]string // by path
	looked    int
	differ    differ
	depth     int // of the merge bases; 0 for the merge itself
}

// made are the folders and files of a merge that neither side has.
type made struct {
	trees map[plumbing.Hash]*object.Tree
	blobs map[plumbing.Hash][]byte
	size  int // of the blobs, in bytes
}

func newMade() made {
	return made{trees: map[plumbing.Hash]*object.Tree{}, blobs: map[plumbing.Hash][]byte{}}
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

// clash records a conflict of the merge itself, and ignores one in merging its
// bases.
func (m *merger) clash(name, why string) {
	if m.depth == 0 {
		m.conflict(name, why)
	}
}

// side is a commit to merge, or the merge of several: its files, and the commits
// with which its history continues.
type side struct {
	tree    plumbing.Hash
	history []plumbing.Hash
}

func (m *merger) side(id plumbing.Hash) (side, error) {
	c, err := m.store.commit(id)
	if err != nil {
		return side{}, err
	}
	return side{c.TreeHash, []plumbing.Hash{id}}, nil
}

// sides merges two sides whose histories parted at some commits. There are several
// such commits if each side was merged into the other. They are then merged first,
// in the order of their time, and so are the commits at which they parted in turn.
// Conflicts among them are in the result, between markers.
func (m *merger) sides(parted []plumbing.Hash, base, head side) (plumbing.Hash, error) {
	if m.depth > maxParted {
		return plumbing.ZeroHash, errTangled
	}
	parted, err := m.store.oldestFirst(parted)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	var from side // nothing
	for i, id := range parted {
		next, err := m.side(id)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if i == 0 {
			from = next
			continue
		}
		at, err := m.store.partedOf(from.history, id)
		if err != nil && !errors.Is(err, ErrUnrelated) {
			return plumbing.ZeroHash, err
		}
		m.depth++
		tree, err := m.sides(at, from, next)
		m.depth--
		if err != nil {
			return plumbing.ZeroHash, err
		}
		from = side{tree, append(slices.Clone(from.history), id)}
	}
	return m.folders(".", from.tree, base.tree, head.tree)
}

// item is an entry of a folder: its mode and content. The zero item means that
// there is none.
type item struct {
	mode filemode.FileMode
	hash plumbing.Hash
}

// folder returns the item's tree, zero if it is not a folder.
func (i item) folder() plumbing.Hash {
	if i.mode == filemode.Dir {
		return i.hash
	}
	return plumbing.ZeroHash
}

// file returns the item if it is not a folder.
func (i item) file() item {
	if i.mode == filemode.Dir {
		return item{}
	}
	return i
}

// open reads a folder's entries by name. The zero hash is an empty folder.
func (m *merger) open(dir string, id plumbing.Hash) (map[string]item, error) {
	if id.IsZero() {
		return nil, nil
	}
	if m.looked++; m.looked > maxMerged {
		return nil, fmt.Errorf("%w: more than %d folders are changed: propose it in smaller parts", ErrUnmergeable, maxMerged)
	}
	tree := m.made.trees[id]
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
		if e.Mode == filemode.Deprecated { // as in Git
			e.Mode = filemode.Regular
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

// folders merges one folder, of which any version may be missing. It returns the
// result's hash: zero for a folder without files.
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

// items merges everything with one name: the file of that name, and the content of
// the folder of that name. Both can result only when one side made it a file and
// the other left something in the folder.
func (m *merger) items(at string, old, base, head item) (item, error) {
	if result, ok := pick(old, base, head); ok {
		return result, nil
	}
	file, ok := pick(old.file(), base.file(), head.file())
	if !ok {
		var err error
		if file, err = m.file(at, old.file(), base.file(), head.file()); err != nil {
			return item{}, fmt.Errorf("file %s: %w", plain(at), err)
		}
	}
	folder, err := m.folder(at, old.folder(), base.folder(), head.folder())
	if err != nil || folder.IsZero() {
		return file, err
	}
	if file != (item{}) {
		m.clash(at, "it is a file on one side and a folder on the other")
	}
	return item{filemode.Dir, folder}, nil
}

func (m *merger) folder(at string, old, base, head plumbing.Hash) (plumbing.Hash, error) {
	if result, ok := pick(old, base, head); ok {
		return result, nil
	}
	return m.folders(at, old, base, head)
}

// pick is the rule of a merge: the common version, or the version of the only side
// that changed.
func pick[T comparable](old, base, head T) (result T, ok bool) {
	switch {
	case base == head || old == head:
		return base, true
	case old == base:
		return head, true
	}
	return result, false
}

// file merges a file that both sides changed: its kind separately, and its content
// by lines. In a merge base, a file that cannot be merged stays as before.
func (m *merger) file(at string, old, base, head item) (item, error) {
	held := func(why string) (item, error) {
		m.clash(at, why)
		return old, nil
	}
	switch {
	case base == item{}:
		return held("it was changed in the proposal and removed or renamed on the branch")
	case head == item{}:
		return held("it was changed on the branch and removed or renamed in the proposal")
	case base.isRegular() != head.isRegular(), !base.isRegular() && base.mode != head.mode:
		return held("both sides changed it, and what kind of file it is")
	}
	mode, ok := pick(old.mode, base.mode, head.mode)
	if !ok {
		mode = base.mode
		m.clash(at, "both sides changed what kind of file it is")
	}
	hash, ok := pick(old.hash, base.hash, head.hash)
	switch {
	case ok:
		return item{mode, hash}, nil
	case !base.isRegular():
		return held("both sides changed it")
	case !old.isRegular():
		old = item{}
	}
	hash, err := m.content(at, old.hash, base.hash, head.hash)
	return item{mode, hash}, err
}

func (i item) isRegular() bool { return i.mode == filemode.Regular || i.mode == filemode.Executable }

// content merges the content of a file. The zero hash is an empty old file.
func (m *merger) content(at string, old, base, head plumbing.Hash) (id plumbing.Hash, err error) {
	both := "both sides changed it"
	if old.IsZero() {
		both = "both sides added it, with different content"
	}
	var texts [3][]byte
	binary := false
	for i, of := range []plumbing.Hash{old, base, head} {
		var small bool
		if texts[i], small, err = m.read(of); err != nil {
			return id, err
		}
		if !small {
			m.conflict(at, fmt.Sprintf("%s, and it is larger than the %d MiB or %d lines that are merged by lines",
				both, maxText>>20, maxLines))
			return id, nil
		}
		binary = binary || isBinary(texts[i])
	}
	merged := merge3{}
	if !binary {
		merged = m.differ.merge(texts[0], texts[1], texts[2])
	}
	r, clash := merged.conflict()
	switch {
	case m.differ.spent, m.made.size > maxMade:
		m.conflict(at, both+", and comparing its lines would take too long")
		return id, nil
	case binary && m.depth > 0:
		return m.made.blob(texts[0]), nil
	case binary:
		m.conflict(at, both+", and it is binary")
		return id, nil
	case !clash:
		return m.made.blob(merged.text()), nil
	case m.depth > 0:
		lines, _ := m.differ.lines(texts[0])
		const longer = 2 // for each level
		return m.made.blob(m.differ.marked(merged, lines, m.depth*longer)), nil
	case !old.IsZero():
		both += " at the same lines, or next to each other's (on the branch: " + r.where() + ")"
	}
	m.conflict(at, both)
	return id, nil
}

// blob keeps a file's content, named as in git.
func (m *made) blob(data []byte) plumbing.Hash {
	id := plumbing.ComputeHash(plumbing.BlobObject, data)
	m.blobs[id] = data
	m.size += len(data)
	return id
}

// read reads a file to merge by lines, if it is small enough.
func (m *merger) read(id plumbing.Hash) (data []byte, small bool, err error) {
	if id.IsZero() {
		return nil, true, nil
	}
	if data, made := m.made.blobs[id]; made {
		return data, isSmall(data), nil
	}
	size, err := m.store.objects.EncodedObjectSize(id)
	if err != nil || size > maxText {
		return nil, false, err
	}
	blob, err := object.GetBlob(m.store.objects, id)
	if err != nil {
		return nil, false, err
	}
	data, err = content(blob)
	return data, isSmall(data), err
}

func isSmall(data []byte) bool {
	return len(data) <= maxText && bytes.Count(data, []byte("\n")) <= maxLines
}

// keep keeps a new tree, named by its content as in git. The top tree exists even
// without files.
func (m *merger) keep(dir string, tree *object.Tree) (id plumbing.Hash, err error) {
	if len(tree.Entries) == 0 && dir != "." {
		return id, nil
	}
	if len(m.conflicts) > 0 {
		return id, nil // the result is not used
	}
	sort.Sort(object.TreeEntrySorter(tree.Entries))
	o := &plumbing.MemoryObject{}
	if err := tree.Encode(o); err != nil {
		return id, err
	}
	m.made.trees[o.Hash()] = tree
	return o.Hash(), nil
}
