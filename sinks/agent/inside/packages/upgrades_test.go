package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// What upgrades ask of the machine is known before they are made, as far as the system shows it.
func TestWhatUpgradesAskOfTheMachine(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	for _, name := range []string{"dbus", "libssl3", "libunused", "linux-image-6.1.0-21-amd64", "linux-image-amd64"} {
		m.have[name] = "install ok installed 1"
	}
	m.save()
	for file, text := range map[string]string{
		"/proc/sys/kernel/osrelease":                         "6.1.0-21-amd64\n",
		"/proc/42/maps":                                      "7f00-7f01 r-xp 00000000 fe:00 42 /usr/lib/x86_64-linux-gnu/libssl.so.3\n7f00-7f01 rw-p 00000000 00:00 0 \n",
		"/var/lib/dpkg/info/dbus.postinst":                   "#!/bin/sh\n/usr/share/update-notifier/notify-reboot-required\n",
		"/usr/share/update-notifier/notify-reboot-required":  "#!/bin/sh\n",
		"/var/lib/dpkg/info/libssl3.list":                    "/.\n/lib/x86_64-linux-gnu/libssl.so.3\n",
		"/var/lib/dpkg/info/libunused.list":                  "/.\n/lib/x86_64-linux-gnu/libunused.so.1\n",
		"/var/lib/dpkg/info/linux-image-6.1.0-21-amd64.list": "/.\n",
	} {
		putFile(t, m.root, file, text)
	}
	if err := os.Symlink(m.root, filepath.Join(m.root, "proc/42/root")); err != nil {
		t.Fatal(err)
	}
	h := m.host()
	h.Live = true
	inv, err := apt{}.inventory(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	found := []effect{
		{name: "dbus", from: "1", to: "2"}, {name: "libssl3:amd64", from: "1", to: "2", security: true}, {name: "libunused", from: "1", to: "2"}, {name: "linux-image-amd64", from: "1", to: "2"},
		{name: "linux-image-6.1.0-21-amd64", from: "1", to: "2"}, {name: "linux-image-6.1.0-22-amd64", to: "1"}, {name: "linux-image-6.1.0-22-cloud-amd64", to: "1"}, {name: "linux-image-6.1.0-9-amd64", to: "1"},
	}
	want := []item.Upgrade{
		{Name: "dbus", From: "1", To: "2", Restart: item.RestartPossible}, {Name: "libssl3", From: "1", To: "2", Security: true, Restart: item.RestartLibraries}, {Name: "libunused", From: "1", To: "2"},
		{Name: "linux-image-6.1.0-21-amd64", From: "1", To: "2", Restart: item.RestartNeeded}, {Name: "linux-image-6.1.0-22-amd64", To: "1", Restart: item.RestartNeeded},
		{Name: "linux-image-6.1.0-22-cloud-amd64", To: "1"}, {Name: "linux-image-6.1.0-9-amd64", To: "1"}, {Name: "linux-image-amd64", From: "1", To: "2"},
	}
	if got := missingUpgrades(t.Context(), h, apt{}, inv, found); !slices.Equal(got.Packages, want) {
		t.Errorf("got  %+v\nwant %+v", got.Packages, want)
	}
	if got := open(found, item.Patch{Level: item.PatchAll}); slices.Contains(got, "linux-image-6.1.0-22-amd64") {
		t.Errorf("what comes with others is missing by itself: %q", got)
	}
	h.Live = false // in a system that is being installed nothing runs
	if got := missingUpgrades(t.Context(), h, apt{}, inv, found); slices.ContainsFunc(got.Packages, func(u item.Upgrade) bool { return u.Restart != "" }) {
		t.Errorf("of a system that does not run: %+v", got.Packages)
	}
}

// Of the RHEL family the packages after which it is booted again are a list, and rpm knows whose
// the libraries are.
func TestWhatUpgradesAskOfRHEL(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	putFile(t, root, "/proc/42/maps", "7f00-7f01 r-xp 00000000 fe:00 42 /usr/lib64/libz.so.1\n")
	if err := os.Symlink(root, filepath.Join(root, "proc/42/root")); err != nil {
		t.Fatal(err)
	}
	var asked []string
	h := &inside.Host{Root: root, Live: true, Exec: func(_ context.Context, c inside.Command) (inside.Output, error) {
		asked = append(asked, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{Out: []byte("zlib\nother\nfile /usr/lib64/x.so is not owned by any package\n"), Code: 1}, nil
	}}
	inv := inventory{byName: map[string]installed{"zlib": {Version: "1"}, "kernel-core": {Version: "1"}, "bash": {Version: "1"}}}
	got := missingUpgrades(t.Context(), h, dnf{}, inv, []effect{{name: "zlib", from: "1", to: "2"}, {name: "kernel-core", from: "1", to: "2"}, {name: "bash", from: "1", to: "2"}})
	want := []item.Upgrade{{Name: "bash", From: "1", To: "2"}, {Name: "kernel-core", From: "1", To: "2", Restart: item.RestartNeeded}, {Name: "zlib", From: "1", To: "2", Restart: item.RestartLibraries}}
	if !slices.Equal(got.Packages, want) || len(asked) != 1 || !strings.HasSuffix(asked[0], " /usr/lib64/libz.so.1") {
		t.Errorf("%+v after %q", got.Packages, asked)
	}
}

// What a machine tells of upgrades is bounded, and what asks for a restart is told first.
func TestUpgradesAreBounded(t *testing.T) {
	t.Parallel()
	var all []item.Upgrade
	for i := range item.MaxUpgrades + 5 {
		all = append(all, item.Upgrade{Name: fmt.Sprintf("p%05d", i), To: "1"})
	}
	all[len(all)-1].Restart = item.RestartNeeded
	got := bounded(all)
	if len(got.Packages) != item.MaxUpgrades || got.More != 5 || got.Packages[item.MaxUpgrades-1].Restart == "" {
		t.Errorf("%d packages and %d more, the last %+v", len(got.Packages), got.More, got.Packages[len(got.Packages)-1])
	}
	if got := bounded(all[:2]); !reflect.DeepEqual(got, &item.Upgrades{Packages: all[:2]}) {
		t.Errorf("of two: %+v", got)
	}
}

// The package of the kernel that runs may be replaced by another build of the same name.
func TestAKernelThatWasReplaced(t *testing.T) {
	t.Parallel()
	for since, want := range map[time.Duration]string{-time.Hour: "", time.Hour: "reboot"} {
		m := newModel(t)
		boot := time.Now().Add(-24 * time.Hour)
		putFile(t, m.root, "/proc/sys/kernel/osrelease", "6.1.0-21-amd64\n")
		putFile(t, m.root, "/proc/stat", fmt.Sprintf("cpu 1\nbtime %d\n", boot.Unix()))
		const list = "/var/lib/dpkg/info/linux-image-6.1.0-21-amd64.list"
		putFile(t, m.root, list, "/.\n")
		if err := os.Chtimes(m.root+list, time.Time{}, boot.Add(since)); err != nil {
			t.Fatal(err)
		}
		h := m.host()
		h.Live = true
		if got := rebootReason(h, inventory{}); got != want {
			t.Errorf("unpacked %s after the boot: %q, want %q", since, got, want)
		}
	}
}

// Lists of packages from a time to come tell as little as old ones: nobody knows whether upgrades
// are missing.
func TestListsOfAnotherTime(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]string{
		-10 * time.Minute:     "",
		24 * time.Hour:        "",
		8 * 24 * time.Hour:    "the lists of packages are older than 7 days",
		-365 * 24 * time.Hour: "correct the clock",
	} {
		m := newModel(t)
		at := filepath.Join(m.root, aptLists)
		if err := errors.Join(os.MkdirAll(at, 0o755), os.Chtimes(at, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
		h := m.host()
		if got := listsDoubt(h, apt{}); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s old: %q, want %q", age, got, want)
		}
		made := []byte(`{"level":"security","stamp":"` + (apt{}).stamp(h) + `"}`)
		if err := errors.Join(h.Owned.Take(facetName, item.KindPatch, nil), h.Owned.Note(facetName, item.KindPatch, made)); err != nil {
			t.Fatal(err)
		}
		seen, err := New().Observe(t.Context(), h, []string{item.KindPatch})
		if got := seen.Have["patch.level"]; err != nil || (want == "") != (got == "security") || !strings.Contains(got, want) {
			t.Errorf("%s old: the level is %q, %v", age, got, err)
		}
	}
}

func TestListsThatAreNotValidNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2035, 1, 2, 3, 4, 0, 0, time.UTC)
	for line, want := range map[string]string{
		"Release file for http://a/InRelease is expired (invalid since 3d).":              "it is 2035-01-02 03:04 UTC. If that is wrong, correct the clock",
		"Release file for http://a/InRelease is not valid yet (invalid for another 12h).": "it is 2035-01-02 03:04 UTC. If that is wrong, correct the clock",
		"Failed to fetch http://a/InRelease":                                              "Failed to fetch http://a/InRelease",
	} {
		if got := withClock(line, now); !strings.Contains(got, want) || !strings.HasPrefix(got, line) {
			t.Errorf("%q", got)
		}
	}
}

func TestWhatPipWouldInstall(t *testing.T) {
	t.Parallel()
	got := wouldInstall([]byte("Looking in indexes: x\nCollecting a\nWould install Two_Words-1.0 a-2.0.post1 odd\n"))
	if want := map[string]string{"two-words": "1.0", "a": "2.0.post1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
