package packages

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// A snapshot by its time has the sections of the archive that the system's own sources
// have: what is in another one could not be upgraded, and might be told as gone.
func TestComponentsOfASnapshot(t *testing.T) {
	t.Parallel()
	const debian, ubuntu = "ID=debian\nVERSION_CODENAME=bookworm\n", "ID=ubuntu\nVERSION_CODENAME=noble\n"
	for what, c := range map[string]struct {
		release, file, sources, want string
	}{
		"one-line": {debian, "/etc/apt/sources.list", "deb http://deb.debian.org/debian bookworm main contrib non-free-firmware\n# deb http://deb.debian.org/debian bookworm non-free\n",
			"bookworm main contrib non-free-firmware\n"},
		"deb822": {ubuntu, "/etc/apt/sources.list.d/ubuntu.sources", "Types: deb\nURIs: http://archive.ubuntu.com/ubuntu/\nSuites: noble noble-updates\nComponents: main restricted universe multiverse\n",
			"noble-security main restricted universe multiverse\n"},
		"of another":           {debian, "/etc/apt/sources.list", "deb http://deb.debian.org/debian bookworm main\ndeb https://packages.example.com/x bookworm special\n", "bookworm-updates main\n"},
		"a section of another": {debian, "/etc/apt/sources.list", "deb http://deb.debian.org/debian stable main\ndeb https://download.example.com/box bookworm contrib\n", "bookworm main\n"},
		"a mirror":             {ubuntu, "/etc/apt/sources.list", "deb http://mirror.example.com/ubuntu noble main universe\n", "noble main universe\n"},
		"none of Ubuntu":       {ubuntu, "/etc/apt/sources.list", "", "noble main restricted universe multiverse\n"},
		"none":                 {debian, "/etc/apt/sources.list", "", "bookworm main\n"},
	} {
		root := t.TempDir()
		putFile(t, root, "/etc/os-release", c.release)
		putFile(t, root, c.file, c.sources)
		got, err := snapshotSources(&inside.Host{Root: root}, "20260101T000000Z")
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v, %q lacks %q", what, err, got, c.want)
		}
	}
}
