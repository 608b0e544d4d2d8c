package boot

import (
	_ "embed"
	"runtime"
	"strings"
)

// copiesScript keeps the boot loader at the fallback path and on the other EFI system partitions up to date. The
// system's packages update only the first partition. One version of GRUB does not load modules of another, so
// without its first disk the machine would not boot.
//
//go:embed copies.sh
var copiesScript string

const (
	copiesFile = "/usr/lib/slipway/copy-boot-loader"
	// copiesHook makes dpkg(1) run the script after each run. The script only checks whether a file has changed.
	copiesHook = "/etc/dpkg/dpkg.cfg.d/slipway-boot-loader"
)

// keepCopies puts the script into the target, for the plan's EFI system partitions. If no partition is mounted in
// the system, packages update none.
func (w *work) keepCopies() error {
	if w.plan.ESPs[0].Mount == "" || !w.tree.Exists("/etc/dpkg") {
		return nil
	}
	var others []string
	for _, e := range w.plan.ESPs[1:] {
		others = append(others, e.GUID)
	}
	text := strings.NewReplacer("@AT@", w.espAt(), "@ID@", w.id(), "@OTHERS@", strings.Join(others, " "), "@FALLBACK@", arches[runtime.GOARCH].fallback, "@SUFFIX@", arches[runtime.GOARCH].suffix).Replace(copiesScript)
	if err := w.tree.Put(copiesFile, []byte(text), 0o755, 0, 0); err != nil {
		return err
	}
	return w.tree.Put(copiesHook, []byte("# Written by Slipway when it installed this system.\npost-invoke="+copiesFile+"\n"), 0o644, 0, 0)
}
