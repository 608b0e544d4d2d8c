package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
)

// TestConformanceOnSSHD holds the driver to its contract on a real OpenSSH
// server and a real shell.
func TestConformanceOnSSHD(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Suite{Driver: agent.New(agent.Options{}), Fresh: func(t *testing.T) drivertest.Subject { return startSSHD(t) }})
}

func TestMarkerOnSSHD(t *testing.T) {
	t.Parallel()
	sub := startSSHD(t)
	m, err := agent.New(agent.Options{}).Open(t.Context(), sub.Endpoint, sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := m.Observe(t.Context(), sub.Node, []site.Facet{site.FacetOS})
	if err != nil {
		t.Fatal(err)
	}
	if want := (site.Marker{Node: "n1", Generation: 3, Image: "abcd", Token: "5c41"}); seen.Marker == nil || *seen.Marker != want {
		t.Errorf("got marker %v, want %v", seen.Marker, want)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	have := seen.Facets[site.FacetOS].Have
	if have["bootID"] != strings.TrimSpace(string(boot)) || have["kernel"] == "" || have["release"] == "" {
		t.Errorf("got %v", have)
	}
}

// What this system tells of itself is the same at the next look.
func TestInsideOnSSHD(t *testing.T) {
	t.Parallel()
	sub := startSSHD(t)
	m, err := agent.New(agent.Options{}).Open(t.Context(), sub.Endpoint, sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	var seen [2]site.Observed
	for i := range seen {
		if seen[i], err = m.Observe(t.Context(), sub.Node, []site.Facet{site.FacetOS}); err != nil {
			t.Fatal(err)
		}
	}
	in := seen[0].Inside
	if in == nil || in.MemoryBytes == 0 || in.BootedAt.IsZero() || len(in.Mounts) == 0 {
		t.Fatalf("got %+v", in)
	}
	if size, err := json.Marshal(in); err != nil || len(size) > 32<<10 {
		t.Errorf("it is %d bytes, %v", len(size), err)
	}
	// Tests beside this one may make links and mounts.
	in.Links, in.Mounts = seen[1].Inside.Links, seen[1].Inside.Mounts
	if diff := cmp.Diff(in, seen[1].Inside); diff != "" {
		t.Error(diff)
	}
}

// A marker that is there and cannot be read is told apart from none.
func TestUnreadMarkerOnSSHD(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(t *testing.T, marker string)
		want string
	}{
		"unreadable": {func(t *testing.T, marker string) {
			if err := os.Mkdir(marker, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "may not read"},
		"cut off": {func(t *testing.T, marker string) { sshdtest.Write(t, marker, `{"node":"n1","gener`) }, "JSON object"},
		"none":    {func(*testing.T, string) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, filepath.Join(dir, "marker.json"))
			sub := startSSHDIn(t, dir)
			m, err := agent.New(agent.Options{}).Open(t.Context(), sub.Endpoint, sub.Secret)
			if err != nil {
				t.Fatal(err)
			}
			seen, err := m.Observe(t.Context(), sub.Node, []site.Facet{site.FacetOS})
			if err != nil || seen.Marker != nil {
				t.Fatalf("got marker %v, %v", seen.Marker, err)
			}
			if (seen.MarkerUnread == "") != (c.want == "") || !strings.Contains(seen.MarkerUnread, c.want) {
				t.Errorf("the marker was not read: %q, want %q", seen.MarkerUnread, c.want)
			}
		})
	}
}

// startSSHD has a system with a marker.
func startSSHD(t *testing.T) drivertest.Subject {
	t.Helper()
	dir := t.TempDir()
	sshdtest.Write(t, filepath.Join(dir, "marker.json"), `{"node":"n1","generation":3,"image":"abcd","token":"5c41"}`)
	return startSSHDIn(t, dir)
}

// startSSHDIn serves a system whose marker is in the folder.
func startSSHDIn(t *testing.T, dir string) drivertest.Subject {
	t.Helper()
	hostKey := sshdtest.Key(t, filepath.Join(dir, "host"), "ed25519")
	userKey := sshdtest.Key(t, filepath.Join(dir, "user"), "ed25519")
	sshdtest.Write(t, filepath.Join(dir, "authorized"), userKey)
	address := sshdtest.Serve(t, fmt.Sprintf(`
HostKey %[1]s/host
AuthorizedKeysFile %[1]s/authorized
ForceCommand sh -c "$(printf %%s "$SSH_ORIGINAL_COMMAND" | sed s,/etc/slipway/,%[1]s/,g)"
`, dir))
	return drivertest.Subject{
		Endpoint: site.Endpoint{URL: "ssh://" + address, Trust: site.Trust{HostKeys: []string{hostKey}}},
		Secret:   secret.New(sshdtest.Account(t), sshdtest.Read(t, filepath.Join(dir, "user"))), Node: &site.Node{Name: "n1"},
		Counts: func() drivertest.Counts { return drivertest.Counts{} },
	}
}
