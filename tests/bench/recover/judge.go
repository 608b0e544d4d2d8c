package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// watcher sees when machines are off, and when the daemon has read that.
type watcher struct {
	b    *bed
	bad  []string
	from int // the calls before are not looked at
	stop chan struct{}
	once sync.Once

	mu   sync.Mutex
	down map[string]time.Time // when a machine was first seen off
	read map[string]time.Time // when its BMC answered with that
}

// watch begins to look at some machines.
func (b *bed) watch(bad []string) *watcher {
	w := &watcher{b: b, bad: bad, from: b.fleet.CallCount(), stop: make(chan struct{}), down: map[string]time.Time{}, read: map[string]time.Time{}}
	b.fleet.Watch(w.answered)
	go w.look()
	return w
}

func (w *watcher) end() { w.once.Do(func() { w.b.fleet.Watch(nil); close(w.stop) }) }

// look notes when each machine is first off.
func (w *watcher) look() {
	for {
		for _, name := range w.bad {
			is := w.b.fleet.Machine(name).Power()
			w.mu.Lock()
			if _, seen := w.down[name]; !seen && is == "Off" {
				w.down[name] = time.Now()
			}
			w.mu.Unlock()
		}
		select {
		case <-w.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answered notes an answer about a machine that was off already when the answer was made.
func (w *watcher) answered(_ int, c lab.Call) {
	if c.Method != http.MethodGet || c.Status != http.StatusOK || !strings.HasSuffix(c.Path, "/Systems/1") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at, down := w.down[c.Machine]
	if _, seen := w.read[c.Machine]; down && !seen && time.Since(at) > 5*time.Millisecond {
		w.read[c.Machine] = time.Now()
	}
}

// off waits until the daemon has read of each machine that it is off, and returns when it had read the last.
func (w *watcher) off(ctx context.Context) (last time.Time, err error) {
	err = until(ctx, "the daemon has read that all are off", 50*time.Millisecond, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, at := range w.read {
			if at.After(last) {
				last = at
			}
		}
		return len(w.read) == len(w.bad)
	})
	return last, err
}

// stillOff names a machine that is not off, empty if all are.
func (w *watcher) stillOff() string {
	for _, name := range w.bad {
		if w.b.fleet.Machine(name).Power() != "Off" {
			return name
		}
	}
	return ""
}

// steps is what the single steps took, as if each machine waited for the one before: switching off, from the order to
// its BMC until that was read; setting passwords, from the first change of an account to the last login of that change.
type steps struct {
	off, set   time.Duration
	offs, sets int
}

// apart is after how much silence another change begins.
const apart = 3 * time.Second

func (w *watcher) steps() (s steps) {
	calls := w.b.fleet.Calls()
	calls = calls[max(0, len(calls)-(w.b.fleet.CallCount()-w.from)):]
	slices.SortFunc(calls, func(a, b lab.Call) int { return a.When.Compare(b.When) })
	var begun, last = map[string]time.Time{}, map[string]time.Time{}
	for _, c := range calls {
		if c.Reset == "ForceOff" && slices.Contains(w.bad, c.Machine) {
			if at := w.read[c.Machine]; at.After(c.When) {
				s.off, s.offs = s.off+at.Sub(c.When), s.offs+1
			}
		}
		sets, logs := c.Write() && strings.Contains(c.Path, "AccountService"), strings.Contains(c.Path, "Sessions") || strings.Contains(c.Path, "AccountService")
		answered := c.When.Add(latency.Write)
		switch at, is := begun[c.Machine]; {
		case sets && (!is || c.When.Sub(last[c.Machine]) > apart):
			if is {
				s.set, s.sets = s.set+last[c.Machine].Sub(at), s.sets+1
			}
			begun[c.Machine], last[c.Machine] = c.When, answered
		case is && logs && c.When.Sub(last[c.Machine]) <= apart:
			last[c.Machine] = answered
		}
	}
	for name, at := range begun {
		s.set, s.sets = s.set+last[name].Sub(at), s.sets+1
	}
	return s
}

// replaced is the line of the derived passwords in the page of an incident, once they are.
var replaced = regexp.MustCompile(`(?m)^\| credential bmc-own \|.*\| replaced: `)

// changed reports whether each BMC but those of some nodes has other passwords than before.
func (b *bed) changed(before map[string]map[string]string, bad []string) bool {
	for name, accounts := range b.passwords() {
		for user, password := range accounts {
			if !slices.Contains(bad, name) && before[name][user] == password {
				return false
			}
		}
	}
	return true
}

// refused tries each password that was in use before, and the present one, at its BMC: the first must be refused, the
// other let in. It returns how many old ones it tried.
func (b *bed) refused(ctx context.Context, before map[string]map[string]string) (tried int, err error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(lab.CAPEM(rig.Seed))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	now := b.passwords()
	for name, accounts := range before {
		for user, old := range accounts {
			for _, try := range []struct {
				password string
				want     int
			}{{old, http.StatusUnauthorized}, {now[name][user], http.StatusOK}} {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimPrefix(b.fleet.BMCURL(name), "redfish+"), nil)
				if err != nil {
					return tried, err
				}
				req.SetBasicAuth(user, try.password)
				resp, err := client.Do(req)
				if err != nil {
					return tried, err
				}
				if err := resp.Body.Close(); err != nil {
					return tried, err
				}
				if resp.StatusCode != try.want {
					return tried, fmt.Errorf("%s at %s: status %d, want %d", user, name, resp.StatusCode, try.want)
				}
			}
			tried++
		}
	}
	return tried, nil
}
