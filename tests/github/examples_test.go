package github_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newer are fields of GitHub's description that the examples do not have yet.
var newer = []string{"user_view_type", "has_discussions", "client_id"}

// unseen is what no example happens to be of: a pull request that was edited or
// merged, a comment on a pull request.
var unseen = []string{".changes", ".pull_request.merged_by.", ".issue.pull_request", ".issue.state_reason", ".issue.timeline_url"}

// The double's webhooks have no field that GitHub's examples do not have.
func TestWebhooksLookLikeTheExamples(t *testing.T) {
	known := examples(t)
	for _, d := range sendEverything(start(t)) {
		var v any
		if err := json.Unmarshal(d.Payload(), &v); err != nil {
			t.Fatal(err)
		}
		event, _, _ := strings.Cut(d.Event(), ".")
		fields := map[string]bool{}
		paths(v, "", fields)
		for _, f := range slices.Sorted(maps.Keys(fields)) {
			isUnseen := slices.ContainsFunc(unseen, func(u string) bool { return strings.HasPrefix(f, u) })
			if !known[event][f] && !isUnseen && !slices.Contains(newer, f[strings.LastIndex(f, ".")+1:]) {
				t.Errorf("%s: %s is in no example", d.Event(), f)
			}
		}
	}
}

// examples are the fields of GitHub's examples, by event.
func examples(t *testing.T) map[string]map[string]bool {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(cache, "slipway", "webhooks-examples-7.6.1", "index.json"))
	if errors.Is(err, os.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skipf("run tests/github/setup.sh: %v", err)
	}
	var events []struct {
		Name     string
		Examples []any
	}
	if err == nil {
		err = json.Unmarshal(raw, &events)
	}
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]map[string]bool{}
	for _, e := range events {
		known[e.Name] = map[string]bool{}
		for _, x := range e.Examples {
			paths(x, "", known[e.Name])
		}
	}
	return known
}

// paths collects the names of fields, those of a list's items as if they were
// the list's own.
func paths(v any, at string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			into[at+"."+name] = true
			paths(value, at+"."+name, into)
		}
	case []any:
		for _, item := range v {
			paths(item, at, into)
		}
	}
}
