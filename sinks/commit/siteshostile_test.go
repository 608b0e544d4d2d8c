package commit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/site"
)

const ofEvil = `{"kind": "slipway/status/v1", "site": "evil"}`

// evil makes the status branch of a site "evil" of a tree that git has made.
func evil(g *repotest.Repo, tree string) {
	id := g.Git("commit-tree", "-m", "x", tree)
	g.Git("update-ref", "refs/heads/"+statusBranches+"evil", id)
}

// folder is a folder of entries "MODE TYPE ID NAME".
func folder(g *repotest.Repo, entries ...string) string {
	var b strings.Builder
	for _, e := range entries {
		at := strings.LastIndex(e, " ")
		b.WriteString(e[:at] + "\t" + e[at+1:] + "\n")
	}
	return g.GitInput(b.String(), "mktree")
}

func blob(g *repotest.Repo, text string) string {
	return g.GitInput(text, "hash-object", "-w", "--stdin")
}

// A few objects can be more files than anybody can count, and folders as deep as there are objects.
func TestFoldersWithoutEnd(t *testing.T) {
	g := repotest.InitBare(t)
	summary := "100644 blob " + blob(g, ofEvil) + " " + summaryFile
	bomb := folder(g, "100644 blob "+blob(g, "x")+" x")
	for range 12 {
		var same []string
		for i := range 30 {
			same = append(same, fmt.Sprintf("040000 tree %s d%02d", bomb, i))
		}
		bomb = folder(g, same...)
	}
	evil(g, folder(g, summary, "040000 tree "+bomb+" "+nodesFolder))
	s := onlooker(t, g)
	if is := look(t, s)["evil"]; is.Err == nil && len(is.Status.Nodes) != 0 {
		t.Errorf("%+v", is)
	}
}

// One node is one file, also when its content has been read before.
func TestTheSameNodeTwice(t *testing.T) {
	g := repotest.InitBare(t)
	s := onlooker(t, g)
	node := `{"name": "n1", "state": "in-sync"}`
	commitFiles(t, g, statusBranches+"evil", map[string]string{summaryFile: ofEvil, nodeFile("n1"): node})
	if is := look(t, s)["evil"]; is.Err != nil || len(is.Status.Nodes) != 1 {
		t.Fatalf("%+v", is)
	}
	commitFiles(t, g, statusBranches+"evil", map[string]string{nodeFile("n2"): node})
	if is := look(t, s)["evil"]; is.Err == nil || len(is.Status.Nodes) != 1 {
		t.Errorf("%v: %d nodes", is.Err, len(is.Status.Nodes))
	}
	file := blob(g, node)
	at := strings.Split(nodeFile("n1"), "/")
	twice := folder(g, "100644 blob "+file+" "+at[3], "100644 blob "+file+" "+at[3])
	evil(g, folder(g, "100644 blob "+blob(g, ofEvil)+" "+summaryFile, "040000 tree "+folder(g, "040000 tree "+folder(g, "040000 tree "+twice+" "+at[2])+" "+at[1])+" "+nodesFolder))
	if is := look(t, onlooker(t, g))["evil"]; is.Err == nil {
		t.Errorf("a folder with a name twice: %d nodes", len(is.Status.Nodes))
	}
}

// Values that no daemon of this version writes are not made into others.
func TestStrangeValues(t *testing.T) {
	g := repotest.InitBare(t)
	files := map[string]string{
		summaryFile:    `{"kind": "slipway/status/v1", "site": "evil", "problems": [null, {"what": null}], "waiting": [null], "rollout": {"failed": null}, "ledger": [null], "swept": null}`,
		nodeFile("n1"): `{"name": "n1", "state": "hibernating", "generation": 9007199254740993, "sealed": null, "login": null, "findings": [null], "notes": null}`,
		nodeFile("n2"): `{"name": "n2"}`,
		nodeFile("n3"): `{"name": "n3", "state": "in-sync", "sealed": {}, "paused": {}, "erased": {}, "hostCertificates": {}, "passwords": [null]}`,
	}
	commitFiles(t, g, statusBranches+"evil", files)
	is := look(t, onlooker(t, g))["evil"]
	if is.Err != nil || len(is.Status.Nodes) != 3 {
		t.Fatalf("%+v", is)
	}
	if got := is.Status.InWords(); got != "1/3 in-sync, 2 unknown" {
		t.Errorf("states that are none: %s", got)
	}
	if n := is.Status.Nodes[0].Generation; n != 9007199254740993 {
		t.Errorf("generation %d", n)
	}
	for name, node := range map[string]string{"null": "null", "list": "[]", "number": `{"name": "n1", "generation": 1e400}`, "type": `{"name": "n1", "generation": "1"}`,
		"deep": strings.Repeat("[", 400_000), "nul": "\x00", "two": `{"name": "n1"}{"name": "n1"}`} {
		commitFiles(t, g, statusBranches+"evil", map[string]string{nodeFile("n1"): node})
		if is := look(t, onlooker(t, g))["evil"]; is.Err == nil {
			t.Errorf("%s: %+v", name, is.Status.Nodes)
		}
	}
}

// A link leads nowhere, and a time that cannot be written as JSON spoils no output.
func TestStrangeObjects(t *testing.T) {
	g := repotest.InitBare(t)
	summary := "100644 blob " + blob(g, ofEvil) + " " + summaryFile
	for name, tree := range map[string]string{
		"link as a summary": folder(g, "120000 blob "+blob(g, "/etc/passwd")+" "+summaryFile),
		"module":            folder(g, "160000 commit "+strings.Repeat("1", 40)+" "+summaryFile),
		"folder":            folder(g, "040000 tree "+folder(g, summary)+" "+summaryFile),
		"link as nodes":     folder(g, summary, "120000 blob "+blob(g, "/etc")+" "+nodesFolder),
	} {
		evil(g, tree)
		if is := look(t, onlooker(t, g))["evil"]; is.Err == nil {
			t.Errorf("%s: %+v", name, is)
		}
	}
	tree := folder(g, summary)
	for _, when := range []string{"-62135596800 +0000", "999999999999999 +0000", "-1 +0000", "1700000000 +9900", "0 -9900", "x"} {
		text := fmt.Sprintf("tree %s\nauthor a <a> %s\ncommitter a <a> %s\n\nx\n", tree, when, when)
		id := g.GitInput(text, "hash-object", "-w", "--literally", "-t", "commit", "--stdin")
		g.Git("update-ref", "refs/heads/"+statusBranches+"evil", id)
		is := look(t, onlooker(t, g))["evil"]
		if _, err := json.Marshal(is.News); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if is.Err == nil && is.News.Changed.IsZero() {
			t.Errorf("%s: neither a time nor an error", when)
		}
	}
}

// What is read late, because the repository could not be reached before, is as old as it may be.
func TestNewsThatIsReadLate(t *testing.T) {
	g := repotest.InitBare(t)
	r, s := reporter(t, g), onlooker(t, g)
	clock := since
	s.now = func() time.Time { return clock }
	report(t, r, healthy(1))
	look(t, s)
	live := func(at time.Time) {
		t.Helper()
		if err := r.Alive(t.Context(), site.SignOfLife{Site: "lab", At: at, Every: site.Duration(10 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		name     string
		at, want time.Duration
	}{
		{"between the looks, by its clock", 5 * time.Minute, 5 * time.Minute},
		{"its clock is behind", -time.Hour, 0},
		{"its clock is ahead", 48 * time.Hour, 0},
	} {
		before := clock
		live(before.Add(x.at))
		clock = before.Add(5 * time.Hour) // nothing was read since
		if is := look(t, s)["lab"]; !is.News.Heard.Equal(before.Add(x.want)) {
			t.Errorf("%s: heard %s after the look before, want %s", x.name, is.News.Heard.Sub(before), x.want)
		}
	}
	// A site that cannot be read at first was not written since.
	late := onlooker(t, g)
	late.now = s.now
	id := g.Git("rev-parse", branch+":"+summaryFile)
	file := filepath.Join(g.Dir, "objects", id[:2], id[2:])
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(file, file+".away")
	if is := look(t, late)["lab"]; is.Err == nil {
		t.Fatal("it is read")
	}
	move(file+".away", file)
	clock = clock.Add(time.Hour)
	if is := look(t, late)["lab"]; is.Err != nil || !is.News.Heard.IsZero() {
		t.Errorf("%v: heard %v", is.Err, is.News.Heard)
	}
}

// What cannot be read is not read again at each look.
func TestBrokenBranchIsNotReadEachTime(t *testing.T) {
	g := repotest.InitBare(t)
	s := onlooker(t, g)
	clock := since
	s.now = func() time.Time { return clock }
	commitFiles(t, g, statusBranches+"evil", map[string]string{summaryFile: "{"})
	first := look(t, s)["evil"].Err
	for range 10 {
		clock = clock.Add(time.Second / 10)
		if again := look(t, s)["evil"].Err; first == nil || errors.Unwrap(again) != errors.Unwrap(first) {
			t.Fatalf("read again after %s: %v", clock.Sub(since), again)
		}
	}
	clock = clock.Add(time.Hour)
	if again := look(t, s)["evil"].Err; again == nil || errors.Unwrap(again) == errors.Unwrap(first) {
		t.Errorf("not tried again after an hour: %v", again)
	}
	commitFiles(t, g, statusBranches+"evil", map[string]string{summaryFile: ofEvil})
	if is := look(t, s)["evil"]; is.Err != nil {
		t.Error(is.Err)
	}
}

// The status branch lists the first losses, and says how many there are.
func TestCountOfLosses(t *testing.T) {
	g := repotest.InitBare(t)
	rep := healthy(3)
	for i := range 3 * mostWaiting {
		rep.Status.Waiting = append(rep.Status.Waiting, site.Loss{Node: fmt.Sprintf("n%04d", i)})
	}
	report(t, reporter(t, g), rep)
	if is := look(t, onlooker(t, g))["lab"]; is.Losses != 3*mostWaiting {
		t.Errorf("%d losses", is.Losses)
	}
}
