package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/record/recordtest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// takeover is how long a site may be without a leader that acts.
const takeover = 15 * time.Second

// shares has the daemon keep its records in an etcd.
func (w *town) shares(c *recordtest.Cluster, endpoints []string) {
	w.flags = append(w.flags, "--etcd", strings.Join(endpoints, ","), "--etcd-ca", c.CA, "--etcd-cert", c.Cert, "--etcd-key", c.Key,
		"--copy-listen", "127.0.0.1:0", "--site-key", w.path("site.key"))
}

// other is a second controller of the town: another host with the same credentials, site key and
// repository, and a state directory of its own.
func (w *town) other() *town {
	w.t.Helper()
	o := *w
	o.dir, o.images, o.daemon = w.t.TempDir(), "", nil
	for _, name := range []string{"site.git", "cred"} {
		check(w.t, os.Symlink(w.path(name), filepath.Join(o.dir, name)))
	}
	o.flags = append([]string(nil), w.flags...)
	o.dial()
	return &o
}

// follows waits until the town's controller follows, and says so with some words.
func (w *town) follows(words string) {
	w.t.Helper()
	w.status("it follows: "+words, func(s site.Status) bool { return strings.Contains(s.Leader, words) })
}

// A leader that is killed in the middle of a rollout is followed by the other controller in time. It
// brings the rollout to its end: in order, and without a reset or an installation more.
func TestProveLeaderIsKilled(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 3, 0)
	for _, n := range []int{60, 150} {
		t.Run(fmt.Sprint("at ", n), func(t *testing.T) {
			a := foundTown(t, staged, inStages)
			a.waits = 3 * time.Minute
			a.shares(c, c.Endpoints())
			a.flags = append(a.flags, "--etcd-prefix", fmt.Sprintf("/killed-at-%d/", n))
			a.start()
			a.status("it leads", func(s site.Status) bool { return len(s.Nodes) > 0 })
			b := a.other()
			b.flags = append(b.flags, "--listen", ownPage())
			b.start()
			b.follows("(term 1)")
			b.isUnready("this daemon follows; site", "(term 1)")
			if _, err := b.ask.Do(t.Context(), "", site.Order{Verb: site.VerbPause, Reason: "a test", By: "e2e"}); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "the leader's host") {
				t.Errorf("a follower was asked to pause the site: %v", err)
			}
			var killed sync.Once
			at := make(chan time.Time, 1)
			a.fleet.Watch(func(k int, _ lab.Call) {
				if k >= n {
					killed.Do(func() { a.daemon.kill(); at <- time.Now() })
				}
			})
			a.eventually("the leader was killed", func() bool { _, _ = a.approve(); return a.daemon.dead() })
			a.fleet.Watch(nil)
			died := <-at
			b.eventually("the rollout has ended", b.ended)
			if first := a.firstAfter(died, func(lab.Call) bool { return true }); first.Sub(died) > takeover {
				t.Errorf("the first look came %s after the leader was killed", first.Sub(died))
			} else {
				t.Logf("the other looked %s after the kill and wrote %s after it", first.Sub(died).Round(100*time.Millisecond),
					a.firstAfter(died, lab.Call.Write).Sub(died).Round(100*time.Millisecond))
			}
			r, err := b.ask.Report(context.Background(), "")
			check(t, err)
			if r.Status.Term != 2 || r.Status.Leader != "" {
				t.Errorf("term %d, led by %q", r.Status.Term, r.Status.Leader)
			}
			b.stop()
			a.inOrder()
			a.intact(2)
		})
	}
}

// What is added on the leader is copied to the other controller, which shows it while it follows.
func TestProveArtifactsAreCopied(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a := foundTown(t, staged, inStages)
	a.shares(c, c.Endpoints())
	a.start()
	a.status("it leads", func(s site.Status) bool { return len(s.Nodes) > 0 })
	b := a.other()
	b.start()
	b.follows("(term 1)")
	added, err := a.ask.Artifacts().AddFile(t.Context(), strings.NewReader("an image"), 0, "", "x.iso", nil)
	check(t, err)
	b.eventually("it is on both", func() bool {
		l, err := b.ask.Artifacts().Listing(t.Context())
		check(t, err)
		return slices.ContainsFunc(l.Files, func(e artifact.Entry) bool {
			return e.SHA256 == added.SHA256 && e.Copies != nil && e.Copies.Kept && len(e.Copies.On) == 2 && e.Copies.Of == 2
		})
	})
	b.stop()
	a.stop()
}

// firstAfter is when the first of some calls came after a moment.
func (w *town) firstAfter(moment time.Time, of func(lab.Call) bool) time.Time {
	w.t.Helper()
	for _, c := range w.fleet.Calls() {
		if c.When.After(moment) && of(c) {
			return c.When
		}
	}
	w.t.Fatal("no such call came")
	return time.Time{}
}

// A leader that stands still beyond its lease, and continues after another has begun a term, sends no
// write to any machine. It ends with a sentence. The log of the machines is the judge. It is stopped in
// the middle of steps: when a call was carried out, and before its answer is read.
func TestProveStoppedLeader(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 3, 0)
	for _, n := range []int{45, 80, 115, 150} {
		t.Run(fmt.Sprint("at ", n), func(t *testing.T) {
			t.Parallel()
			w := foundTown(t, staged, inStages)
			w.shares(c, c.Endpoints())
			prefix := fmt.Sprintf("/stopped-at-%d/", n)
			w.flags = append(w.flags, "--etcd-prefix", prefix)
			w.start()
			var once sync.Once
			stopped := make(chan struct{})
			d := w.daemon
			w.fleet.Watch(func(k int, _ lab.Call) {
				if k >= n {
					once.Do(func() { _ = d.cmd.Process.Signal(syscall.SIGSTOP); close(stopped) })
				}
			})
			w.eventually("the leader stands still", func() bool {
				select {
				case <-stopped:
					return true
				default:
					_, _ = w.approve()
					return false
				}
			})
			successor, err := record.Open(t.Context(), t.TempDir(), record.Options{Cluster: &record.Cluster{Endpoints: c.Endpoints(), TLS: c.TLS(), Prefix: prefix}})
			check(t, err)
			defer successor.Close()
			began := time.Now()
			check(t, successor.Lead(t.Context(), siteOf(w), "the successor", func(record.Leader) {}))
			if took := time.Since(began); took > takeover {
				t.Errorf("the successor led after %s", took)
			}
			continued := time.Now()
			check(t, d.cmd.Process.Signal(syscall.SIGCONT))
			w.eventually("the stopped leader ends", d.dead)
			t.Logf("it ended %s after it continued", time.Since(continued).Round(100*time.Millisecond))
			for _, call := range w.fleet.Calls() {
				if call.When.After(continued) && call.Write() {
					t.Errorf("%s after it continued: %s %s to %s", call.When.Sub(continued), call.Method, call.Path, call.Machine)
				}
			}
			if d.err == nil || !strings.Contains(w.log(), "another controller leads site") {
				t.Errorf("it ended with %v\n%s", d.err, w.logEnd())
			}
		})
	}
}

// siteOf is the name of the town's site.
func siteOf(w *town) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path("state/site"))
	check(w.t, err)
	return strings.TrimSpace(string(text))
}

// A leader that is cut off from etcd, and not from the machines, stops writing before another may
// begin. Nobody else is there: once the line is back it goes on, in the same term.
func TestProveLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	line := c.Line()
	w := foundTown(t, staged, inStages)
	w.shares(c, line.Endpoints)
	w.start()
	w.converge()
	line.Cut()
	w.status("no lease", func(s site.Status) bool {
		for _, p := range s.Problems {
			if p.About == "term" && strings.Contains(p.What, "does not answer") || strings.Contains(p.What, "etcd at https://") {
				return true
			}
		}
		return false
	})
	cut := time.Now()
	w.drift() // somebody switches a machine off
	w.eventually("the lease is over", func() bool { return time.Since(cut) > 9*time.Second })
	writes := func() (n int) {
		for _, call := range w.fleet.Calls() {
			if call.When.After(cut.Add(7*time.Second)) && call.Write() {
				n++
			}
		}
		return n
	}
	published := func() string { return w.git("-C", "site.git", "rev-parse", "slipway/status/"+siteOf(w)) }
	looked, head := w.fleet.CallCount(), published()
	w.eventually("it looks at machines", func() bool { return w.fleet.CallCount() > looked+8 })
	if n := writes(); n > 0 {
		t.Errorf("%d writes without a lease", n)
	}
	if now := published(); now != head {
		t.Errorf("the status branch went from %s to %s without a lease: another may publish there", head, now)
	}
	line.Mend()
	w.eventually("the machine is on again", func() bool { return w.fleet.Machine("old-1").State().Power == "On" })
	r, err := w.ask.Report(context.Background(), "")
	check(t, err)
	if r.Status.Term != 1 {
		t.Errorf("term %d", r.Status.Term)
	}
	w.stop()
}

// ownPage is a loopback address for /readyz.
func ownPage() string { return strings.Replace(ownAddress(), ":9480", ":9469", 1) }

// isUnready holds /readyz to sentences that have some words.
func (w *town) isUnready(words ...string) {
	w.t.Helper()
	answer, err := http.Get("http://" + w.flags[len(w.flags)-1] + "/readyz")
	check(w.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(w.t, err)
	for _, x := range words {
		if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), x) {
			w.t.Errorf("/readyz answers %s %q, want %q", answer.Status, text, x)
		}
	}
}
