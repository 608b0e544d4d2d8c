package engine

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// storeOf is an artifact store of which a test says how it stands.
type storeOf struct {
	Artifacts
	state artifact.State
	used  []string
}

func (s *storeOf) State(string) artifact.State { return s.state }
func (s *storeOf) Use(digest string)           { s.used = append(s.used, digest) }
func (s *storeOf) Content(string) (io.ReadCloser, int64, error) {
	return nil, 0, artifact.ErrNotFound
}

// A step that puts an artifact into a file waits until the store has it, and is what
// has it fetched. One that changes other things waits for nothing.
func TestStepsWaitForContents(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	n := &site.Node{Name: "n1", System: site.System{Files: map[string]site.File{"/opt/tool": {Artifact: "tool"}}}}
	n.References = (&site.Site{Artifacts: map[string]*site.Artifact{"tool": {URL: "https://files.example/tool", SHA256: digest}, "other": {SHA256: "0b"}}}).ReferencesOf(n)
	step := func(field string) site.Step {
		return site.Step{Facet: site.FacetConfig, Action: site.ActionConfig, Changes: []site.Change{{Field: field}}}
	}
	content, whole, mode := step("config.files./opt/tool.content"), step("config.files./opt/tool"), step("config.files./opt/tool.mode")
	for name, c := range map[string]struct {
		step  site.Step
		state artifact.State
		none  bool
		says  string
	}{
		"there":       {content, artifact.State{Ready: true}, false, ""},
		"a new file":  {whole, artifact.State{Fetching: true}, false, "artifact tool is being fetched"},
		"not there":   {content, artifact.State{Why: "the server says 404", Person: true}, false, "artifact tool could not be fetched: the server says 404"},
		"no store":    {content, artifact.State{}, true, "artifact tool cannot be sent to the machine"},
		"only a mode": {mode, artifact.State{}, false, ""},
	} {
		store := &storeOf{state: c.state}
		e := &Engine{Config: Config{Artifacts: store}, wants: make(chan struct{}, 1), waiting: map[topic]map[*worker]bool{}}
		if c.none {
			e.Artifacts = nil
		}
		w := &worker{e: e, name: "n1", node: n}
		w.plan.Steps = []site.Step{c.step}
		h := e.artifactGate(w, c.step)
		if (h == nil) != (c.says == "") || h != nil && !strings.HasPrefix(h.sentence, c.says) {
			t.Errorf("%s: got %+v, want %q", name, h, c.says)
		}
		want := artifact.File{SHA256: digest, URL: "https://files.example/tool", For: "artifact tool"}
		if files := w.filesLocked(); name != "only a mode" && (len(files) != 1 || files[0] != want) || name == "only a mode" && len(files) > 0 {
			t.Errorf("%s: it needs %+v", name, files)
		}
		if (len(store.used) == 1) != (name == "there") {
			t.Errorf("%s: %v is used", name, store.used)
		}
	}
}

// What is in a file of a machine is told as it was last seen, or as the design in force
// has it where the machine is as designed.
func TestFile(t *testing.T) {
	designed := "as designed\n"
	n := &site.Node{Name: "n1", System: site.System{Files: map[string]site.File{"/etc/motd": {Content: &designed}}}}
	e := &Engine{design: &site.Site{Nodes: map[string]*site.Node{"n1": n}}, workers: map[string]*worker{}}
	w := &worker{e: e, name: "n1", node: n}
	e.workers["n1"] = w
	state := func(content string, told map[string]item.Content) {
		w.memory.Observed.Facets = map[site.Facet]site.FacetState{site.FacetConfig: {Seen: time.Unix(1, 0), Contents: told, Have: site.Values{
			"files./etc/motd.content": item.Digest([]byte(content)), "files./etc/motd.mode": "0644",
		}}}
	}
	state(designed, nil)
	if c, err := e.File("n1", "files./etc/motd"); err != nil || c.Text != designed {
		t.Errorf("as designed: got %+v, %v", c, err)
	}
	state("other\n", map[string]item.Content{"files./etc/motd": {Text: "other\n", Bytes: 6}})
	if c, err := e.File("n1", "files./etc/motd"); err != nil || c.Text != "other\n" {
		t.Errorf("another: got %+v, %v", c, err)
	}
	if c, err := e.File("n1", "files./etc/shadow"); err != nil || c.Text != "" || c.Withheld == "" {
		t.Errorf("what is not designed: got %+v, %v", c, err)
	}
	if _, err := e.File("n9", "files./etc/motd"); err == nil {
		t.Error("a node that is not there has a file")
	}
}
