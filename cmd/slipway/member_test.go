package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/member"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/record/recordtest"
)

// The member that replaces a witness is one, and two witnesses beside a single daemon are refused.
func TestKindOfMember(t *testing.T) {
	const a, b, w = "10.0.0.1:2380", "10.0.0.2:2380", "10.0.0.3:2380"
	three := []record.Member{{Address: a, Started: true}, {Address: b, Started: true}, {Address: w, Started: true, Witness: true}}
	for _, c := range []struct {
		name    string
		change  member.Change
		asked   bool
		all     []record.Member
		witness bool
		refused bool
	}{
		{"a witness replaced by a new host", member.Change{Act: member.Replace, Address: w, By: "10.0.0.4:2380"}, false, three, true, false},
		{"a daemon replaced by a new host", member.Change{Act: member.Replace, Address: b, By: "10.0.0.4:2380"}, false, three, false, false},
		{"a daemon replaced by a witness", member.Change{Act: member.Replace, Address: b, By: "10.0.0.4:2380"}, true, three, false, true},
		{"the first witness", member.Change{Act: member.Add, Address: w}, true, three[:1], true, false},
		{"the second witness with one daemon", member.Change{Act: member.Add, Address: "10.0.0.4:2380"}, true, []record.Member{three[0], three[2]}, false, true},
		{"the second witness with one daemon, before the first has started", member.Change{Act: member.Add, Address: "10.0.0.4:2380"}, true, []record.Member{three[0], {Address: w, Witness: true}}, false, true},
		{"a witness replaced before it has started", member.Change{Act: member.Replace, Address: w, By: w}, false, []record.Member{three[0], three[1], {Address: w, Witness: true}}, true, false},
		{"the second witness with two daemons", member.Change{Act: member.Add, Address: "10.0.0.4:2380"}, true, three, true, false},
	} {
		witness, err := kind(c.change, c.asked, c.all)
		if witness != c.witness || (err != nil) != c.refused {
			t.Errorf("%s: witness %t, %v", c.name, witness, err)
		}
	}
	if got := majority(3, 3, 0) + onlyDaemon(1, 3); got != "3 of 3 members answering: 1 may be lost, but not the only daemon: add a second daemon, then remove a witness" {
		t.Error(got)
	}
	if got := onlyDaemon(2, 3); got != "" {
		t.Error(got)
	}
}

// Root does not write what the daemon of another user could not read.
func TestMemberInitAsRoot(t *testing.T) {
	dir := t.TempDir()
	if err := checkUser(dir); err != nil {
		t.Errorf("its own directory: %v", err)
	}
	if err := checkUser(filepath.Join(dir, "absent")); err != nil {
		t.Errorf("no directory: %v", err)
	}
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("CI runs as root")
		}
		t.Skip("only root can give a directory away")
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := checkUser(dir); err == nil || !strings.Contains(err.Error(), "is of user id 12345, which could not read what root writes") {
		t.Errorf("root writes into another user's directory: %v", err)
	}
}

// The status says long before that the certificates of members end.
func TestMemberNotes(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "member")
	f, err := member.Found(folder, recordtest.Free(t))
	if err != nil {
		t.Fatal(err)
	}
	c := record.Cluster{Prefix: etcdPrefix, Peer: f.Peer()}
	dir := filepath.Join(t.TempDir(), "records")
	if _, err := record.Found(t.Context(), dir, c, record.Source{}, record.Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	store, err := record.Open(t.Context(), dir, record.Options{NoSync: true, Cluster: &c})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if notes := memberNotes(store, folder, time.Now()); len(notes) != 1 || !strings.Contains(notes[0], "1 member that may vote") {
		t.Errorf("today: %q", notes)
	}
	if notes := memberNotes(store, folder, time.Now().AddDate(9, 8, 0)); len(notes) != 2 || !strings.Contains(notes[0], "the certificates of all members end on 20") {
		t.Errorf("four months before: %q", notes)
	}
}

// What is wrong with the members is a problem of the site that says what to do.
func TestMembersProblem(t *testing.T) {
	three := func(change func([]record.Member)) []record.Member {
		all := []record.Member{{Address: "10.0.0.1:2380", Started: true, Votes: true, Here: true}, {Address: "10.0.0.2:2380", Started: true, Votes: true}, {Address: "10.0.0.3:2380", Started: true, Votes: true, Witness: true}}
		change(all)
		return all
	}
	for _, c := range []struct {
		name   string
		all    []record.Member
		others []string
		want   string
	}{
		{"all well", three(func([]record.Member) {}), nil, ""},
		{"one that has not started", three(func(all []record.Member) { all[2].Started, all[2].Votes = false, false }), nil, ""},
		{"one is silent", three(func(all []record.Member) { all[2].Trouble = "connection refused" }), nil,
			"2 of 3 members answering: none more may be lost; start the others, or replace them. 10.0.0.3:2380: connection refused"},
		{"own disk hangs", three(func(all []record.Member) {
			all[0].Trouble = "its disk hangs"
			all[1].Unknown, all[2].Unknown = true, true
		}), nil,
			"0 of 3 members answering, 2 not known, and 2 are needed: nothing is written to any machine or record until they take part; start those that do not run, and see to the disks and the network of those that do. 10.0.0.1:2380: its disk hangs"},
		{"two clusters", three(func(all []record.Member) { all[2].Trouble = "silent" }), []string{"10.0.0.3:2380"},
			"a second cluster of members runs for this site, at 10.0.0.3:2380, because `slipway member init` was run twice. Make sure which has the records of today (`slipway status` on both), stop all daemons and witnesses of the other, and have their hosts replaced in the right one by `slipway member replace` (docs/members.md)"},
	} {
		got := ""
		if err := membersProblem(c.all, c.others); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
