package notify

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestSameCauseReadsTheSame(t *testing.T) {
	for _, pair := range [][2]string{
		{"observe n1: unreachable: dial tcp 10.0.0.1:443: connect: refused", "observe n1: unreachable: dial tcp 10.0.0.77:443: connect: refused"},
		{"post https://10.0.0.1/redfish/v1: 500", "post https://[fd00::7]/redfish/v1: 500"},
		{"machine answers as 2d4f0000-0000-4000-8000-000000000001", "machine answers as 77770000-0000-4000-8000-0000000000ff"},
		{"it has serial CZJ01234AB, the design says CZJ99999ZZ", "it has serial QTF0A1B2C3, the design says XYZ01000ZZ"},
		{"nothing for 5m30s", "nothing for 12h"},
		{"the certificate ended on 2026-01-02T03:04:05Z", "the certificate ended on 2027-11-12T13:14:15Z"},
		{"MAC 52:54:00:12:34:56 is another's", "MAC 52:54:00:ff:ee:dd is another's"},
		{"look up bmc-7.example.org:443: no such host", "look up bmc-9.example.org:443: no such host"},
		{"power is off (bmc-n1.oob), see `slipway why n1`", "power is off (bmc-n1.oob), see `slipway why n1`"},
	} {
		if a, b := steady("n1", pair[0]), steady("n1", pair[1]); a != b {
			t.Errorf("%q and %q differ", a, b)
		}
	}
}

func TestOtherCausesReadOtherwise(t *testing.T) {
	for _, pair := range [][2]string{
		{"answers 401", "answers 403"},
		{"power-on of n1: refused", "power-off of n1: refused"},
		{"unreachable: connection refused", "unreachable: i/o timeout"},
		{"rack 1 is full", "rack 2 is full"},
	} {
		if a, b := steady("n1", pair[0]), steady("n1", pair[1]); a == b {
			t.Errorf("%q and %q are one: %q", pair[0], pair[1], a)
		}
	}
}

// A node's name, whatever it is, does not make a cause its own.
func TestNamesDoNotMatter(t *testing.T) {
	want := steady("compute-1", "observe compute-1: denied; `slipway retry compute-1` tries again")
	for _, name := range []string{"a", "rack-3-node-17", "storage", "n1"} {
		if got := steady(name, "observe "+name+": denied; `slipway retry "+name+"` tries again"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestForeignTextIsShownSafely(t *testing.T) {
	for in, want := range map[string]string{
		"a\n\tb\x00c\u202ed":                 "a b c d",
		"get https://root:pw@10.0.0.1/x: no": "get https://10.0.0.1/x: no",
		"a\xffb":                             "a?b",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func FuzzSteady(f *testing.F) {
	f.Add("compute-1", "observe compute-1: denied: https://u:p@10.0.0.1:443 [fd00::1%eth0]:22 52:54:00:12:34:56 5m3s 401")
	f.Add("", "::: ->: 0 1:1")
	f.Fuzz(func(t *testing.T, node, text string) {
		steady(node, text)
		shown := printable(text)
		if len(shown) > maxWhat || !utf8.ValidString(shown) || strings.ContainsAny(shown, "\n\x1b\x00") {
			t.Errorf("%q is shown as %q", text, shown)
		}
	})
}

// BenchmarkCauses is one report in which 10,000 nodes are stalled.
func BenchmarkCauses(b *testing.B) {
	r := site.Report{}
	for i := range 10_000 {
		r.Status.Nodes = append(r.Status.Nodes, site.NodeStatus{Name: fmt.Sprintf("compute-%05d", i), State: site.Stalled, Since: time.Now(),
			Reason: fmt.Sprintf("observe compute-%05d: unreachable: Get \"https://10.9.%d.%d/redfish/v1/Systems/1\": dial tcp: i/o timeout", i, i/256, i%256)})
	}
	for b.Loop() {
		if len(causes(&r)) != 1 {
			b.Fatal("more than one cause")
		}
	}
}
