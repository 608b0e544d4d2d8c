package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// architectures maps the machine names of uname(1) to those of the helpers.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// helpers are the programs that Slipway brings to machines. They are read once.
type helpers struct {
	folder string
	load   func() map[string]helper
}

// helper is the program for one architecture, or the reason why it is missing.
type helper struct {
	path, digest string
	checksum     string // as wire.Checksum
	err          error
}

func newHelpers(folder string) *helpers {
	h := &helpers{folder: folder}
	h.load = sync.OnceValue(func() map[string]helper {
		all := map[string]helper{}
		for _, arch := range architectures {
			all[arch] = readHelper(folder, arch)
		}
		return all
	})
	return h
}

// CheckFolder checks a folder of helpers before a machine needs one. An empty name is valid: Slipway then sets
// nothing inside systems.
func CheckFolder(folder string) error {
	if folder == "" {
		return nil
	}
	var errs []error
	for _, arch := range []string{"amd64", "arm64"} {
		_, err := os.Stat(filepath.Join(folder, "slipway-helper-linux-"+arch))
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("the folder of helpers %s has no helper (%w): name the folder that has slipway-helper-linux-amd64 or slipway-helper-linux-arm64 "+
		"with --agents or SLIPWAY_AGENTS, or an empty one to only observe systems", folder, errs[0])
}

func readHelper(folder, arch string) helper {
	h := helper{path: filepath.Join(folder, "slipway-helper-linux-"+arch)}
	if folder == "" {
		h.err = fmt.Errorf("this command has no folder of helpers (--agents DIR), so it sees only which system runs")
		return h
	}
	content, err := os.ReadFile(h.path)
	if err != nil {
		h.err = fmt.Errorf("there is no helper for %s machines: %w; install the package slipway as a whole, or name the folder of helpers with --agents DIR", arch, err)
		return h
	}
	h.digest, h.checksum = digest(content), wire.Checksum(content)
	return h
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// known lists the available helpers, each as its digest, a colon and its checksum. A machine has one of these
// helpers after Slipway brought it there.
func (h *helpers) known() []string {
	var all []string
	for _, arch := range []string{"amd64", "arm64"} {
		if one := h.load()[arch]; one.digest != "" {
			all = append(all, one.digest+":"+one.checksum)
		}
	}
	return all
}

// program returns the helper for a machine, by its name in uname(1).
func (h *helpers) program(machine string) (content []byte, sum string, err error) {
	arch, ok := architectures[machine]
	if !ok {
		return nil, "", fmt.Errorf("there is no helper for %q machines, only for x86_64 and aarch64", machine)
	}
	one := h.load()[arch]
	if one.err != nil {
		return nil, "", one.err
	}
	if content, err = os.ReadFile(one.path); err != nil {
		return nil, "", err
	}
	if digest(content) != one.digest {
		return nil, "", fmt.Errorf("%s has changed since the daemon was started: restart the daemon", one.path)
	}
	return content, one.digest, nil
}
