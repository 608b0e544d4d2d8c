package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/supervise"
	"github.com/slipway-gitops/slipway/sources/dir"
)

// sitesEvery is how often --all-sites looks which sites the repository has.
const sitesEvery = 15 * time.Second

// host is what `slipway run` consists of where it keeps several sites. Each has a process of its own, which is the daemon of
// that site and has its state in a folder of its own. This process only keeps them running, and passes on what is asked.
type host struct {
	runFlags
	log   *slog.Logger
	self  string         // this program
	flags *pflag.FlagSet // of the command line
	args  []string       // of each process
	group *supervise.Group
	front *control.Front

	mu      sync.Mutex
	kept    []string         // sites that have a process, by name
	waiting map[string]error // sites that have none, and why
	unread  error            // why it is not known which sites the repository has
}

// sitesIn is where a host of several sites has the state of each.
func sitesIn(state string) string { return filepath.Join(state, "sites") }

// behindSocket is where the process of a site answers that of the host.
func behindSocket(state string) string { return filepath.Join(state, "behind.sock") }

// isOfSeveral says whether the flags ask for several sites.
func (f *runFlags) isOfSeveral() bool { return f.allSites || len(f.sites) > 1 }

var siteOfHost = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// checkSites finds wrong names of sites.
func (f *runFlags) checkSites() error {
	if f.allSites && len(f.sites) > 0 {
		return usage("--all-sites keeps all sites of the repository, and --site names some: pass one of them")
	}
	for i, name := range f.sites {
		switch {
		case f.isOfSeveral() && !siteOfHost.MatchString(name):
			return usage("--site %q cannot be the name of a site", name)
		case slices.Contains(f.sites[:i], name):
			return usage("--site %s is there twice", name)
		}
	}
	return nil
}

// runSites keeps several sites until the context ends.
func (a *app) runSites(ctx context.Context, f runFlags, flags *pflag.FlagSet) error {
	args, err := passed(flags, f.siteFiles)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	h := &host{runFlags: f, log: a.logger(f.verbose), flags: flags, args: args, waiting: map[string]error{}}
	if err := hideMemory(); err != nil {
		h.log.Warn("memory is not hidden", "err", err)
	}
	if h.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program to run a process for each site: %w", err)
	}
	unlock, err := h.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return h.run(ctx)
}

func (h *host) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.group = &supervise.Group{Command: h.command, Log: h.log}
	defer h.group.End()
	defer cancel() // before it
	h.front = &control.Front{Processes: h.processes, Log: h.log}
	out, err := h.seen.open(ctx)
	if err != nil {
		return err
	}
	defer out.close()
	answers, err := h.api.open(ctx)
	if err != nil {
		return err
	}
	defer answers.close()
	parts := []func(context.Context) error{
		func(ctx context.Context) error {
			return control.Serve(ctx, control.Socket(h.state), h.socketGroup, h.front, h.log)
		},
		func(ctx context.Context) error {
			return out.answer(ctx, out.metrics.PagesOfSites(h.scrape, h.unready), h.log)
		},
	}
	if answers != nil {
		answers.Problem = h.accessProblem
		parts = append(parts, func(ctx context.Context) error { return answers.run(ctx, h.front, h.log) })
	}
	if h.allSites {
		look, err := h.lookout(ctx)
		if err != nil {
			return err
		}
		parts = append(parts, func(ctx context.Context) error { return h.follow(ctx, look) })
	}
	begun, err := h.toBegin()
	if err != nil {
		return err
	}
	for _, name := range begun {
		h.keep(ctx, name)
	}
	h.log.Info("slipway runs a process for each site", "sites", strings.Join(begun, " "), "all", h.allSites, "from", h.repo+h.dir, "state", h.state)
	return runAll(ctx, h.log, parts...)
}

// accessProblem is told what is wrong with the access file.
func (h *host) accessProblem(err error) {
	if err != nil {
		h.log.Error("the access file is wrong", "err", err)
	}
}

// lock has no other daemon keep sites in the state folder, and refuses the one of a daemon of a single site: its records would
// be left behind.
func (h *host) lock() (unlock func(), err error) {
	if _, err := os.Stat(recordsIn(h.state)); err == nil {
		return nil, fmt.Errorf("%[1]s is the state of a daemon of one site, and would not be used: stop that daemon and move its folder to %[2]s/SITE with all that is in it, and its site key to %[3]s (docs/sites.md)", h.state, sitesIn(h.state), h.siteKeyOf("SITE"))
	}
	if err := os.MkdirAll(sitesIn(h.state), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(sitesIn(h.state), ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another slipway keeps the sites in %s: stop it first, or give this one a state directory of its own", h.state)
	}
	return func() { f.Close() }, nil
}

// checkAlone refuses the state folder of several sites to a daemon of one site: it would begin without the site's records.
func (f *runFlags) checkAlone() error {
	if _, err := os.Stat(sitesIn(f.state)); err == nil && f.behind == "" {
		return fmt.Errorf("%s is the state of several sites: for one of them alone, pass --state %s with the name of the site, and --site-key with its key", f.state, filepath.Join(sitesIn(f.state), cmp.Or(f.site, "SITE")))
	}
	return nil
}

// siteKeyOf is where the key of a site is: beside where that of a daemon of one site is.
func (h *host) siteKeyOf(name string) string {
	return filepath.Join(filepath.Dir(siteKeyAt("", h.credentials)), "site-"+name+".key")
}

// command is that of the process of a site.
func (h *host) command(ctx context.Context, name string) (*exec.Cmd, error) {
	own, err := siteFile(h.flags, h.siteFiles, name)
	if err != nil {
		return nil, err
	}
	state := filepath.Join(sitesIn(h.state), name)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	args := []string{"run", "--site=" + name, "--state=" + state, "--behind=" + behindSocket(state), "--site-key=" + h.siteKeyOf(name), "--artifact-listen=" + noListener}
	cmd := exec.CommandContext(ctx, h.self, slices.Concat(args, h.args, own)...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// toBegin are the sites that are kept from the start: those that are named or, with --all-sites, those that have been kept
// before. So a site is kept also while the repository is away, and one that left it is not dropped.
func (h *host) toBegin() ([]string, error) {
	entries, err := os.ReadDir(sitesIn(h.state))
	if err != nil {
		return nil, err
	}
	var before []string
	for _, e := range entries {
		if e.IsDir() && siteOfHost.MatchString(e.Name()) {
			before = append(before, e.Name())
		}
	}
	if h.allSites {
		return before, nil
	}
	for _, name := range before {
		if !slices.Contains(h.sites, name) {
			h.log.Warn("this site has a state folder and is not named by --site: nothing keeps it", "site", name, "state", filepath.Join(sitesIn(h.state), name))
		}
	}
	return h.sites, nil
}

func (h *host) keep(ctx context.Context, name string) {
	h.mu.Lock()
	if !slices.Contains(h.kept, name) {
		h.kept = append(h.kept, name)
		slices.Sort(h.kept)
	}
	h.mu.Unlock()
	h.group.Keep(ctx, name)
}

// lookout is how it is found out which sites there are.
func (h *host) lookout(ctx context.Context) (func(context.Context) ([]string, error), error) {
	if h.dir != "" {
		source := dir.New(h.dir, h.log)
		return func(ctx context.Context) ([]string, error) {
			rev, err := source.Fetch(ctx)
			if err != nil {
				return nil, err
			}
			return design.Sites(rev.Files)
		}, nil
	}
	secrets, err := secret.Open(h.credentials)
	if err != nil {
		return nil, err
	}
	pulls, err := h.pulls.open(ctx, h.branch, secrets, h.log)
	if err != nil {
		return nil, err
	}
	var o *onlooker
	return func(ctx context.Context) ([]string, error) {
		if o == nil {
			remote, err := openRemote(h.runFlags, pulls, secrets)
			if err != nil {
				return nil, err
			}
			o = &onlooker{remote: remote, branch: h.branch}
		}
		_, err := o.lookAtDesign(ctx)
		return o.designed, err
	}, nil
}

// follow keeps the sites that the repository has, until the context ends.
func (h *host) follow(ctx context.Context, look func(context.Context) ([]string, error)) error {
	for {
		names, err := look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if h.isNews(err) {
			h.log.Error("it is not known which sites the repository has; those that are kept go on", "err", err)
		}
		if err == nil {
			for _, name := range h.take(names) {
				h.log.Info("the repository has a new site", "site", name)
				h.keep(ctx, name)
			}
		}
		if !retry.Sleep(ctx, sitesEvery) {
			return nil
		}
	}
}

// isNews takes note of an error, and says whether it is another one than before.
func (h *host) isNews(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.unread
	h.unread = err
	return err != nil && (before == nil || before.Error() != err.Error())
}

// take takes the names of the sites of the repository, and returns those that are new and may be kept. While a site is kept that
// the repository does not have any more, none is begun: it may be the same machines under another name, and two daemons
// would work on them.
func (h *host) take(names []string) (begin []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(h.kept), func(name string) bool { return slices.Contains(names, name) })
	before := h.waiting
	h.waiting = map[string]error{}
	for _, name := range names {
		switch {
		case slices.Contains(h.kept, name):
			continue
		case !siteOfHost.MatchString(name):
			h.waiting[name] = errors.New("this cannot be the name of a site of a daemon: use letters, digits, dots, hyphens and underscores")
		case len(left) > 0:
			h.waiting[name] = fmt.Errorf("it is not begun, because %[1]s left the branch and may be the same machines under an earlier name. If it is gone, stop slipway, move %[2]s away, and start slipway again", strings.Join(left, ", "), filepath.Join(sitesIn(h.state), left[0]))
		default:
			begin = append(begin, name)
			continue
		}
		if before[name] == nil {
			h.log.Warn("a site of the repository has no process", "site", name, "why", h.waiting[name])
		}
	}
	return begin
}

// processes are those of all sites.
func (h *host) processes() []control.Process {
	h.mu.Lock()
	kept, waiting := slices.Clone(h.kept), maps.Clone(h.waiting)
	h.mu.Unlock()
	var all []control.Process
	for _, name := range kept {
		all = append(all, control.Process{Site: name, Socket: behindSocket(filepath.Join(sitesIn(h.state), name)), Away: h.away(name)})
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		all = append(all, control.Process{Site: name, Away: waiting[name]})
	}
	return all
}

// away says why a site has no process now; nil if it has one.
func (h *host) away(name string) error {
	s, known := h.group.State(name)
	if !known || s.Why == "" {
		return nil
	}
	return fmt.Errorf("its process stopped %s ago (%s) and will be restarted: %s", age(s.Since), s.Since.UTC().Format("2006-01-02 15:04:05 UTC"), s.Why)
}

// unready says why the host is not ready: what each process says, and what is wrong with all of them.
func (h *host) unready() []string {
	all := h.processes()
	each := make([][]string, len(all))
	var asking sync.WaitGroup
	for i, p := range all {
		asking.Go(func() {
			for _, why := range h.unreadyOf(p) {
				each[i] = append(each[i], "site "+p.Site+": "+why)
			}
		})
	}
	asking.Wait()
	why := slices.Concat(each...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unread != nil {
		why = append(why, "it is not known which sites the repository has: "+h.unread.Error())
	}
	return why
}

// pageTimeout is how long the process of a site may take for a page.
const pageTimeout = 5 * time.Second

// unreadyOf says why the process of a site is not ready.
func (h *host) unreadyOf(p control.Process) []string {
	if p.Away != nil {
		return []string{p.Away.Error()}
	}
	var is struct{ Why []string }
	text, err := h.page(p, "/readyz?output=json")
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		return []string{"its process does not answer: " + err.Error()}
	}
	return is.Why
}

// scrape gives the metrics of each process that answers.
func (h *host) scrape() map[string][]byte {
	all := h.processes()
	each := make([][]byte, len(all))
	var asking sync.WaitGroup
	for i, p := range all {
		asking.Go(func() { each[i], _ = h.page(p, "/metrics") }) // those that do not answer are left out
	}
	asking.Wait()
	pages := map[string][]byte{}
	for i, p := range all {
		pages[p.Site] = each[i]
	}
	return pages
}

// page is a page of the process of a site.
func (h *host) page(p control.Process, path string) ([]byte, error) {
	if p.Away != nil {
		return nil, p.Away
	}
	ctx, cancel := context.WithTimeout(context.Background(), pageTimeout)
	defer cancel()
	resp, err := h.front.Get(ctx, p.Site, path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// runBehind keeps one site of several until the process of the host, which keeps the standard input open, ends or asks it to end.
// Why it fails it tells that process on its standard output.
func (a *app) runBehind(ctx context.Context, f runFlags) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := a.run(ctx, f)
	if err != nil {
		a.out.Println(err)
	}
	return err
}
