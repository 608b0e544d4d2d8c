package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// A whole life with everything going wrong once, then a search for the
// secrets in all that the daemon has written.
func TestSecretsAreNowhere(t *testing.T) {
	w := newTown(t)
	w.start()
	w.converge()
	w.fleet.Machine("old-1").SetFault(lab.Fault{Kind: lab.FaultHTML})
	w.fleet.Machine("old-2").SetFault(lab.Fault{Kind: lab.FaultServerError})
	good := w.design()
	w.commit(strings.Replace(good, `power: "on"`, `power: "onn"`, 1), "broken")
	w.until("the broken commit is told", func() bool { r, err := w.ask.Report(""); return err == nil && len(r.Findings) > 0 })
	// A credential that is sent elsewhere.
	w.commit(strings.Replace(good, "nodes: \"new-1\": {", "nodes: \"new-1\": {\n\tendpoints: bmc: credential: \"os\"", 1), "wrong credential")
	w.until("the refusal is told", func() bool {
		r, err := w.ask.Report("")
		return err == nil && r.Status.Counts()[site.Stalled] >= 2 && r.Status.Counts()[site.Retrying] >= 1
	})
	report, err := w.ask.Report("")
	check(t, err)
	memory, err := w.ask.Memory("")
	check(t, err)
	w.until("the status is committed", func() bool {
		return strings.Contains(w.git("-C", "site.git", "log", "-1", "--format=%s", "slipway/status/town"), "stalled")
	})
	w.stop()

	texts := map[string][]byte{"report": asJSON(t, report), "memory": asJSON(t, memory)}
	texts["log"], err = os.ReadFile(w.path("log"))
	check(t, err)
	cmd := exec.Command("git", "-C", w.path("site.git"), "cat-file", "--batch-all-objects", "--batch")
	texts["git objects"], err = cmd.Output()
	check(t, err)
	check(t, filepath.WalkDir(w.path("state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		texts[path], err = os.ReadFile(path)
		return err
	}))
	if len(texts["log"]) == 0 || len(texts["git objects"]) == 0 || len(texts) < 6 {
		t.Fatalf("there is nothing to search: %d texts", len(texts))
	}
	for what, text := range texts {
		for _, canary := range canaries(w) {
			if bytes.Contains(text, []byte(canary)) {
				t.Errorf("%s holds a secret (%.8s…)", what, canary)
			}
		}
	}
}

// canaries are the secrets and how they look on the wire.
func canaries(w *town) []string {
	body := strings.Split(w.hostKey, "\n")[2] // a line of the key itself
	return []string{
		bmcPassword, body,
		base64.StdEncoding.EncodeToString([]byte(bmcPassword)),
		base64.StdEncoding.EncodeToString([]byte("admin:" + bmcPassword)),
	}
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	check(t, err)
	return text
}

// The last good design stays in force when the repository is away, also after
// a restart.
func TestRepositoryVanishes(t *testing.T) {
	w := newTown(t)
	w.start()
	w.converge()
	check(t, os.Rename(w.path("site.git"), w.path("away.git")))
	problem := func() bool {
		r, err := w.ask.Report("")
		return err == nil && len(r.Status.Problems) > 0 && strings.Contains(r.Status.Problems[0].What, "site.git")
	}
	w.until("the problem is told", problem)
	drift := func() {
		w.fleet.Machine("old-1").SetPower("off")
		w.until("drift is repaired", func() bool { return w.fleet.Machine("old-1").Power() == "On" })
	}
	drift()
	w.stop()
	w.start()
	w.until("the problem is told after a restart", problem)
	drift()
	check(t, os.Rename(w.path("away.git"), w.path("site.git")))
	w.until("the problem is over", func() bool {
		r, err := w.ask.Report("")
		return err == nil && len(r.Status.Problems) == 0 && w.inSync()
	})
}

// A quiet site writes no status, and its own commits wake nobody.
func TestQuietSiteIsQuiet(t *testing.T) {
	w := newTown(t)
	w.start()
	w.converge()
	w.until("the status is committed", func() bool {
		return strings.Contains(w.git("-C", "site.git", "log", "-1", "--format=%s", "slipway/status/town"), "4/4 in-sync")
	})
	head := w.git("-C", "site.git", "rev-parse", "slipway/status/town")
	calls := w.fleet.CallCount()
	w.until("several looks have passed", func() bool { return w.fleet.CallCount() > calls+40 })
	if now := w.git("-C", "site.git", "rev-parse", "slipway/status/town"); now != head {
		t.Errorf("a quiet site wrote a status: %s", w.git("-C", "site.git", "show", "--stat", "slipway/status/town"))
	}
	log, err := os.ReadFile(w.path("log"))
	check(t, err)
	if n := bytes.Count(log, []byte("design accepted")); n != 1 {
		t.Errorf("the design was accepted %d times\n%s", n, log)
	}
}

// Somebody else's commit on the status branch is built upon, never forced away.
func TestRaceOnTheStatusBranch(t *testing.T) {
	w := newTown(t)
	w.start()
	w.converge()
	w.until("the status is committed", func() bool {
		return strings.Contains(w.git("-C", "site.git", "log", "-1", "--format=%s", "slipway/status/town"), "4/4 in-sync")
	})
	w.git("clone", "-q", "-b", "slipway/status/town", "site.git", "other")
	w.write("other/notes.txt", "a person's notes\n")
	w.git("-C", "other", "add", "-A")
	w.git("-C", "other", "commit", "-q", "-m", "notes")
	w.git("-C", "other", "push", "-q")
	w.fleet.Machine("old-1").SetFault(lab.Fault{Kind: lab.FaultRefuse})
	w.until("the next status is on top", func() bool {
		log := w.git("-C", "site.git", "log", "--format=%s", "slipway/status/town")
		return strings.Contains(log, "notes") && !strings.HasPrefix(log, "notes")
	})
	if files := w.git("-C", "site.git", "ls-tree", "--name-only", "slipway/status/town"); !strings.Contains(files, "notes.txt") {
		t.Errorf("the notes are gone: %s", files)
	}
}
