package libvirt

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
)

func seedOf(user string) driver.Seed {
	return driver.Seed{
		MetaData:      secret.New("", "instance-id: x\n"),
		UserData:      secret.New("", user),
		NetworkConfig: secret.New("", "version: 2\n"),
	}
}

func TestSeedMedium(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, user := range []string{"", "#cloud-config\n", strings.Repeat("# a long one\n", 3000)} {
		iso, err := seedISO(seedOf(user))
		if err != nil {
			t.Fatal(err)
		}
		disc, err := iso9660.Read(&inMemory{content: iso}, int64(len(iso)), 0, 2048)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimRight(disc.Label(), " \x00"); got != "cidata" {
			t.Errorf("the label is %q", got)
		}
		for name, want := range map[string]string{"meta-data": "instance-id: x\n", "user-data": user, "network-config": "version: 2\n"} {
			f, err := disc.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			if err != nil || strings.TrimRight(string(got), "\n") != strings.TrimRight(want, "\n") {
				t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
			}
		}
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
			t.Errorf("left on the disk: %v, %v", left, err)
		}
	}
}

func TestSeedTooLarge(t *testing.T) {
	const secretText = "s3cret"
	_, err := seedISO(seedOf(strings.Repeat(secretText, mostSeed)))
	if err == nil || strings.Contains(err.Error(), secretText) {
		t.Errorf("got %.200v", err)
	}
}

func TestBlankFilesAreTold(t *testing.T) {
	if bytes.Equal(blankFile("user-data"), blankFile("meta-data")) || len(blankFile("user-data")) != 64 {
		t.Error("the files of the layout cannot be told apart")
	}
}
