package record

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// shrinks notes when which host gives room back.
type shrinks struct {
	mu  sync.Mutex
	all []string
}

func (s *shrinks) of(name string) *slog.Logger {
	return slog.New(shrinkHandler{slog.DiscardHandler, s, name})
}

type shrinkHandler struct {
	slog.Handler
	notes *shrinks
	name  string
}

func (h shrinkHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h shrinkHandler) Handle(_ context.Context, r slog.Record) error {
	h.notes.mu.Lock()
	defer h.notes.mu.Unlock()
	switch {
	case strings.HasPrefix(r.Message, "this member gives unused room of its records back"):
		h.notes.all = append(h.notes.all, h.name+" begins")
	case strings.HasPrefix(r.Message, "this member has given unused room of its records back"):
		h.notes.all = append(h.notes.all, h.name+" ends")
	}
	return nil
}

// At the quota the members give room back one after the other, the one that orders the writes last, and say so.
// Then they take writes again.
func TestMembersGiveRoomBackInTurn(t *testing.T) {
	t.Parallel()
	var notes shrinks
	all := hosts(t, 3)
	for _, h := range all {
		h.quota, h.log = 24<<20, notes.of(h.address())
	}
	must(t, all[0].open())
	b, term := all[0].lead()
	for _, h := range all[1:] {
		must(t, all[0].AddMember(t.Context(), h.address(), false))
	}
	must(t, errors.Join(all[1].open(), all[2].open()))
	all[0].votes(3)
	text := func() []byte {
		p := make([]byte, 33000)
		_, _ = rand.Read(p)
		j, _ := json.Marshal(p)
		return j
	}
	leads := func() int {
		return slices.IndexFunc(all, func(h *host) bool { return h.etcd.etcd.Server.Leader() == h.etcd.etcd.Server.MemberID() })
	}
	before := leads()
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		err = b.PutMessage(t.Context(), "changing", text())
	}
	if err == nil || !strings.Contains(err.Error(), "the members give unused room back one after the other") {
		t.Fatalf("at the quota: %v", err)
	}
	soon(t, "it is written to again", func() error {
		return errors.Join(b.PutMessage(t.Context(), "changing", text()), term.Renew(t.Context()))
	})
	soon(t, "all have given room back", func() error {
		for _, h := range all {
			if size := h.etcd.etcd.Server.Backend().Size(); size > h.quota/2 {
				return fmt.Errorf("%s has %d bytes", h.address(), size)
			}
		}
		return nil
	})
	notes.mu.Lock()
	defer notes.mu.Unlock()
	last := leads()
	if len(notes.all) != 6 || last == before && notes.all[5] != all[last].address()+" ends" { // a slow host may lose the lead meanwhile
		t.Errorf("they gave room back so: %q, and %s leads", notes.all, all[last].address())
	}
	for i := 0; i+1 < len(notes.all); i += 2 {
		if begun, _ := strings.CutSuffix(notes.all[i], " begins"); notes.all[i+1] != begun+" ends" {
			t.Errorf("two at once: %q", notes.all)
		}
	}
}

// The queue is the same for all members, whatever the order in which etcd lists the alarms.
func TestInLine(t *testing.T) {
	t.Parallel()
	alarms := func(ids ...uint64) (all []*etcdserverpb.AlarmMember) {
		for _, id := range ids {
			all = append(all, &etcdserverpb.AlarmMember{MemberID: id})
		}
		return all
	}
	for _, ids := range [][]uint64{{1, 2, 3}, {3, 1, 2}, {2, 3, 1}} {
		if got := inLine(alarms(ids...), 1); !slices.Equal(got, []uint64{2, 3, 1}) {
			t.Errorf("%v: %v", ids, got)
		}
	}
}
