package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// listing is what is open, or why that cannot be said.
type listing struct {
	forge.Proposals // of which nobody asks for one
	fails           []error
	asked           int
}

func (l *listing) Open(_ context.Context, base string) ([]site.Proposal, error) {
	l.asked++
	if len(l.fails) > 0 {
		err := l.fails[0]
		l.fails = l.fails[1:]
		return nil, err
	}
	return []site.Proposal{{Number: 1, Base: base, Head: "head1"}, {Number: 2, Base: base, Head: "head2"}, {Number: 3, Base: base, Head: "head1"}}, nil
}

// A check that somebody wants again is made again when it is ours, and also when
// it could not be found out at once of which proposals it is.
func TestCheckIsMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		check string
		fails []error
		want  string
		asked int
	}{
		"ours":                {"slipway/berlin", nil, "[1 3]", 1},
		"all of ours":         {"", nil, "[1 3]", 1},
		"another site's":      {"slipway/paris", nil, "[]", 0},
		"another program's":   {"ci", nil, "[]", 0},
		"ours, after trouble": {"slipway/berlin", []error{errors.New("connection reset"), &forge.Limited{Until: time.Now().Add(1000 * time.Hour)}}, "[1 3]", 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &listing{fails: c.fails}
				planned := []int{}
				a := &again{l, "main", "slipway/berlin", func(n int) { planned = append(planned, n) }, forge.NewHints(), slog.New(slog.DiscardHandler)}
				h := forge.Hint{About: forge.AboutCheck, Check: c.check, Commit: "head1"}
				for a.heed(t.Context(), h); l.asked < c.asked; a.heed(t.Context(), h) {
					var err error
					if h, err = a.hints.Next(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := fmt.Sprint(planned); got != c.want || l.asked != c.asked {
					t.Errorf("planned are %s after %d listings, want %s after %d", got, l.asked, c.want, c.asked)
				}
			})
		})
	}
}
