package copies

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// view is what this daemon knows of the others. It is an artifact.Others.
type view struct {
	own, key string // the name and key of this daemon
	isDaemon func(name string) bool

	mu      sync.Mutex
	shelves record.Shelves
	read    time.Time // when; zero for never
	beats   map[string]beat
	failed  error     // why the records could not be read the last time
	told    time.Time // when this daemon last wrote of itself; zero for never
}

// beat is what a daemon has last written, and when that was first seen here: no clock of another host is asked.
type beat struct {
	value uint64
	at    time.Time
}

// take notes what was read.
func (v *view) take(s record.Shelves, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	beats := map[string]beat{}
	for name, h := range s.Holders {
		if beats[name] = v.beats[name]; beats[name].value != h.Beat || beats[name].at.IsZero() {
			beats[name] = beat{h.Beat, now}
		}
	}
	v.shelves, v.read, v.beats, v.failed = s, now, beats, nil
}

// fail notes why nothing was read.
func (v *view) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed = err
}

// now is what was read last; false if that is too long ago, and whether nothing could be read since.
func (v *view) now() (s record.Shelves, ok bool, failed error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shelves, !v.read.IsZero() && time.Since(v.read) < silentAfter, v.failed
}

// tells notes that this daemon has written of itself.
func (v *view) tells(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told = now
}

func (v *view) toldAt() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.told
}

// twin says that another daemon writes under the name of this one; nil if none does. The one that began last keeps it.
func (v *view) twin() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, is := v.shelves.Holders[v.own]
	if !is || h.Key == v.key || v.told.IsZero() || !v.read.After(v.told) || time.Since(v.beats[v.own].at) >= silentAfter {
		return nil
	}
	return fmt.Errorf("another daemon has the name of this one's artifact store, at %s: a host was copied with its state directory, and this one gives and gets no copies; "+
		"stop the daemon on one of them, delete artifacts/name in its state directory, and start it again", hostOf(h))
}

// running are the names of the other daemons that run, and of those that do not.
func (v *view) running() (run, silent map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	run, silent = map[string]bool{}, map[string]bool{}
	for name, b := range v.beats {
		switch {
		case name == v.own:
		case time.Since(b.at) < silentAfter && v.isDaemon(name):
			run[name] = true
		default:
			silent[name] = true
		}
	}
	return run, silent
}

// forgotten are the names of the other daemons whose records are deleted: by its own clock such a daemon has not
// written for long, and this one has read nothing new of it for a while either. One of the two clocks may be wrong.
func (v *view) forgotten() (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, b := range v.beats {
		if name != v.own && time.Since(b.at) > forgottenSeen && time.Since(v.shelves.Holders[name].Time) > forgottenAfter {
			names = append(names, name)
		}
	}
	return names
}

// keys are the keys of the other daemons that run, each with the address at which its daemon gives copies.
func (v *view) keys() map[string]string {
	keys := map[string]string{}
	s, ok, _ := v.now()
	if !ok {
		return nil
	}
	run, _ := v.running()
	for name := range run {
		if h := s.Holders[name]; h.Key != "" {
			keys[h.Key] = h.Address
		}
	}
	return keys
}

// With implements artifact.Others.
func (v *view) With(f artifact.File) (all []artifact.File) {
	s, ok, _ := v.now()
	a := s.Artifacts[f.SHA256]
	if !ok || !a.Removed.IsZero() {
		return nil
	}
	run, _ := v.running()
	for _, name := range s.HoldersOf(f.SHA256) {
		h := s.Holders[name]
		if _, err := netip.ParseAddrPort(h.Address); err != nil || !run[name] {
			continue
		}
		all = append(all, artifact.File{
			SHA256: f.SHA256, URL: "https://" + h.Address + "/" + f.SHA256, Form: f.Form, For: f.For,
			Copy: artifact.Copy{From: hostOf(h), Name: a.Name, Source: a.Source, Size: a.Size, Spare: f.Copy.Spare},
		})
	}
	return all
}

// Silent implements artifact.Others.
func (v *view) Silent(sha256 string) (hosts []string) {
	s, _, _ := v.now()
	_, silent := v.running()
	for _, name := range s.HoldersOf(sha256) {
		if silent[name] {
			hosts = append(hosts, hostOf(s.Holders[name]))
		}
	}
	return hosts
}

// hostOf names a daemon for people. Another host has written it.
func hostOf(h record.Holder) string { return site.Shorten(site.Printable(h.Host), 100) }

// live are the artifacts that were not collected, the ones that are needed first, then by their names.
func live(s record.Shelves) (all []record.Artifact) {
	for _, digest := range slices.Sorted(maps.Keys(s.Artifacts)) {
		if a := s.Artifacts[digest]; a.Removed.IsZero() && artifact.IsDigest(digest) {
			a.Name = site.Shorten(site.Printable(a.Name), 100) // another host has written it
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b record.Artifact) int {
		switch {
		case a.Needed == b.Needed:
			return strings.Compare(a.Name, b.Name)
		case a.Needed:
			return -1
		}
		return 1
	})
	return all
}
