package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// A survey lists what is there, brings the helper and writes nothing else, and asks only
// the system of its node.
func TestSurvey(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, realHelper))
	for path, text := range map[string]string{
		"etc/passwd": "root:x:0:0::/root:/bin/bash\nana:x:1000:1000::/home/ana:/bin/bash\n", "etc/group": "root:x:0:\nana:x:1000:\n", "etc/shadow": "ana:$6$salt$hash:1::::::\n",
		"etc/systemd/system/own.service": "[Service]\nExecStart=/bin/true\n",
	} {
		at := filepath.Join(h.root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		sshdtest.Write(t, at, text)
	}
	before := h.files(t)
	m := h.open(t, 1)
	found, err := m.(driver.Surveyor).Survey(t.Context(), &site.Node{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if keys := item.Keys(found[site.FacetBase].Items); !slices.Equal(keys, []string{"users.ana"}) {
		t.Errorf("of base it found %q, and left %+v", keys, found[site.FacetBase].Left)
	}
	added := slices.DeleteFunc(h.files(t), func(path string) bool { return slices.Contains(before, path) })
	if len(added) != 1 || !strings.HasPrefix(added[0], inside.Folder+"/helper-") {
		t.Errorf("it has written %q", added)
	}
	sshdtest.Write(t, filepath.Join(h.root, "etc/slipway/marker.json"), `{"node":"n2","generation":1}`)
	if _, err := m.(driver.Surveyor).Survey(t.Context(), &site.Node{Name: "n1"}); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("of another node's system: got %v", err)
	}
}
