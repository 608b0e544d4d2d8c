package derived_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/derived"
)

// The passphrase of disks is what it always was: a disk is opened by it years later. It has letters
// alone, in the same place on all keyboards, and another one for each machine and generation.
func TestPassphrasesOfDisks(t *testing.T) {
	key := load(t, countingRoot())
	passphrase := func(machine string, generation int) string {
		t.Helper()
		v, err := derived.OfDisks(key, "fra", machine, generation)
		if err != nil {
			t.Fatal(err)
		}
		return v.Reveal()
	}
	first := passphrase(machine, 1)
	if want := ownPassword(countingRoot(), derived.Of{Site: "fra", Purpose: "disk encryption", Machine: machine, Epoch: 1}, derived.DiskForm()); first != want || first != knownPassphrase {
		t.Errorf("the passphrase is %s, and %s by the test's own implementation", first, want)
	}
	if len(first) != 32 || strings.Trim(first, "bcdefghijklnrtuv") != "" {
		t.Errorf("the passphrase is %q", first)
	}
	if passphrase(machine, 2) == first || passphrase("4c4c4544-0051-4810-8057-b4c04f4a4e34", 1) == first || passphrase(strings.ToUpper(machine), 1) != first {
		t.Error("others have the same passphrase, or the same machine has another one")
	}
	for name, c := range map[string]struct {
		machine    string
		generation int
		says       string
	}{
		"no UUID":       {"", 1, "is not the UUID of a machine"},
		"a placeholder": {"03000200-0400-0500-0006-000700080009", 1, "is what machines report that have no UUID"},
		"no generation": {machine, 0, "the epoch is 0"},
	} {
		if _, err := derived.OfDisks(key, "fra", c.machine, c.generation); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const knownPassphrase = "ncknneekeeebkcildgigjdehgghfitgv"
