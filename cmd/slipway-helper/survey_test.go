package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// A survey of a real Debian lists what was set there, writes nothing, and says of each
// item what a look says of it.
func TestProveSurveyOfADebian(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("unpacks a whole system: set SLIPWAY_PROVE")
	}
	nspawn.Require(t, "chroot")
	root, program := nspawn.Unpack(t), build(t, runtime.GOARCH)
	for _, words := range []string{
		"useradd --create-home --uid 1000 --groups adm --shell /bin/bash ana", "apt-mark hold git", "systemctl mask e2scrub_reap.service", "systemctl disable fstrim.timer",
		"echo vm.swappiness = 17 >/etc/sysctl.d/50-mine.conf", `printf '[Service]\nExecStart=/bin/sleep 1\n' >/etc/systemd/system/mine.service`,
	} {
		if out, err := exec.Command("chroot", root, "sh", "-ec", words).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", words, err, out)
		}
	}
	before := files(t, root)
	facets := []string{"base", "network", "packages", "config", "kernel"}
	told := ask(t, program, root, wire.Request{Version: wire.Version, Op: wire.OpSurvey, Survey: facets})
	keys, want := map[string][]string{}, map[string]string{}
	var all map[string]item.Found
	if err := json.Unmarshal(told.Found, &all); err != nil {
		t.Fatal(err)
	}
	for facet, found := range all {
		keys[facet] = item.Keys(found.Items)
		for name, v := range item.Values(found.Items) {
			want[facet+" "+name] = v
		}
	}
	have := map[string]string{}
	for facet, seen := range ask(t, program, root, wire.Request{Version: wire.Version, Op: wire.OpObserve, Observe: keys}).Facets {
		for name, v := range seen.Have {
			if _, asked := want[facet+" "+name]; asked {
				have[facet+" "+name] = v
			}
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"base users.ana.uid", "packages packages.git.state", "packages packages.openssh-server.state", "config sysctl.vm.swappiness",
		"config units.e2scrub_reap.service.state", "config units.fstrim.timer.enabled", "config units.mine.service.content"} {
		if want[name] == "" {
			t.Errorf("it did not find %s in %v", name, want)
		}
	}
	if _, base := want["packages packages.libc6.state"]; base {
		t.Error("it tells of what every Debian has")
	}
	if after := files(t, root); !slices.Equal(after, before) {
		t.Errorf("it has written: %s", cmp.Diff(before, after))
	}
}

// ask runs the helper on a system that does not run.
func ask(t *testing.T, program, root string, r wire.Request) *wire.Result {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(program, "--root", root, "--offline")
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	in, err := cmd.StdinPipe() // it stays open: its end is the hang-up
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = errors.Join(wire.Write(in, r), cmd.Wait())
	}
	if err != nil {
		t.Fatal(err)
	}
	for {
		var f wire.Frame
		if err := wire.Read(&out, &f); err != nil {
			t.Fatal(err)
		}
		if f.Result != nil {
			if f.Result.Error != nil {
				t.Fatal(f.Result.Error)
			}
			return f.Result
		}
	}
}

// files are all files of a system with their sizes and times.
func files(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if name := strings.TrimPrefix(path, root); err == nil && info.Mode().IsRegular() {
			all = append(all, fmt.Sprintf("%s %d %s %s", name, info.Size(), info.Mode(), info.ModTime()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
