package commit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// statusBranches is what the names of the status branches begin with.
const statusBranches = "slipway/status/"

// Anybody who may write to the repository may make such branches and files.
const (
	mostSites   = 1000
	mostFiles   = 20_000
	mostEntries = 2 * mostFiles // folders and foreign files too
	maxStanding = 8 << 20       // of a status.json, in bytes
	mostEvery   = 31 * 24 * time.Hour
)

// readers is how many sites are read at the same time: most of the time goes into connections.
const readers = 8

// Sites reads what the daemons of all sites wrote to a repository, for a host from which none of them may be reachable. It
// writes nothing. It is used by one goroutine at a time.
type Sites struct {
	remote repo.Remote
	read   map[string]*standing
	looked time.Time // when the last look that could list the references began; zero before the first
	now    func() time.Time
}

// standing is a site as it was last read, with the references that it was read from.
type standing struct {
	Standing
	status, alive mark
	// after is the look before the newest of these commits was there: the commit was written since. It is zero for what was
	// there at the first look, which may be old.
	after time.Time
	nodes map[string]site.NodeStatus // by the ID of their files' content
}

// Standing is what a site's daemon wrote last.
type Standing struct {
	Status site.Status
	// Losses is on how many machines data is lost after approval. Status lists the first of them.
	Losses int
	News   site.News
	// Err is why the status is not known, or older than News says.
	Err error
}

// mark is a reference at the last look, and what came of reading its commit.
type mark struct {
	commit   string // empty if there is none
	isRead   bool
	err      error // of the last try
	failures int
	again    time.Time // when it is tried again after an error
}

// list takes what a look lists, and reports whether it is another commit than before.
func (m *mark) list(commit string) bool {
	if commit == m.commit {
		return false
	}
	*m = mark{commit: commit}
	return true
}

// bring reads the commit unless that was done. After an error it tries again, but not at each look: a branch that nobody can
// read may be large.
func (m *mark) bring(now time.Time, read func() error) (isNew bool, err error) {
	if m.isRead || now.Before(m.again) {
		return false, m.err
	}
	if m.err = read(); m.err == nil {
		m.isRead = true
		return true, nil
	}
	m.failures++
	m.again = now.Add(retry.Backoff(m.failures))
	return false, m.err
}

// NewSites makes a reader of a repository. It does not contact the remote.
func NewSites(remote repo.Remote) *Sites {
	return &Sites{remote: remote, read: map[string]*standing{}, now: time.Now}
}

// Look reads what is new, and returns all sites that have a status branch, by name. What it returns is not changed by later looks.
func (s *Sites) Look(ctx context.Context) (map[string]Standing, error) {
	now := s.now()
	heads, err := s.remote.Heads(ctx, statusBranches)
	if err != nil {
		return nil, err
	}
	signs, err := s.remote.References(ctx, aliveRefs)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for branch := range heads {
		if name := strings.TrimPrefix(branch, statusBranches); siteName.MatchString(name) {
			names[name] = true
		}
	}
	if len(names) > mostSites {
		return nil, fmt.Errorf("%s has %d branches that begin with %s, and Slipway reads at most %d: delete those of sites that are gone", s.remote, len(names), statusBranches, mostSites)
	}
	maps.DeleteFunc(s.read, func(name string, _ *standing) bool { return !names[name] })
	var all errgroup.Group
	all.SetLimit(readers)
	for name := range names {
		is := s.read[name]
		if is == nil {
			is = &standing{Standing: Standing{Status: site.Status{Site: name, Nodes: []site.NodeStatus{}}}}
			s.read[name] = is
		}
		head, sign := heads[statusBranches+name], signs[aliveRefs+name]
		if isMoved, isAlive := is.status.list(head), is.alive.list(sign); isMoved || isAlive && sign != "" {
			is.after = s.looked
		}
		all.Go(func() error {
			is.Err = s.bring(ctx, is, now)
			return nil
		})
	}
	_ = all.Wait() // each site has its own error
	s.looked = now
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make(map[string]Standing, len(s.read))
	for name, is := range s.read {
		found[name] = is.Standing
	}
	return found, nil
}

// bring brings a site up to date. A branch that cannot be read leaves what was read before.
func (s *Sites) bring(ctx context.Context, is *standing, now time.Time) error {
	branch := statusBranches + is.Status.Site
	hasChanged, err := is.status.bring(now, func() error { return s.readStatus(ctx, is, branch) })
	if err != nil {
		return fmt.Errorf("status branch %s: %w", branch, err)
	}
	if is.alive.commit == "" {
		is.News.Alive, is.News.Every = time.Time{}, 0
	} else {
		var isAlive bool
		if isAlive, err = is.alive.bring(now, func() error { return s.readSign(ctx, is) }); err != nil {
			err = fmt.Errorf("sign of life: %w", err)
		}
		hasChanged = hasChanged || isAlive
	}
	if hasChanged && !is.after.IsZero() {
		is.News.Heard = is.News.Between(is.after, now)
	}
	return err
}

func (s *Sites) readStatus(ctx context.Context, is *standing, branch string) error {
	store, err := repo.OpenStore("")
	if err != nil {
		return err
	}
	head, err := s.remote.Fetch(ctx, store, branch, "")
	if err != nil {
		return err
	}
	c, err := store.Commit(head)
	if err != nil {
		return err
	}
	if year := c.When.Year(); year < 1970 || year > 9999 { // no JSON has it
		return fmt.Errorf("its newest commit %s is of the year %d: the clock of the daemon's host is wrong, or something else made the commit", head, year)
	}
	files, err := store.Files(head)
	if err != nil {
		return err
	}
	if err := is.take(files); err != nil {
		return err
	}
	is.News.Changed = c.When
	return nil
}

// take takes the files of a status branch. Nodes whose files are as they were are not read again.
func (is *standing) take(files fs.FS) error {
	var s summary
	name := is.Status.Site
	switch err := readOwn(files, summaryFile, maxStanding, &s); {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it has no " + summaryFile + ": the site's daemon has written no status yet, or something else made the branch")
	case err != nil:
		return err
	}
	if s.Kind != summaryKind || s.Site != name {
		return fmt.Errorf("%s is %q of site %q, and Slipway reads %q of site %q: the site's daemon may be of another version", summaryFile, site.Printable(s.Kind), site.Printable(s.Site), summaryKind, name)
	}
	nodes, err := is.nodesOf(files)
	if err != nil {
		return err
	}
	is.Losses = max(s.Losses, len(s.Waiting))
	is.Status = site.Status{
		Site: name, Applied: s.Applied, Attempted: s.Attempted, Problems: s.Problems, ObserveOnly: s.ObserveOnly, Paused: s.Paused,
		Waiting: s.Waiting, Ledger: s.Ledger, Rollout: s.Rollout.status(), Swept: s.Swept, Nodes: nodes,
	}
	return nil
}

// status is the rollout as it was counted.
func (r *rollout) status() *site.RolloutStatus {
	if r == nil {
		return nil
	}
	return &site.RolloutStatus{Revision: r.Revision, Since: r.Since, Done: r.Done, Failed: r.Failed, Halted: r.Halted, Ended: r.Ended, Queued: r.Queued}
}

// nodesOf reads the files of nodes, which are two folders below that of nodes (nodeFile).
func (is *standing) nodesOf(files fs.FS) ([]site.NodeStatus, error) {
	nodes, read, entries := []site.NodeStatus{}, map[string]site.NodeStatus{}, 0
	err := fs.WalkDir(files, nodesFolder, func(path string, d fs.DirEntry, err error) error {
		entries++
		switch {
		case err != nil:
			return err
		case len(nodes) == mostFiles || entries > mostEntries:
			return fmt.Errorf("there are more than %d nodes, or too many other files", mostFiles)
		case d.IsDir() && strings.Count(path, "/") > 2:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".json"):
			return nil
		}
		id := d.(interface{ ContentID() string }).ContentID()
		n, known := is.nodes[id]
		if !known {
			if err := readOwn(files, path, maxFile, &n); err != nil {
				return err
			}
			if !slices.Contains(site.States, n.State) {
				n.State = site.Unknown // what a daemon of another version means by it is not known here
			}
		}
		if nodeFile(n.Name) != path {
			return fmt.Errorf("%s is of node %q, whose file has another name", path, n.Name)
		}
		read[id] = n
		nodes = append(nodes, n)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b site.NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(nodes); i++ {
		if nodes[i].Name == nodes[i-1].Name {
			return nil, fmt.Errorf("node %q is there twice", nodes[i].Name)
		}
	}
	is.nodes = read
	return nodes, nil
}

func (s *Sites) readSign(ctx context.Context, is *standing) error {
	name := is.Status.Site
	store, err := repo.OpenStore("")
	if err != nil {
		return err
	}
	head, err := s.remote.FetchOne(ctx, store, aliveRefs+name)
	if err != nil {
		return err
	}
	files, err := store.Files(head)
	if err != nil {
		return err
	}
	var life site.SignOfLife
	if err := readOwn(files, aliveFile, maxFile, &life); err != nil {
		return err
	}
	if life.Site != name || life.At.IsZero() || life.Every <= 0 || life.Every > site.Duration(mostEvery) {
		return fmt.Errorf("%s of site %q does not say when and how often it is sent", aliveFile, site.Printable(life.Site))
	}
	is.News.Alive, is.News.Every = life.At, life.Every
	return nil
}

// readOwn reads a JSON file of a daemon that this one does not know: what people read of it is printable.
func readOwn(files fs.FS, name string, most int64, into any) error {
	data, err := readBounded(files, name, most)
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		return fmt.Errorf("%s: %w", name, json.Unmarshal(data, new(any)))
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a float has not all digits of a large number
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if data, err = json.Marshal(printable(v)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// printable returns a JSON value whose strings are safe to show.
func printable(v any) any {
	switch v := v.(type) {
	case string:
		return site.PrintableLines(v)
	case []any:
		for i := range v {
			v[i] = printable(v[i])
		}
	case map[string]any:
		for _, key := range slices.Collect(maps.Keys(v)) {
			value := printable(v[key])
			delete(v, key)
			v[site.Printable(key)] = value
		}
	}
	return v
}
