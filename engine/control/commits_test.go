package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// commitIDs are those that the fake offers.
var commitIDs = []string{"89abcdef0123456789abcdef0123456789abcdef", "4f2a51c09d3e456789abcdef0123456789abcdef", "4f2a51c09d3eeeeeeeeecdef0123456789abcdef"}

func (f *fake) Commits(context.Context, string) (site.CommitList, error) {
	list := site.CommitList{Branch: "main", Looked: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), InForce: "0123456789abcdef"}
	for i, branches := range [][]string{{"main"}, {"new-rack", "4f2a51c"}, {"old"}} {
		list.Commits = append(list.Commits, site.Commit{Revision: site.Revision{ID: commitIDs[i], Subject: fmt.Sprint("Subject ", i), Author: "Ada", When: list.Looked}, Branches: branches, Followed: i == 0, Lacks: i == 2})
	}
	return list, nil
}

func (f *fake) Commit(_ context.Context, _, id string) (site.CommitDetail, error) {
	list, _ := f.Commits(context.Background(), "")
	for _, c := range list.Commits {
		if strings.HasPrefix(c.ID, id) {
			d := site.CommitDetail{Commit: c, Outdated: f.planned == 0, Planning: f.planning}
			if f.planned > 0 {
				d.Planned, d.PlanDetail = list.Looked, f.pull.PlanDetail
			}
			return d, nil
		}
	}
	return site.CommitDetail{}, fmt.Errorf("%w: no commit %s", site.ErrNotFound, id)
}

func (f *fake) PlanCommit(ctx context.Context, name, id string) (site.CommitDetail, error) {
	f.planned++
	f.planning = f.planned < f.slow
	return f.Commit(ctx, name, id)
}

// A branch is found by its name, a commit by its first digits, and anything by a search.
func TestCommitsAreFound(t *testing.T) {
	socket, _ := serving(t, &fake{})
	c := Dial(socket)
	defer c.Close()
	for query, want := range map[string][]int{"": {0, 1, 2}, "?name=main": {0}, "?name=new-rack": {1}, "?name=4f2a51c": {1}, "?name=4f2a51c0": {1, 2}, "?name=89abcd": {}, "?name=ain": {},
		"?q=NEW-r": {1}, "?q=subject+2": {2}, "?q=ada&limit=1": {0}, "?q=89abcde": {0}, "?q=nobody": {}, "?skip=2": {2}} {
		var page CommitPage
		if _, err := c.get(context.Background(), "/sites/berlin/commits"+query, "", &page); err != nil || len(page.Commits) != len(want) || page.Branch != "main" || page.Looked.IsZero() {
			t.Errorf("%s: %+v, %v", query, page, err)
			continue
		}
		for i, n := range want {
			if page.Commits[i].ID != commitIDs[n] {
				t.Errorf("%s: %s", query, page.Commits[i].ID)
			}
		}
	}
}

// A commit is planned when somebody asks for it, once, and a client waits for that and gets all racks.
func TestCommitIsPlannedOnce(t *testing.T) {
	f := pulling()
	f.slow = 3
	socket, _ := serving(t, f)
	c := Dial(socket)
	defer c.Close()
	v, err := c.Commit(context.Background(), "berlin", commitIDs[0][:12])
	if err != nil || f.planned != 3 || v.Planning || len(v.Affected) != 250 || len(v.Outside) != 150 || v.Untouched != 50 || v.Commit.ID != commitIDs[0] {
		t.Errorf("planned %d times, %d racks, %d outside, %v", f.planned, len(v.Affected), len(v.Outside), err)
	}
	for path, want := range map[string]error{"ffffffffff": site.ErrNotFound, "89abcd": site.ErrNotFound, "main": site.ErrNotFound, "89abcdef0123?limit=101": ErrBadRequest} {
		var v any
		if _, err := c.get(context.Background(), "/sites/berlin/commits/"+path, "", &v); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if f.planned != 3 {
		t.Errorf("planned %d times", f.planned)
	}
}

// Whoever may read some nodes alone sees no commit, and has none planned; planning costs a caller much of what it may ask.
func TestCommitsAreForWhoMayReadTheSite(t *testing.T) {
	f := pulling()
	o := listening(t, f, nil)
	for _, who := range []string{"carol", "zoe", "bob"} {
		want := map[string]int{"bob": 200, "carol": 403, "zoe": 403}[who]
		for _, path := range []string{"", "/" + commitIDs[0]} {
			if got, answer := o.ask(o.as(o.people.client(t, mail(who+"@example.org"))), http.MethodGet, "/api/v1/sites/berlin/commits"+path, "", ""); got != want || got == 403 && (strings.Contains(answer, "Subject") || f.planned > 0) {
				t.Errorf("%s, %s: %d %.200s", who, path, got, answer)
			}
		}
	}
	if f.planned != 1 {
		t.Errorf("planned %d times", f.planned)
	}
}

// Planning is counted as many requests of its caller.
func TestPlanningACommitCosts(t *testing.T) {
	asks := func(again bool) (served int) {
		f := pulling()
		o := listening(t, f, func(n *Network) { n.Limits = Limits{Rate: 0.001, Burst: 60, UnknownRate: 1, UnknownBurst: 100} })
		client := o.as(o.people.client(t, mail("bob@example.org")))
		for ; served < 100; served++ {
			if again {
				f.planned = 0
			}
			if got, _ := o.ask(client, http.MethodGet, "/api/v1/sites/berlin/commits/"+commitIDs[0]+"?steps=false", "", ""); got == http.StatusTooManyRequests {
				break
			}
		}
		return served
	}
	if once, each := asks(false), asks(true); once < 30 || each > 4 {
		t.Errorf("planned once: %d answers; planned for each: %d", once, each)
	}
}
