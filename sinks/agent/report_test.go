package agent

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const healthy = "--marker\n" + `{"node":"n1","generation":2,"image":"abcd"}` + "\n--boot\n0c5a-77\n\n--os\nNAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n\n--kernel\n6.1.0-13-amd64\n"

func TestParse(t *testing.T) {
	marker := site.Marker{Node: "n1", Generation: 2, Image: "abcd"}
	for name, c := range map[string]struct {
		output string
		marker bool
		unread string
		ok     bool
	}{
		"healthy":                  {healthy, true, "", true},
		"behind a greeting":        {"welcome!\n" + healthy, true, "", true},
		"no marker":                {strings.Replace(healthy, `{"node":"n1","generation":2,"image":"abcd"}`, "", 1), false, "", true},
		"one that may not be read": {strings.Replace(healthy, `{"node":"n1","generation":2,"image":"abcd"}`, wire.Unread+"\n", 1), false, "may not read", true},
		"half a marker":            {strings.Replace(healthy, `"image":"abcd"}`, "", 1), false, "JSON object", true},
		"a marker of another":      {strings.Replace(healthy, `"node":"n1",`, "", 1), false, "names no node", true},
		"marker of a wrong kind":   {strings.Replace(healthy, `2,`, `"2",`, 1), false, "JSON object", true},
		"cut off":                  {healthy[:len(healthy)-30], true, "", false},
		"a login menu":             {"Welcome to the switch. 1) ports 2) quit\n", false, "", false},
		"nothing":                  {"", false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r, ok := parse([]byte(c.output))
			if ok != c.ok || (r.marker != nil) != c.marker {
				t.Fatalf("got ok %v, marker %v", ok, r.marker)
			}
			if (r.markerUnread == "") != (c.unread == "") || !strings.Contains(r.markerUnread, c.unread) {
				t.Errorf("the marker was not read: %q, want %q", r.markerUnread, c.unread)
			}
			if r.marker != nil && *r.marker != marker {
				t.Errorf("got %+v, want %+v", *r.marker, marker)
			}
			if ok && (r.bootID != "0c5a-77" || r.release != "Debian GNU/Linux 12 (bookworm)" || r.kernel != "6.1.0-13-amd64") {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestReleaseQuoting(t *testing.T) {
	for quoted, want := range map[string]string{
		`Alpine`: "Alpine", `"A \"B\" \$C"`: `A "B" $C`, `'A "B"'`: `A "B"`, `"`: `"`, `"open`: `"open`, "\"a\x1b[31m\"": "a[31m",
	} {
		if got := parseRelease("ID=x\nPRETTY_NAME=" + quoted + "\nX=y"); got != want {
			t.Errorf("%s: got %q, want %q", quoted, got, want)
		}
	}
}

// Whatever a system prints, what is shown of it is one short printable line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(healthy))
	f.Add([]byte("--marker\n\n--boot\n\n--os\nPRETTY_NAME='\n--kernel\n\x00"))
	f.Fuzz(func(t *testing.T, output []byte) {
		r, _ := parse(output)
		shown := []string{r.bootID, r.release, r.kernel}
		if r.marker != nil {
			shown = append(shown, r.marker.Node, r.marker.Image, r.marker.Token)
			if r.marker.Node == "" || r.marker.Generation < 0 {
				t.Errorf("marker %+v makes no sense", *r.marker)
			}
		}
		for _, s := range shown {
			if s != line(s) {
				t.Errorf("%q is not fit to be shown", s)
			}
		}
	})
}
