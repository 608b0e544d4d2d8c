package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slipway-gitops/slipway/sinks/agent/ramdisk"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// uki is the size of the image that `slipway ramdisk build` makes of Debian's packages and the
// agent as it is built now. It is made once for each agent, and kept.
func uki(bool) ([]string, error) {
	agent, err := os.ReadFile(filepath.Join("bin", "agents", "slipway-agent-linux-amd64"))
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	out := filepath.Join(cache, "slipway", "bench-install", fmt.Sprintf("%.8x", sha256.Sum256(agent)))
	image := filepath.Join(out, ramdisk.ImageName)
	info, err := os.Stat(image)
	if err != nil {
		rig.Progress("uki: making the ramdisk, once")
		if err := run(rig.Binary(), "ramdisk", "build", "--agents", filepath.Join("bin", "agents"), "--out", out); err != nil {
			return nil, err
		}
		if info, err = os.Stat(image); err != nil {
			return nil, err
		}
	}
	return []string{rig.Figure("install/uki-mib", float64(info.Size())/(1<<20), "MiB")}, nil
}
