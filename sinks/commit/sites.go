package commit

import (
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

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// statusBranches is what the names of the status branches begin with.
const statusBranches = "slipway/status/"

// Anybody who may write to the repository may make such branches and files.
const (
	mostSites   = 1000
	mostFiles   = 20_000
	maxStanding = 8 << 20 // of a status.json, in bytes
)

// Sites reads what the daemons of all sites wrote to a repository, for a host from which none of them may be reachable. It
// writes nothing. It is used by one goroutine at a time.
type Sites struct {
	remote repo.Remote
	read   map[string]*standing
	looked bool // before: what is new from now on was written since
	now    func() time.Time
}

// standing is a site as it was last read, with the commits that it was read from.
type standing struct {
	Standing
	status, alive string
	nodes         map[string]site.NodeStatus // by the ID of their files' content
}

// Standing is what a site's daemon wrote last.
type Standing struct {
	Status site.Status
	News   site.News
	// Err is why the status is not known, or older than News says.
	Err error
}

// NewSites makes a reader of a repository. It does not contact the remote.
func NewSites(remote repo.Remote) *Sites {
	return &Sites{remote: remote, read: map[string]*standing{}, now: time.Now}
}

// Look reads what is new, and returns all sites that have a status branch, by name. What it returns is not changed by later looks.
func (s *Sites) Look(ctx context.Context) (map[string]Standing, error) {
	heads, err := s.remote.Heads(ctx, statusBranches)
	if err != nil {
		return nil, err
	}
	signs, err := s.remote.References(ctx, aliveRefs)
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(slices.Collect(maps.Keys(heads)), func(branch string) bool { return !siteName.MatchString(strings.TrimPrefix(branch, statusBranches)) })
	if len(names) > mostSites {
		return nil, fmt.Errorf("%s has %d branches that begin with %s, and Slipway reads at most %d: delete those of sites that are gone", s.remote, len(names), statusBranches, mostSites)
	}
	all := make(map[string]Standing, len(names))
	for _, branch := range names {
		name := strings.TrimPrefix(branch, statusBranches)
		is := s.read[name]
		if is == nil {
			is = &standing{Standing: Standing{Status: site.Status{Site: name, Nodes: []site.NodeStatus{}}}}
			s.read[name] = is
		}
		if err := s.bring(ctx, is, branch, heads[branch], signs[aliveRefs+name]); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			is.Err = err
		}
		all[name] = is.Standing
	}
	maps.DeleteFunc(s.read, func(name string, _ *standing) bool { _, there := all[name]; return !there })
	s.looked = true
	return all, nil
}

// bring brings a site up to date. A branch that cannot be read leaves what was read before.
func (s *Sites) bring(ctx context.Context, is *standing, branch, head, sign string) error {
	if head != is.status {
		if err := s.readStatus(ctx, is, branch); err != nil {
			return fmt.Errorf("status branch %s: %w", branch, err)
		}
		is.status = head
		s.heard(is)
	}
	is.Err = nil
	switch {
	case sign == is.alive:
		return nil
	case sign == "":
		is.alive, is.News.Alive, is.News.Every = "", time.Time{}, 0
		return nil
	}
	life, err := s.readSign(ctx, is.Status.Site)
	if err != nil {
		return fmt.Errorf("sign of life: %w", err)
	}
	is.alive, is.News.Alive, is.News.Every = sign, life.At, life.Every
	s.heard(is)
	return nil
}

// heard notes that a site has written something. What is there at the first look may be old.
func (s *Sites) heard(is *standing) {
	if s.looked {
		is.News.Heard = s.now()
	}
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
	files, err := store.Files(head)
	if err != nil {
		return err
	}
	status, err := is.statusOf(files)
	if err != nil {
		return err
	}
	is.Status, is.News.Changed = status, c.When
	return nil
}

// statusOf reads the files of a status branch. Nodes whose files are as they were are not read again.
func (is *standing) statusOf(files fs.FS) (site.Status, error) {
	var s summary
	name := is.Status.Site
	switch err := readOwn(files, summaryFile, maxStanding, &s); {
	case errors.Is(err, fs.ErrNotExist):
		return site.Status{}, errors.New("it has no " + summaryFile + ": the site's daemon has written no status yet, or something else made the branch")
	case err != nil:
		return site.Status{}, err
	}
	if s.Kind != summaryKind || s.Site != name {
		return site.Status{}, fmt.Errorf("%s is %q of site %q, and Slipway reads %q of site %q: the site's daemon may be of another version", summaryFile, site.Printable(s.Kind), site.Printable(s.Site), summaryKind, name)
	}
	nodes, err := is.nodesOf(files)
	if err != nil {
		return site.Status{}, err
	}
	return site.Status{
		Site: name, Applied: s.Applied, Attempted: s.Attempted, Problems: s.Problems, ObserveOnly: s.ObserveOnly, Paused: s.Paused,
		Waiting: s.Waiting, Ledger: s.Ledger, Rollout: s.Rollout.status(), Swept: s.Swept, Nodes: nodes,
	}, nil
}

// status is the rollout as it was counted.
func (r *rollout) status() *site.RolloutStatus {
	if r == nil {
		return nil
	}
	return &site.RolloutStatus{Revision: r.Revision, Since: r.Since, Done: r.Done, Failed: r.Failed, Halted: r.Halted, Ended: r.Ended, Queued: r.Queued}
}

func (is *standing) nodesOf(files fs.FS) ([]site.NodeStatus, error) {
	nodes, read := []site.NodeStatus{}, map[string]site.NodeStatus{}
	err := fs.WalkDir(files, nodesFolder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() || !strings.HasSuffix(path, ".json"):
			return nil
		case len(nodes) == mostFiles:
			return fmt.Errorf("there are more than %d nodes", mostFiles)
		}
		id := d.(interface{ ContentID() string }).ContentID()
		n, known := is.nodes[id]
		if !known {
			if err := readOwn(files, path, maxFile, &n); err != nil {
				return err
			}
			if nodeFile(n.Name) != path {
				return fmt.Errorf("%s is of node %q, whose file has another name", path, n.Name)
			}
		}
		read[id] = n
		nodes = append(nodes, n)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	is.nodes = read
	slices.SortFunc(nodes, func(a, b site.NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

func (s *Sites) readSign(ctx context.Context, name string) (life site.SignOfLife, err error) {
	store, err := repo.OpenStore("")
	if err != nil {
		return life, err
	}
	head, err := s.remote.FetchOne(ctx, store, aliveRefs+name)
	if err != nil {
		return life, err
	}
	files, err := store.Files(head)
	if err != nil {
		return life, err
	}
	if err := readOwn(files, aliveFile, maxFile, &life); err != nil {
		return life, err
	}
	if life.Site != name || life.At.IsZero() || life.Every <= 0 {
		return life, fmt.Errorf("%s of site %q does not say when and how often it is sent", aliveFile, site.Printable(life.Site))
	}
	return life, nil
}

// readOwn reads a JSON file of a daemon that this one does not know: what people read of it is printable.
func readOwn(files fs.FS, name string, most int64, into any) error {
	data, err := readBounded(files, name, most)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
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
