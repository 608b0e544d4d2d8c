package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/sinks/netboot"
)

// What machines start over the network is the image in the medium, byte by byte. A medium of an
// earlier release holds such starts with a sentence, and nothing else.
func TestAgentsStartFromTheImageInTheMedium(t *testing.T) {
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	iso := filepath.Join(state, "ramdisk.iso")
	f := agentFlags{medium: iso}
	write := func(medium []byte) {
		t.Helper()
		if err := os.WriteFile(iso, medium, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const at = 50 * 2048
	image := []byte("MZ, and so on")
	mark := func(size int) []byte {
		m := testMedium()
		copy(m[wire.VolumeAt+wire.ApplicationUse:], fmt.Sprintf("%s%d 4096\n%s%d 10\n%s%d %d\n", wire.MediumMark, wordsAt, wire.ToolsMark, wordsAt+4096, wire.ImageMark, at, size))
		copy(m[at:], image)
		return m
	}
	write(testMedium())
	if _, err := f.startsFrom(state); err == nil || !strings.Contains(err.Error(), "build it again with `slipway ramdisk build`") {
		t.Errorf("a medium of before: %v", err)
	}
	write(mark(1 << 20))
	if _, err := f.startsFrom(state); err == nil || !strings.Contains(err.Error(), "read the image of the ramdisk") {
		t.Errorf("a medium that was cut: %v", err)
	}
	write(mark(len(image)))
	for range 2 {
		file, err := f.startsFrom(state)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, image) {
			t.Errorf("%q, %v", got, err)
		}
	}

	file, _ := f.startsFrom(state)
	b := &agentBoots{Service: netboot.New(netboot.Config{Listen: []netboot.Listen{{Interface: "eth0", Network: "mgmt"}}}), image: file}
	boot := engine.NetBoot{ID: "first", Node: "n1", MACs: []string{"52:54:00:00:00:01"}, UUID: "5E1D0000-0000-4000-8000-000000000001", Words: "slipway.daemon=10.1.0.2:9481", Until: time.Now().Add(time.Hour)}
	if err := b.Arm(boot); err != nil {
		t.Error(err)
	}
	boot.MACs = nil
	if err := b.Arm(boot); err == nil || !strings.Contains(err.Error(), "no port of n1 has a known MAC address") {
		t.Errorf("without a MAC address: %v", err)
	}
	if _, err := b.Serving([]string{"lab"}); err == nil || !strings.Contains(err.Error(), "--netboot INTERFACE=lab") {
		t.Errorf("another network: %v", err)
	}
	b.Disarm("n1")
	f.medium += ".gone"
	_, none := f.startsFrom(state)
	b.none = none
	if _, err := b.Serving([]string{"mgmt"}); none == nil || err != none {
		t.Errorf("without an image: %v", err)
	}
	if err := b.Arm(boot); err != none {
		t.Errorf("without an image: %v", err)
	}
}
