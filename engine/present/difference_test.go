package present_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// overSSH are the endpoints of a node whose system is looked at.
var overSSH = map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://192.0.2.1"}}

// withFile is a site of two nodes with one file, what is known of the file on both,
// and the plan.
func withFile(f site.File, have site.Values, content item.Content) (*site.Plan, present.View) {
	s := &site.Site{Name: "test", Nodes: map[string]*site.Node{}}
	known := site.Known{Nodes: map[string]site.Memory{}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetConfig: true}}
	for _, name := range []string{"n1", "n2"} {
		s.Nodes[name] = &site.Node{Name: name, Endpoints: overSSH, Identity: site.Identity{UUID: name}, Power: "on", System: site.System{Files: map[string]site.File{"/etc/motd": f}}}
		state := site.FacetState{Have: have, Seen: now}
		if len(have) == 0 {
			state.Absent = []string{"files./etc/motd"}
		}
		if content != (item.Content{}) {
			state.Contents = map[string]item.Content{"files./etc/motd": content}
		}
		known.Nodes[name] = site.Memory{Observed: site.Observed{Identity: s.Nodes[name].Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now}, site.FacetConfig: state,
		}}}
	}
	p := plan.Site(s, "abc", known)
	return &p, present.View{Site: s, Known: known, Now: now}
}

func fileOf(content string) site.File { return site.File{Content: &content} }

// there is what is seen of a file with a content.
func there(content, mode string) site.Values {
	return site.Values{"files./etc/motd.content": item.Digest([]byte(content)), "files./etc/motd.mode": mode, "files./etc/motd.owner": "root:root", "files./etc/motd.state": "present"}
}

// A file's difference is shown as a diff, or it is said why not, and nothing of what
// not everybody may read.
func TestDifferences(t *testing.T) {
	const was, is = "one\ntwo\nthree\n", "one\n2\nthree\n"
	long := strings.Repeat("line\n", item.MaxShown/4)
	for name, c := range map[string]struct {
		file    site.File
		have    site.Values
		content item.Content
		text    string
		why     string
	}{
		"a line":          {fileOf(is), there(was, "0644"), item.Content{Text: was, Bytes: 14}, "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n", ""},
		"a new file":      {fileOf("x\n"), nil, item.Content{}, "@@ -0,0 +1,1 @@\n+x\n", ""},
		"no last newline": {fileOf("x"), there("x\n", "0644"), item.Content{Text: "x\n", Bytes: 2}, "@@ -1,1 +1,1 @@\n-x\n+x\n\\ No newline at end of file\n", ""},
		"an escape":       {fileOf("x\n"), there("\x1b[2Jx\r\n", "0644"), item.Content{Text: "\x1b[2Jx\r\n", Bytes: 7}, "@@ -1,1 +1,1 @@\n-\\u001b[2Jx\\r\n+x\n", ""},
		"not read":        {fileOf(is), there(was, "0644"), item.Content{}, "", "on the machine: Slipway has not read it yet"},
		"read before":     {fileOf(is), there(was, "0644"), item.Content{Text: "older\n", Bytes: 6}, "", "on the machine: Slipway has not read it yet"},
		"withheld":        {fileOf(is), there(was, "0644"), item.Content{Withheld: item.NotPublic, Bytes: 14}, "", "on the machine: not everybody on the machine may read it"},
		"private there":   {fileOf(is), there(was, "0600"), item.Content{}, "", "on the machine: not everybody on the machine may read it"},
		"private design":  {site.File{Content: ptr(is), Mode: "0640"}, there(was, "0644"), item.Content{Text: was, Bytes: 14}, "", "as designed, not everybody on the machine may read it"},
		"binary":          {fileOf("a\x00b"), there(was, "0644"), item.Content{Text: was, Bytes: 14}, "", "as designed, it is not text"},
		"large":           {fileOf(long), there(was, "0644"), item.Content{Text: was, Bytes: 14}, "", "as designed, it has 20480 bytes, more than the 16384 that are shown"},
		"a secret":        {fileOf(is), there("password = calvin-7\n", "0644"), item.Content{Text: "password = calvin-7\n", Bytes: 20}, "", "[redacted]: it holds what looks like a password or token (password)"},
		"a credential":    {site.File{Credential: "app"}, there(was, "0600"), item.Content{}, "", "[redacted] on the machine, [redacted] as designed: the secret differs"},
		"a new secret":    {site.File{Credential: "app"}, nil, item.Content{}, "", "[redacted]: it is the value of a credential"},
		"a link":          {fileOf(is), site.Values{"files./etc/motd.content": "a link to /run/motd", "files./etc/motd.state": "present"}, item.Content{}, "", "on the machine: there is a link to /run/motd in its place"},
	} {
		t.Run(name, func(t *testing.T) {
			p, v := withFile(c.file, c.have, c.content)
			all := present.Differences(p, v)
			if len(all) != 1 || len(all[0].Nodes) != 2 || all[0].Path != "/etc/motd" || all[0].Text != c.text || all[0].Why != c.why {
				t.Fatalf("got %+v", all)
			}
			var text, comment bytes.Buffer
			present.Text(&text, p, v)
			present.Comment(&comment, proposed(*p), v)
			for _, shown := range []string{text.String(), comment.String()} {
				if secret := "calvin-7"; strings.Contains(shown, secret) || c.why != "" && (strings.Contains(shown, "-two") || strings.Contains(shown, "+2\n")) {
					t.Errorf("shows what it may not:\n%s", shown)
				}
			}
			if first, _, _ := strings.Cut(c.text, "\n"); c.text != "" && (!strings.Contains(text.String(), "          "+first+"\n") ||
				!strings.Contains(comment.String(), "<details><summary>Difference of <code>/etc/motd</code> on 2 machines</summary>\n\n```diff\n"+c.text+"```\n\n</details>")) {
				t.Errorf("got\n%s\n%s", text.String(), comment.String())
			}
		})
	}
}

func ptr(s string) *string { return &s }

// A file that is as designed in force has the content that is designed there, which
// nobody needs to read from the machine.
func TestDifferenceFromTheDesignInForce(t *testing.T) {
	p, v := withFile(fileOf("new\n"), there("old\n", "0644"), item.Content{})
	_, before := withFile(fileOf("old\n"), nil, item.Content{})
	v.Before = before.Site
	if all := present.Differences(p, v); len(all) != 1 || all[0].Text != "@@ -1,1 +1,1 @@\n-old\n+new\n" {
		t.Errorf("got %+v", all)
	}
	v.Before = nil
	if all := present.Differences(p, v); len(all) != 1 || all[0].Text != "" || all[0].Why != "on the machine: Slipway has not read it yet" {
		t.Errorf("without it: got %+v", all)
	}
}

// Differences give way to all else in a comment, and whoever reads it is told.
func TestDifferencesFitTheComment(t *testing.T) {
	var content strings.Builder
	for i := range 400 {
		content.WriteString(strings.Repeat("x", 1+i%30) + "\n")
	}
	f := fileOf(content.String())
	p, v := withFile(f, nil, item.Content{})
	for i := range 30 {
		path := "/etc/f" + strings.Repeat("x", i)
		for _, n := range v.Site.Nodes {
			n.System.Files[path] = f
		}
		for name, m := range v.Known.Nodes {
			state := m.Observed.Facets[site.FacetConfig]
			state.Absent = append(state.Absent, "files."+path)
			v.Known.Nodes[name].Observed.Facets[site.FacetConfig] = state
		}
	}
	*p = plan.Site(v.Site, "abc", v.Known)
	var b bytes.Buffer
	if whole := present.Comment(&b, proposed(*p), v); !whole || b.Len() > 60_000 {
		t.Errorf("%d bytes, whole %t", b.Len(), whole)
	}
	text := b.String()
	if !strings.Contains(text, "… 201 more lines\n```\n") || !strings.Contains(text, " differences of files. ") || strings.Count(text, "<details>") != strings.Count(text, "</details>") {
		t.Errorf("got\n%s", text)
	}
	if !strings.Contains(text, "config.files./etc/fx") {
		t.Error("the details of the change gave way")
	}
}

// Nothing in a file ends the block that shows it.
func TestFencesHold(t *testing.T) {
	p, v := withFile(fileOf("````\n# heading @somebody\n"), nil, item.Content{})
	var b bytes.Buffer
	present.Comment(&b, proposed(*p), v)
	if !strings.Contains(b.String(), "\n`````diff\n@@ -0,0 +1,2 @@\n+````\n+# heading @somebody\n`````\n") {
		t.Errorf("got\n%s", b.String())
	}
}

// Contents of files are in no record and no status: what is seen of a facet is
// written without them.
func TestContentsAreNotWritten(t *testing.T) {
	seen := site.FacetState{Seen: time.Unix(1, 0), Contents: map[string]item.Content{"files./etc/motd": {Text: "hello"}}}
	if text, err := json.Marshal(seen); err != nil || bytes.Contains(text, []byte("hello")) {
		t.Errorf("%s %v", text, err)
	}
}
