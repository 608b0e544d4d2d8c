package agent

import (
	"io"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// A machine gets the artifacts that its design names and no others, and nothing for
// which it has no room.
func TestWants(t *testing.T) {
	m := &machine{}
	m.Supply(func(string) (io.ReadCloser, int64, error) { return io.NopCloser(strings.NewReader("content")), 7, nil })
	body := item.File{Artifact: "0a"}
	items := []item.Item{item.New("files./a", body.Fields(), body), item.New("sysctl.b", map[string]string{"": "1"}, nil)}
	for want, says := range map[wire.Want]string{
		{SHA256: "0a", Room: 7, For: "/a"}:        "",
		{SHA256: "0a", Room: 6, For: "/a\x1b[2J"}: `has 7 bytes, and there is room for 6`,
		{SHA256: "0b", Room: 7, For: "/a"}:        "no file of the design has this content",
		{Room: 7, For: "/a"}:                      "no file of the design has this content",
	} {
		content, b := m.blobs(items)(want)
		if (content != nil) != (says == "") || !strings.Contains(b.Refused, says) || strings.Contains(b.Refused, "\x1b") {
			t.Errorf("%+v: got %+v", want, b)
		}
	}
}
