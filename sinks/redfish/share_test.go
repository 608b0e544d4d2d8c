package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// sleds is an enclosure: some machines behind one BMC, and a handle to each.
func sleds(t *testing.T, b *bmc, size int, value secret.Value) []*machine {
	t.Helper()
	d := New(fast)
	var all []*machine
	for i := range size {
		path := fmt.Sprintf("/redfish/v1/Systems/Sled%d", i)
		b.answer("GET "+path, text(strings.Replace(healthySystem, "S1", fmt.Sprintf("S%d", i), 1)))
		e := b.endpoint()
		e.URL = "redfish+" + b.URL + path
		h, err := d.Open(t.Context(), e, value)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		all = append(all, h.(*machine))
	}
	return all
}

func atOnce(all []*machine, do func(i int, m *machine)) {
	var work sync.WaitGroup
	for i, m := range all {
		work.Go(func() { do(i, m) })
	}
	work.Wait()
}

const (
	loggingIn  = "POST /redfish/v1/SessionService/Sessions"
	loggingOut = "DELETE /redfish/v1/SessionService/Sessions/7"
)

// The nodes behind one BMC have one session, which the last of them ends, and
// each sees its own machine.
func TestNodesOfAnEnclosureShareASession(t *testing.T) {
	b := newBMC(t)
	all := sleds(t, b, 4, secret.New("admin", "hunter2"))
	atOnce(all, func(i int, m *machine) {
		seen, err := look(m, nil)
		if want := fmt.Sprintf("S%d", i); err != nil || seen.Identity.Serial != want || m.Session() == "" {
			t.Errorf("got %v, %v of %s", seen.Identity, err, want)
		}
	})
	if asked := b.took(); slices.Index(asked, loggingIn) < 0 || slices.Contains(asked[slices.Index(asked, loggingIn)+1:], loggingIn) {
		t.Errorf("logged in other than once: %v", asked)
	}
	for i, m := range all {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		m.Close() // again
		if ended := b.count(loggingOut); (ended == 1) != (i == len(all)-1) {
			t.Errorf("after %d of %d were closed the session was ended %d times", i+1, len(all), ended)
		}
	}
}

// A session that is gone is made anew once, however many notice.
func TestNodesOfAnEnclosureLogInOnceMore(t *testing.T) {
	b := newBMC(t)
	all := sleds(t, b, 4, secret.New("admin", "hunter2"))
	atOnce(all, func(_ int, m *machine) { look(m, nil) })
	var mu sync.Mutex
	logins := 0
	b.answer(loggingIn, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		logins++
		w.Header().Set("X-Auth-Token", "second")
		w.Header().Set("Location", "/redfish/v1/SessionService/Sessions/8")
		w.WriteHeader(http.StatusCreated)
	})
	for i := range all {
		path := fmt.Sprintf("GET /redfish/v1/Systems/Sled%d", i)
		serve := b.answers[path]
		b.answer(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Auth-Token") != "second" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			serve(w, r)
		})
	}
	atOnce(all, func(_ int, m *machine) {
		if _, err := look(m, nil); err != nil {
			t.Error(err)
		}
	})
	if logins != 1 {
		t.Errorf("logged in %d times", logins)
	}
}

// A wrong password is tried once, and not once for each node.
func TestNodesOfAnEnclosureAreDeniedOnce(t *testing.T) {
	b := newBMC(t)
	b.answer(loggingIn, status(http.StatusUnauthorized, ""))
	atOnce(sleds(t, b, 4, secret.New("admin", "wrong")), func(_ int, m *machine) {
		if _, err := look(m, nil); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("got %v", err)
		}
	})
	if n := b.count(loggingIn); n != 1 {
		t.Errorf("the password was tried %d times", n)
	}
}

// All requests to one BMC take turns, those with another credential too.
func TestNodesOfAnEnclosureTakeTurns(t *testing.T) {
	b := newBMC(t)
	all := sleds(t, b, 3, secret.New("admin", "hunter2"))
	e := all[0].client
	d := New(fast)
	for _, v := range []secret.Value{secret.New("admin", "hunter2"), secret.New("other", "hunter2")} {
		h, err := d.Open(t.Context(), b.endpoint(), v)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		all = append(all, h.(*machine))
	}
	first, second := all[3].client, all[4].client
	if e.wire.lanes != all[1].client.wire.lanes || first == second || first.wire.lanes != second.wire.lanes || first.wire.lanes == e.wire.lanes {
		t.Error("the lanes are not those of the BMC")
	}
}

// A write to one machine says nothing of another, but what was seen of any may
// be no more.
func TestWriteInAnEnclosureForgetsWhatWasSeen(t *testing.T) {
	b := newBMC(t)
	all := sleds(t, b, 2, secret.New("admin", "hunter2"))
	for range 2 {
		look(all[0], nil)
	}
	before := all[0].last
	mayWrite(t, all[1])
	all[1].client.post(t.Context(), "/x", nil)
	if now := all[0].client.wire.writes.Load(); before.seen.Facets == nil || before.writes == now {
		t.Errorf("kept what was seen before a write: %+v", before.seen.Facets[site.FacetPower])
	}
}
