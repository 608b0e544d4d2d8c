package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// Every example that GitHub gives of a webhook is taken, and those of the events
// that we look for say where to look.
func TestExamplesOfGitHub(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(cache, "slipway", "webhooks-examples-7.6.1", "index.json"))
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skipf("run tests/github/setup.sh: %v", err)
	}
	var events []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal(raw, &events)
	}
	if err != nil || len(events) < 50 {
		t.Fatalf("%d events: %v", len(events), err)
	}
	found := map[forge.About]int{}
	for _, e := range events {
		for i, body := range e.Examples {
			var of struct {
				Repository struct {
					FullName string `json:"full_name"`
				} `json:"repository"`
			}
			_ = json.Unmarshal(body, &of) // some are of no repository
			p := newPost()
			p.repository = of.Repository.FullName
			if code := p.deliver(signed(fmt.Sprint(i), e.Name, string(body))); code != http.StatusAccepted {
				t.Errorf("%s %d is answered with %d", e.Name, i, code)
			}
			for _, h := range p.waiting() {
				found[h.About]++
				if h.About == forge.AboutAnything {
					t.Errorf("%s %d is not understood: %.200s", e.Name, i, strings.TrimSpace(string(body)))
				}
			}
		}
	}
	// Its comments are on issues, which are none of ours.
	for _, about := range []forge.About{forge.AboutBranch, forge.AboutProposal, forge.AboutCheck} {
		if found[about] == 0 {
			t.Errorf("no example is about a %s", about)
		}
	}
}
