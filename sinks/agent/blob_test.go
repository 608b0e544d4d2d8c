package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A file whose content is an artifact gets it over the connection of the step, once,
// and stays as it is where that cannot be.
func TestContentsFromArtifacts(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, realHelper))
	for name, text := range map[string]string{"passwd": "root:x:0:0::/root:/bin/sh\n", "group": "root:x:0:\n"} {
		if err := os.MkdirAll(filepath.Join(h.root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		sshdtest.Write(t, filepath.Join(h.root, "etc", name), text)
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // more than a channel's window
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	n := &site.Node{Name: "n1", System: site.System{Files: map[string]site.File{
		"/opt/tool": {Artifact: "tool", Mode: "0755"}, "/opt/same": {Artifact: "tool"},
	}}}
	n.References = (&site.Site{Artifacts: map[string]*site.Artifact{"tool": {SHA256: digest}}}).ReferencesOf(n)
	opened := 0
	from := func(open func(string) (io.ReadCloser, int64, error)) driver.Machine {
		m := h.open(t, 1)
		m.(driver.Supplied).Supply(open)
		return m
	}
	m := from(func(sha256 string) (io.ReadCloser, int64, error) {
		if opened++; sha256 != digest {
			t.Errorf("asked for %s", sha256)
		}
		return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
	})
	if s := h.see(t, m, n); plan.AsDesigned(n, site.FacetConfig, s) {
		t.Errorf("before: %+v", s)
	}
	for range 2 {
		if err := m.Apply(t.Context(), configure, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tool", "same"} {
		if got, err := os.ReadFile(filepath.Join(h.root, "opt", name)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
	}
	if s := h.see(t, m, n); opened != 2 || !plan.AsDesigned(n, site.FacetConfig, s) {
		t.Errorf("opened %d times, %+v", opened, s)
	}

	sshdtest.Write(t, filepath.Join(h.root, "opt", "tool"), "theirs")
	for says, c := range map[string]struct {
		open  func(string) (io.ReadCloser, int64, error)
		class error
	}{
		"this daemon has no artifact store": {nil, driver.ErrRefused},
		"not in the artifact store":         {func(string) (io.ReadCloser, int64, error) { return nil, 0, artifact.ErrNotFound }, driver.ErrRefused},
		"a file gets at most 1073741824":    {func(string) (io.ReadCloser, int64, error) { return io.NopCloser(nil), item.MaxArtifact + 1, nil }, driver.ErrRefused},
		"has the digest":                    {func(string) (io.ReadCloser, int64, error) { return io.NopCloser(strings.NewReader("x")), 1, nil }, nil},
		"read the content of /opt/tool: disk is broken": {func(string) (io.ReadCloser, int64, error) {
			return io.NopCloser(iotest.ErrReader(errors.New("disk is broken"))), 7, nil
		}, driver.ErrUnreachable},
	} {
		err := from(c.open).Apply(t.Context(), configure, n, nil)
		for errors.Is(err, driver.ErrBusy) { // the one before that was cut is about to end
			err = from(c.open).Apply(t.Context(), configure, n, nil)
		}
		if err == nil || !strings.Contains(err.Error(), says) || c.class != nil && !errors.Is(err, c.class) {
			t.Errorf("got %v, want %q", err, says)
		}
		if got := sshdtest.Read(t, filepath.Join(h.root, "opt", "tool")); got != "theirs" {
			t.Errorf("%s: it has %q", says, got)
		}
	}
}
