package design

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A pause may end in 90 days, and no later; its finding can be silenced.
func TestLongPauses(t *testing.T) {
	now := time.Date(2026, 8, 1, 18, 0, 0, 0, time.UTC)
	paused := func(days int, more time.Duration) *site.Node {
		return &site.Node{Name: "n1", Paused: &site.Hold{Until: now.AddDate(0, 0, days).Add(more)},
			Origins: site.OriginsByPath(map[string]site.Origin{"paused.until": site.At("n.cue", 3, 20, "node/n1")})}
	}
	silent := map[string]*site.Suppression{"x": {Code: "pause-endless"}}
	for name, c := range map[string]struct {
		node     *site.Node
		suppress map[string]*site.Suppression
		kept     []string
	}{
		"90 days":         {paused(90, 0), nil, nil},
		"a moment longer": {paused(90, 1), nil, []string{"n.cue:3:20: the pause of n1 ends on 2026-10-30, in more than 90 days"}},
		"silenced":        {paused(91, 0), silent, nil},
		"over":            {paused(-1, 0), nil, nil},
		"without an end":  {&site.Node{Name: "n1", Paused: &site.Hold{}}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site.Site{Nodes: map[string]*site.Node{"n1": c.node}, Suppressions: c.suppress}
			kept, _ := suppress(rule.LongPauses(s.Nodes, now), s, now, true)
			var got []string
			for _, f := range kept {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(c.kept, got); diff != "" {
				t.Errorf("(-want, +got)\n%s", diff)
			}
		})
	}
}

func TestSuppress(t *testing.T) {
	end := time.Date(2026, 8, 1, 18, 0, 0, 0, time.UTC)
	missing := func(node string) site.Finding {
		return site.Finding{Code: "host-key-missing", Severity: site.SeverityWarning, Node: node, Message: "of " + node}
	}
	s := &site.Site{
		Nodes:    map[string]*site.Node{"n1": {}, "n2": {}, "n3": {}},
		Policies: map[string]*site.Policy{"up": {}},
		Origins:  site.OriginsByPath(map[string]site.Origin{"suppressions.x": site.At("s.cue", 3, 1, "site"), "suppressions.x.until": site.At("s.cue", 4, 9, "site")}),
	}
	all := []site.Finding{
		missing("n1"), missing("n2"),
		{Code: "policy/up", Severity: site.SeverityError, Node: "n1"},
		{Code: "unknown-role", Severity: site.SeverityError, Node: "n1"},
	}
	for name, c := range map[string]struct {
		site.Suppression
		now      time.Time
		partly   bool
		silenced []int // of all
		says     string
	}{
		"every node": {Suppression: site.Suppression{Code: "host-key-missing"}, silenced: []int{0, 1}},
		"a node":     {Suppression: site.Suppression{Code: "host-key-missing", Nodes: []string{"n2"}}, silenced: []int{1}},
		"a policy":   {Suppression: site.Suppression{Code: "policy/up"}, silenced: []int{2}},
		"before its end": {
			Suppression: site.Suppression{Code: "host-key-missing", Until: end}, now: end.Add(-time.Nanosecond), silenced: []int{0, 1},
		},
		"at its end": {
			Suppression: site.Suppression{Code: "host-key-missing", Until: end}, now: end, says: "s.cue:4:9 suppression-expired warning",
		},
		"a firm rule":     {Suppression: site.Suppression{Code: "unknown-role"}, says: "s.cue:3:1 suppression-refused error"},
		"an unknown code": {Suppression: site.Suppression{Code: "policy/down"}, says: "s.cue:3:1 unknown-code error"},
		"another node":    {Suppression: site.Suppression{Code: "host-key-missing", Reason: "r", Nodes: []string{"n3"}}, says: "s.cue:3:1 suppression-unused note"},
		"another node, and not every rule was checked": {
			Suppression: site.Suppression{Code: "host-key-missing", Nodes: []string{"n3"}}, partly: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Suppressions = map[string]*site.Suppression{"x": &c.Suppression}
			kept, silenced := suppress(all, s, c.now, !c.partly)
			var wantKept, wantSilenced []site.Finding
			for i, f := range all {
				if slices.Contains(c.silenced, i) {
					wantSilenced = append(wantSilenced, f)
				} else {
					wantKept = append(wantKept, f)
				}
			}
			if diff := cmp.Diff(wantSilenced, silenced); diff != "" {
				t.Errorf("silenced: want (-), got (+):\n%s", diff)
			}
			said := ""
			if len(kept) > len(wantKept) {
				f := kept[len(kept)-1]
				kept, said = kept[:len(kept)-1], strings.Join([]string{f.Place(), f.Code, string(f.Severity)}, " ")
			}
			if diff := cmp.Diff(wantKept, kept); diff != "" || said != c.says {
				t.Errorf("kept: want (-), got (+):\n%s\nand says %q, want %q", diff, said, c.says)
			}
		})
	}
}

// Two suppressions may silence one finding; both are of use.
func TestSuppressTwice(t *testing.T) {
	s := &site.Site{Suppressions: map[string]*site.Suppression{
		"a": {Code: "host-key-missing"}, "b": {Code: "host-key-missing", Nodes: []string{"n1"}},
	}}
	kept, silenced := suppress([]site.Finding{{Code: "host-key-missing", Node: "n1"}}, s, time.Time{}, true)
	if len(kept) != 0 || len(silenced) != 1 {
		t.Errorf("kept %v, silenced %v; want none and one", kept, silenced)
	}
}
