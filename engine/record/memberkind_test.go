package record

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
)

// A member is a witness from when it was added: it counts as one before it has started, no second one
// takes the place of the other daemon meanwhile, and a folder of another kind does not start there.
func TestWitnessBeforeItStarts(t *testing.T) {
	t.Parallel()
	all := hosts(t, 3)
	a, w := all[0], all[1]
	must(t, a.open())
	must(t, a.AddMember(t.Context(), w.address(), true))
	is := func(want bool) {
		t.Helper()
		list, err := a.Members(t.Context())
		must(t, err)
		if m, found := find(list, w.address()); !found || m.Started || m.Witness != want {
			t.Errorf("it is %+v", m)
		}
	}
	is(true)
	if err := a.AddMember(t.Context(), recordtest.Free(t), true); err == nil || !strings.Contains(err.Error(), "2 witnesses and one daemon") {
		t.Errorf("a second witness beside the only daemon: %v", err)
	}
	if err := w.open(); err == nil || !strings.Contains(err.Error(), "was added as a witness, and this folder is of a daemon") {
		t.Errorf("a daemon in the place of a witness: %v", err)
	}
	must(t, a.ReplaceMember(t.Context(), w.address(), recordtest.Free(t), false))
	list, err := a.Members(t.Context())
	must(t, err)
	for _, m := range list {
		if !m.Here && !m.Witness {
			t.Errorf("what replaces a witness that has not started is %+v", m)
		}
	}
	// Those that join know it of each other, and the one that started says it itself.
	for _, h := range all[1:] {
		must(t, a.AddMember(t.Context(), h.address(), false))
	}
	must(t, all[1].open())
	a.started(all[1].address())
	list, err = all[1].Members(t.Context())
	must(t, err)
	if daemons, witnesses := kinds(list); daemons != 3 || witnesses != 1 {
		t.Errorf("the one that joined sees %+v", list)
	}
}

// Of two daemons and two witnesses no daemon is removed.
func TestLastSpareDaemonStays(t *testing.T) {
	t.Parallel()
	all := []Member{{Address: "a", Votes: true, Started: true, Here: true}, {Address: "b", Votes: true, Started: true}, {Address: "v", Votes: true, Started: true, Witness: true}, {Address: "w", Started: true, Witness: true}}
	if _, err := removable(all, "b"); err == nil || !strings.Contains(err.Error(), "one daemon would be left beside the witnesses") {
		t.Errorf("the second daemon: %v", err)
	}
	if _, err := removable(all, "v"); err != nil {
		t.Errorf("a witness: %v", err)
	}
}
