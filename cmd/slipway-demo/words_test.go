package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestChanges(t *testing.T) {
	const diff = `diff --git a/rack-1.cue b/rack-1.cue
index d2b3aa0..8d6c1f1 100644
--- a/rack-1.cue
+++ b/rack-1.cue
@@ -13 +13,0 @@ nodes: {
-		power: "on"
@@ -19,0 +19 @@ nodes: {
+		power: "off"
diff --git a/rack-2.cue b/rack-2.cue
deleted file mode 100644
index d2b3aa0..0000000
--- a/rack-2.cue
+++ /dev/null
@@ -1,4 +0,0 @@
-package example
-
-nodes: {
-}
diff --git a/rack-9.cue b/rack-9.cue
new file mode 100644
--- /dev/null
+++ b/rack-9.cue
@@ -0,0 +1,4 @@
+package example
+
+nodes: {
+}
`
	want := []string{
		`rack-1.cue  - power: "on"`,
		`rack-1.cue  + power: "off"`,
		`rack-2.cue  - 4 lines`,
		`rack-9.cue  + 4 lines`,
	}
	if d := cmp.Diff(want, changes(diff)); d != "" {
		t.Error(d)
	}
}

func TestDestroyed(t *testing.T) {
	const plan = "n1\n  ~ power-on\n\nThis plan destroys (set 12ab):\n  n1: everything\n\n1 to change\n"
	if d := cmp.Diff([]string{"This plan destroys (set 12ab):", "  n1: everything"}, destroyed(plan)); d != "" {
		t.Error(d)
	}
	if got := destroyed("0 to change\n"); got != nil {
		t.Errorf("nothing is destroyed, got %q", got)
	}
}

func TestOfNode(t *testing.T) {
	const plan = "Plan for site x\n\nweb-1 (UUID 12ab)\n  ~ restart\n      memory: 1 → 2\n\nweb-11\n  ~ install\n\n2 to change\n"
	if d := cmp.Diff([]string{"web-1 (UUID 12ab)", "  ~ restart", "      memory: 1 → 2"}, ofNode(plan, "web-1")); d != "" {
		t.Error(d)
	}
	if got := ofNode(plan, "web-2"); got != nil {
		t.Errorf("the plan does not have web-2, got %q", got)
	}
}

// What would fail a test ends the demo with an error, and what was begun is ended
// in reverse.
func TestRack(t *testing.T) {
	var ended []string
	r := &rack{dir: t.TempDir()}
	err := r.guarded(func() {
		for _, name := range []string{"first", "second"} {
			r.Cleanup(func() { ended = append(ended, name) })
		}
		r.Fatalf("no %s", "room")
		r.Cleanup(func() { ended = append(ended, "what was never begun") })
	})
	if err == nil || err.Error() != "no room" {
		t.Errorf("got %v", err)
	}
	r.end()
	if d := cmp.Diff([]string{"second", "first"}, ended); d != "" {
		t.Error(d)
	}
}

func TestShortened(t *testing.T) {
	lines := strings.Split("abcdefgh", "")
	if d := cmp.Diff([]string{"a", "b", "… 4 more …", "g", "h"}, shortened(lines, 2)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(lines[:5], shortened(lines[:5], 2)); d != "" {
		t.Error(d)
	}
}

func TestDescribe(t *testing.T) {
	s := site.Status{Nodes: []site.NodeStatus{
		{Name: "n1", State: site.InSync},
		{Name: "n2", State: site.Blocked, Reason: "waits"},
		{Name: "n3", State: site.Progressing, Reason: "power-on"},
	}}
	if got, want := describe(&s), "1 in-sync, 1 progressing, 1 blocked · n3 power-on"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := describe(&site.Status{}), "starting"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSetFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.cue")
	if err := os.WriteFile(file, []byte("site: {\n\tpollEvery:    \"5s\"\n\tpollEverything: 1\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := setFields(file, map[string]string{"pollEvery": `"1s"`}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := "site: {\n\tpollEvery:    \"1s\"\n\tpollEverything: 1\n}\n"; err != nil || string(got) != want {
		t.Errorf("got %q %v, want %q", got, err, want)
	}
	if err := setFields(file, map[string]string{"reportEvery": `"1s"`}); err == nil {
		t.Error("a field that is not there was set")
	}
}

func TestReadable(t *testing.T) {
	const comment = `<!-- slipway example plan -->
### Slipway plan for site <code>example</code>: 1 machine is erased

> [!CAUTION]
> **Merging this erases 1 machine.** Everything listed here is lost for good.

| machine | what is lost |
|---|---|
| **n1** | 1 disk: <code>A0</code> |

- **n1** at [rack&#45;1.cue&#58;&#8203;3](https://git.example/rack-1.cue#L3): <code>1</code> → <code>2</code>

<details><summary>How it runs: 6m</summary>

- 0s to 6m: n1

</details>

<details><summary>n1</summary>
more
</details>
`
	want := []string{"Slipway plan for site example: 1 machine is erased", "Merging this erases 1 machine. Everything listed here is lost for good.",
		"| machine | what is lost |", "| n1 | 1 disk: A0 |", "- n1 at rack-1.cue:3: 1 → 2", "▸ How it runs: 6m", "▸ n1"}
	if d := cmp.Diff(want, readable(comment)); d != "" {
		t.Error(d)
	}
}

func TestStageOf(t *testing.T) {
	for _, c := range []struct {
		n           site.NodeStatus
		text, stage string
	}{
		{site.NodeStatus{State: site.InSync, Reason: "as designed"}, "in-sync", "in-sync"},
		{site.NodeStatus{State: site.Blocked, Reason: "waits"}, "", ""},
		{site.NodeStatus{State: site.Progressing, Reason: "install: image.generation 0 → 1"}, "install", "install"},
		{site.NodeStatus{State: site.Progressing, Detail: "waits for the agent: read 43 of 259 MB of the image, 2m37s of at most 1h30m"},
			"waits for the agent: read 43 of 259 MB of the image", "waits for the agent: read of MB of the image"},
	} {
		if text, stage := stageOf(c.n); text != c.text || stage != c.stage {
			t.Errorf("%+v is %q, %q, want %q, %q", c.n, text, stage, c.text, c.stage)
		}
	}
}
