package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A daemon installs machines, meets a broken commit, a BMC that lets it not
// in and a credential that is for other hosts. Afterwards the secrets are in
// nothing that it has said or written.
func TestSecretsAreNowhere(t *testing.T) {
	const outdated = "canary-old-77c1e9b3"
	t.Parallel()
	w := newTown(t)
	w.write("cred/outdated", "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+outdated+"\n")
	w.start()
	w.converge()
	w.commit(w.broken(), "broken")
	w.status("the broken commit is told", func(s site.Status) bool { return len(s.Problems) > 0 })
	told := w.told()
	w.commit(w.designWith("old-1", `endpoints: manager: credential: "outdated"`), "a password that is not accepted")
	w.status("the BMC lets nobody in", func(s site.Status) bool { return stateOf(s, "old-1").State == site.Stalled })
	w.commit(w.designWith("old-2", `endpoints: manager: credential: "os"`), "a credential that is for other hosts")
	w.status("nothing is sent to a wrong host", func(s site.Status) bool {
		return strings.Contains(stateOf(s, "old-2").Reason, "not for this host") && stateOf(s, "old-1").State == site.InSync
	})
	w.eventually("the status branch tells it", func() bool {
		return strings.Contains(w.git("-C", "site.git", "show", statusBranch+":README.md"), "not for this host")
	})
	told += w.told()
	w.stop()
	if n := w.fleet.Machine("old-1").Counts().Denied; n != 1 {
		t.Errorf("the wrong password was sent %d times", n)
	}

	texts := map[string]string{"the control socket": told, "the log": w.log()}
	for _, repository := range []string{"site.git", "state/repository"} {
		texts["the objects of "+repository] = w.objects(repository)
	}
	w.readAll(texts, "state")
	secrets := map[string]string{"the password": password, "the outdated password": outdated, "the key": w.key}
	for _, forms := range secretForms(secrets) {
		for where, text := range texts {
			if strings.Contains(text, forms.text) {
				t.Errorf("%s is in %s", forms.what, where)
			}
		}
	}
	w.searchFinds(texts)
}

// told is what the control socket answers.
func (w *town) told() string {
	w.t.Helper()
	report, err := w.ask.Report(context.Background(), "")
	check(w.t, err)
	memory, err := w.ask.Known(context.Background(), "")
	check(w.t, err)
	text, err := json.Marshal([]any{report, memory})
	check(w.t, err)
	return string(text) + fmt.Sprintf("%+v %+v", report, memory)
}

// objects are all that a repository holds, reachable or not.
func (w *town) objects(repository string) string {
	w.t.Helper()
	cmd := exec.Command("git", "-C", w.path("site.git"), "cat-file", "--batch-all-objects", "--batch")
	cmd.Env = append(os.Environ(), "GIT_OBJECT_DIRECTORY="+w.path(repository+"/objects"))
	out, err := cmd.Output()
	check(w.t, err)
	return string(out)
}

// readAll reads every file of a folder.
func (w *town) readAll(texts map[string]string, folder string) {
	w.t.Helper()
	check(w.t, filepath.WalkDir(w.path(folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	}))
}

// searchFinds proves that there was something to search: each place holds a
// word that is no secret.
func (w *town) searchFinds(texts map[string]string) {
	w.t.Helper()
	var files strings.Builder
	for where, text := range texts {
		if strings.HasPrefix(where, w.path("state")) {
			files.WriteString(text)
		}
	}
	for where, word := range map[string]string{
		"the control socket": "E2E1", "the log": "credential not for this host", "the objects of site.git": "not for this host",
		"the objects of state/repository": "E2E1",
	} {
		if !strings.Contains(texts[where], word) {
			w.t.Errorf("%s does not hold %q: there was nothing to search", where, word)
		}
	}
	if !strings.Contains(files.String(), "E2E1") {
		w.t.Error("the records do not hold a serial number: there was nothing to search")
	}
}

type form struct{ what, text string }

// secretForms are the secrets as they are and as they look on the wire.
func secretForms(secrets map[string]string) (forms []form) {
	for what, secret := range secrets {
		for line := range strings.Lines(secret) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "-----") {
				continue
			}
			for _, how := range []string{line, base64.StdEncoding.EncodeToString([]byte(line)),
				base64.StdEncoding.EncodeToString([]byte("admin:" + line)), fmt.Sprintf("%x", line)} {
				forms = append(forms, form{what, how})
			}
		}
	}
	return forms
}
