package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// byAgent is a site with one node that Slipway's agent installs on its one SSD.
func byAgent() (*site.Site, *site.Node) {
	n := &site.Node{
		Name: "n1", Image: "base", Generation: 1, References: site.References{ByAgent: true},
		Storage: site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Kind: "ssd"}, Use: site.Use{Filesystem: &site.Filesystem{Mount: "/"}}}}},
	}
	return &site.Site{Images: map[string]*site.Image{"base": {Kind: "root", SHA256: "d1"}}, Nodes: map[string]*site.Node{"n1": n}}, n
}

// drives are an SSD and an HDD, each with something of an array on it.
func drives(ssd, hdd string) []item.Disk {
	array := func(id string) []item.Signature {
		if id == "" {
			return nil
		}
		return []item.Signature{{Kind: "md", UUID: id, Name: "data"}}
	}
	return []item.Disk{
		{Name: "sda", Serial: "S1", Kind: "ssd", Bytes: 100e9 / 512 * 512, Sector: 512, Holds: array(ssd)},
		{Name: "sdb", Serial: "S2", Kind: "hdd", Bytes: 100e9 / 512 * 512, Sector: 512, Holds: array(hdd)},
	}
}

// looked is what is remembered of a machine of which the BMC tells two disks, and its agent some.
func looked(disks []item.Disk, a site.Account) site.Memory {
	m := site.Memory{Account: a, Observed: site.Observed{Disks: &site.Disks{Serials: []string{"S1", "S2"}}}}
	if disks != nil {
		m.Observed.Agent = &site.AgentSeen{Generation: 1, Connected: true, Seen: time.Unix(1e9, 0), Disks: disks}
	}
	return m
}

func lossOf(t *testing.T, s *site.Site, n *site.Node, m site.Memory) (site.Step, site.Loss) {
	t.Helper()
	step := installStep(s, n, m)
	complete(&step, n, m)
	again := step
	if complete(&again, n, m); again.Loses != step.Loses || again.Breaks != step.Breaks {
		t.Errorf("completed twice it loses %q and breaks %q", again.Loses, again.Breaks)
	}
	loss, ok := step.Destroys()
	if !ok {
		t.Fatal("nothing is lost")
	}
	return step, loss
}

// What an installation breaks on a disk that nobody designed is named, and only who was shown it
// has approved it.
func TestWhatBreaksOnOtherDisksIsApproved(t *testing.T) {
	s, n := byAgent()
	_, unseen := lossOf(t, s, n, looked(nil, site.Account{}))
	_, apart := lossOf(t, s, n, looked(drives("u1", "u2"), site.Account{}))
	step, broken := lossOf(t, s, n, looked(drives("u1", "u1"), site.Account{}))
	if unseen.Breaks != "" || apart.Breaks != "" || broken.Breaks != "the array data (u1)" {
		t.Errorf("breaks %q, %q, %q", unseen.Breaks, apart.Breaks, broken.Breaks)
	}
	if want := "; also what other disks, which stay, have of the array data (u1)"; !strings.HasSuffix(broken.Lost, want) {
		t.Errorf("lost is %q", broken.Lost)
	}
	if want := "BROKEN: the array data (u1), which lies on disks that stay too: S2"; !slices.Contains(step.Makes, want) {
		t.Errorf("it makes %q", step.Makes)
	}

	open := func(l site.Loss) site.Account { return site.Account{Entries: []site.LedgerEntry{{Loss: l}}} }
	for name, c := range map[string]struct {
		approved site.Loss
		now      []item.Disk
		covers   bool
	}{
		"nothing is broken, as approved":         {unseen, drives("u1", "u2"), true},
		"an array is found to be broken":         {unseen, drives("u1", "u1"), false},
		"that was approved":                      {broken, drives("u1", "u1"), true},
		"it was approved, and is gone":           {broken, drives("", "u1"), true},
		"another array of its name is":           {broken, drives("u2", "u2"), false},
		"approved, and the agent starts anew":    {withDisks(broken, "S1, S2"), nil, true},
		"other disks, before the agent has seen": {withDisks(broken, "S1, S3"), nil, false},
	} {
		m := looked(c.now, open(c.approved))
		if _, loss := lossOf(t, s, n, m); (m.Account.Open(loss) != nil) != c.covers {
			t.Errorf("%s: the loss %+v, approved %+v", name, loss, c.approved)
		}
	}
	if why := NotApproved(step, nil, n, looked(drives("u2", "u2"), site.Account{}).Observed); !strings.Contains(why, "it would break the array data (u2), of which other disks have parts, and that was not approved") {
		t.Errorf("right before: %q", why)
	}
	if why := NotApproved(step, nil, n, looked(drives("", "u1"), site.Account{}).Observed); why != "" {
		t.Errorf("after its part was erased: %q", why)
	}
}

// An approval is of the whole design of the disks: another one whose digest begins alike, as people
// read it, needs an approval of its own, and so does what an earlier version approved by 8 digits.
func TestLayoutsAreNotMistaken(t *testing.T) {
	s, n := byAgent()
	label := func(i int) *site.Node {
		other := *n
		other.Storage = site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Kind: "hdd"}, Use: site.Use{Filesystem: &site.Filesystem{Mount: "/", Label: fmt.Sprint(i)}}}}}
		return &other
	}
	// Two of them that people cannot tell apart: with 8 digits that takes 2^16 tries, with 3 fewer.
	const digits = 3
	first, other := map[string]int{}, (*site.Node)(nil)
	for i := range 1 << 14 {
		head := LayoutDigest(label(i))[:digits]
		if before, ok := first[head]; ok {
			n, other = label(before), label(i)
			break
		}
		first[head] = i
	}
	if other == nil {
		t.Fatal("no two layouts begin alike")
	}
	step, loss := lossOf(t, s, n, looked(nil, site.Account{}))
	alike := loss
	alike.Layout = LayoutDigest(other)
	if len(loss.Layout) != 64 || (site.Losses{loss}).Digest() == (site.Losses{alike}).Digest() {
		t.Errorf("the layout is %q", loss.Layout)
	}
	before := loss
	before.Layout = ""
	for name, c := range map[string]struct {
		approved site.Loss
		covers   bool
	}{
		"the same":                            {loss, true},
		"another one that is written alike":   {alike, false},
		"one of before, which has few digits": {before, false},
	} {
		a := site.Account{Entries: []site.LedgerEntry{{Loss: c.approved}}}
		if _, now := lossOf(t, s, n, looked(drives("", ""), a)); (a.Open(now) != nil) != c.covers {
			t.Errorf("%s: %+v", name, now)
		}
	}

	o := looked(drives("", ""), site.Account{}).Observed
	step.Disks = "S2"
	if why := NotApproved(step, nil, n, o); why != "" {
		t.Errorf("right before: %s", why)
	}
	const says = "the design asks for other disks than when this installation began"
	if why := NotApproved(step, LaidOut(other), other, o); !strings.HasPrefix(why, says) {
		t.Errorf("another layout right before: %q", why)
	}
	step.Layout = "" // an earlier version has begun it
	if why := NotApproved(step, LaidOut(n), n, o); why != "" {
		t.Errorf("begun before: %s", why)
	}
	if why := NotApproved(step, nil, n, o); !strings.HasPrefix(why, says) {
		t.Errorf("approved before, and not begun: %q", why)
	}
}

// Each disk that is erased is one that was approved: exactly that serial number, with that WWN where
// it was told, and as often as it is there.
func TestWhichDisksAreCovered(t *testing.T) {
	d := func(serial, wwn string) item.Destroyed { return item.Destroyed{Serial: serial, WWN: wwn} }
	for name, c := range map[string]struct {
		approved string
		erased   []item.Destroyed
		want     bool
	}{
		"of those that the BMC tells":         {"S1, S2", []item.Destroyed{d("S1", "5000a")}, true},
		"in other letters":                    {"s1abcd", []item.Destroyed{d("S1ABCD", "")}, true},
		"as the agent has told it":            {"S1/5000a", []item.Destroyed{d("S1", "5000a")}, true},
		"another one of its serial number":    {"S1/5000a", []item.Destroyed{d("S1", "5000b")}, false},
		"one that lost its WWN":               {"S1/5000a", []item.Destroyed{d("S1", "")}, false},
		"two namespaces of a drive":           {"S1", []item.Destroyed{d("S1", "a"), d("S1", "b")}, false},
		"both of them approved":               {"S1/a, S1/b", []item.Destroyed{d("S1", "b"), d("S1", "a")}, true},
		"one of them by the BMC":              {"S1, S1/b", []item.Destroyed{d("S1", "b"), d("S1", "a")}, true},
		"a serial number that has another":    {"S4EVN1", []item.Destroyed{d("S4EVN1X", "")}, false},
		"a part of one that was approved":     {"SAMSUNG_S4EVN1", []item.Destroyed{d("S4EVN1", "")}, false},
		"a slash in a serial number":          {"S1", []item.Destroyed{d("S1/a", "")}, false},
		"by its WWN alone":                    {"5000a", []item.Destroyed{d("", "5000a")}, true},
		"no number, beside what is not read":  {"S1, " + site.DisksUnread, []item.Destroyed{d("", "")}, false},
		"a comma in a serial number":          {"S1, S2", []item.Destroyed{d("S1, S2", "")}, false},
		"nobody can tell":                     {site.DisksUnknown, []item.Destroyed{d(site.DisksUnknown, "")}, false},
		"nothing is erased that anyone knows": {"S1", nil, false},
	} {
		if got := covers(c.approved, c.erased); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func withDisks(l site.Loss, disks string) site.Loss {
	lost := l
	lost.Disks = disks
	return lost
}
