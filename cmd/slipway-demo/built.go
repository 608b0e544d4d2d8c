package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// inNetwork names the folder with what was built, to the demo that runs in a network of its own.
const inNetwork = "SLIPWAY_DEMO_BUILT"

// What is built for the servers.
const (
	ramdiskName = "slipway-ramdisk-amd64.iso"
	imageName   = "demo-amd64.tar.zst"
)

// recipe is Debian 12 with few modules in its initramfs: to copy all of them takes an emulated
// processor a quarter of an hour. It has what the mirror and the volumes of the example need.
const recipe = `from: "debian12"
run: [
	"sed -i s/^MODULES=.*/MODULES=list/ /etc/initramfs-tools/initramfs.conf",
	"printf '%s\\n' nvme ext4 xfs vfat virtio_net virtio_pci raid1 dm_mod >>/etc/initramfs-tools/modules",
]
`

// inOwnNetwork builds what the servers start from, and runs the demo again in a network of its
// own. It gives the exit code.
func inOwnNetwork(ctx context.Context) int {
	built, err := build(ctx, newScreen(os.Stdout))
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", "--install")
	cmd.Env = append(os.Environ(), inNetwork+"="+built)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// It shares the terminal, whose interrupt it hears too, and ends by itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	err = cmd.Run()
	if exit, ended := errors.AsType[*exec.ExitError](err); ended {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: a network of its own, which takes root:", err)
		return 1
	}
	return 0
}

// build makes the ramdisk and the root image with the commands that people use, and keeps them in
// the user's cache until another version of the programs asks for others.
func build(ctx context.Context, show *screen) (folder string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	bin := filepath.Dir(self)
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	agent, err := os.ReadFile(filepath.Join(bin, "agents", "slipway-agent-linux-amd64"))
	if err != nil {
		return "", fmt.Errorf("the agent is not beside this program: run make build: %w", err)
	}
	of := sha256.Sum256(append(agent, recipe...))
	folder = filepath.Join(cache, "slipway", "demo-install", hex.EncodeToString(of[:8]))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, "demo.cue"), []byte(recipe), 0o644); err != nil {
		return "", err
	}
	for _, b := range []struct {
		name, says string
		args       []string
	}{
		{ramdiskName, "the ramdisk of the agent is made of Debian's packages at the first time, which takes some minutes, and kept in your cache", []string{"ramdisk", "build"}},
		{imageName, "the image of the servers, a Debian, is made in the same way", []string{"image", "build", "demo", "--recipe", filepath.Join(folder, "demo.cue")}},
	} {
		begun := time.Now()
		if _, err := os.Stat(filepath.Join(folder, b.name)); err == nil {
			continue
		}
		show.step("· ", b.says)
		args := append(b.args, "--out", folder+"/new")
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "slipway"), args...)
		cmd.Env = append(os.Environ(), "SLIPWAY_AGENTS="+filepath.Join(bin, "agents"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("slipway %q: %w: %s", args, err, out)
		}
		if err := os.Rename(filepath.Join(folder, "new", b.name), filepath.Join(folder, b.name)); err != nil {
			return "", err
		}
		show.proof(fmt.Sprintf("%s (%.0f s)", b.name, time.Since(begun).Seconds()))
	}
	return folder, os.RemoveAll(folder + "/new")
}
