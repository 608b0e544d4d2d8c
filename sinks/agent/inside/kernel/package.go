package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/packages"
)

// installed are the packages that provide kernels.
type installed struct {
	family string // "debian" or "rhel"
	// needs lists the dependencies of installed packages, by name.
	needs map[string][]string
	// releases are the kernels that a package provides: "6.1.0-18-amd64".
	releases map[string][]string
}

// maxStatus bounds dpkg's list of packages, in bytes.
const maxStatus = 64 << 20

func (w *work) installed() (installed, error) {
	text, err := w.tree.Read("/var/lib/dpkg/status", maxStatus)
	if err == nil {
		return parseStatus(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return installed{}, err
	}
	o, err := w.h.Exec(w.ctx, inside.Command{Path: "rpm", Args: []string{"-qa", "--qf", `%{NAME} %{VERSION}-%{RELEASE}.%{ARCH}\n`, "kernel*"}})
	if err == nil && o.Code != 0 {
		err = fmt.Errorf("rpm: %s", o.LastLines(3))
	}
	all := parseRPM(string(o.Out))
	all.variants(func(release string) bool { return w.tree.Exists("/lib/modules/" + release) })
	return all, err
}

// variants assigns kernels to packages of variants such as kernel-rt. They have the usual kernel's version; since
// RHEL 9.3 their own release ends in "+rt". If the two cannot be told apart, the kernels of the package are
// unknown.
func (i installed) variants(there func(release string) bool) {
	usual := slices.Concat(i.releases["kernel"], i.releases["kernel-core"])
	for n, releases := range i.releases {
		variant := strings.TrimSuffix(strings.TrimPrefix(n, "kernel-"), "-core")
		if variant == "" || variant == "core" || variant == "kernel" {
			continue
		}
		var own []string
		for _, r := range releases {
			switch named := r + "+" + variant; {
			case there(named):
				own = append(own, named)
			case !slices.Contains(usual, r):
				own = append(own, r)
			}
		}
		i.releases[n] = own
	}
}

// parseStatus reads dpkg's list of packages.
func parseStatus(text string) installed {
	all := installed{"debian", map[string][]string{}, map[string][]string{}}
	for block := range strings.SplitSeq(text, "\n\n") {
		if !strings.Contains(block, "Package: linux-") || !strings.Contains(block, "\nStatus: ") {
			continue
		}
		field := map[string]string{}
		for line := range strings.Lines(block) {
			if k, v, ok := strings.Cut(strings.TrimRight(line, "\n"), ": "); ok && line[0] != ' ' {
				field[k] = v
			}
		}
		if !strings.HasSuffix(field["Status"], " installed") {
			continue
		}
		n := field["Package"]
		all.needs[n] = nil
		for need := range strings.SplitSeq(field["Depends"]+","+field["Pre-Depends"], ",") {
			if f := strings.Fields(need); len(f) > 0 && strings.HasPrefix(f[0], "linux-") {
				all.needs[n] = append(all.needs[n], f[0])
			}
		}
		for _, prefix := range []string{"linux-image-unsigned-", "linux-image-"} {
			if release, ok := strings.CutPrefix(n, prefix); ok && release != "" && release[0] >= '0' && release[0] <= '9' {
				all.releases[n] = []string{release}
				break
			}
		}
	}
	return all
}

// parseRPM reads names and versions. All packages of one build provide one kernel.
func parseRPM(text string) installed {
	all := installed{"rhel", map[string][]string{}, map[string][]string{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 || !(f[0] == "kernel" || strings.HasSuffix(f[0], "-core") || f[0] == "kernel-rt" || f[0] == "kernel-uek" || f[0] == "kernel-lt" || f[0] == "kernel-ml") {
			continue
		}
		all.needs[f[0]] = nil
		all.releases[f[0]] = append(all.releases[f[0]], f[1])
	}
	return all
}

// brings reports whether a package, or one of its dependencies, provides a kernel.
func (i installed) brings(n, release string) bool {
	return i.reaches(n, release, map[string]bool{})
}

func (i installed) reaches(n, release string, passed map[string]bool) bool {
	if passed[n] {
		return false
	}
	passed[n] = true
	return slices.Contains(i.releases[n], release) ||
		slices.ContainsFunc(i.needs[n], func(need string) bool { return i.reaches(need, release, passed) })
}

// bringer is the package that provides a kernel: the requested one if it does, else one that follows new kernels,
// else the package of this kernel.
func (i installed) bringer(release, asked string) string {
	if asked != "" && i.brings(asked, release) {
		return asked
	}
	var direct, follows string
	for n := range i.needs {
		switch {
		case slices.Contains(i.releases[n], release) && i.family == "debian":
			direct = n
		case i.brings(n, release) && strings.HasPrefix(n, "linux-image") && (follows == "" || n < follows):
			follows = n
		case i.brings(n, release) && i.family == "rhel" && (follows == "" || len(n) < len(follows) || len(n) == len(follows) && n < follows):
			follows = n
		}
	}
	if follows != "" {
		return follows
	}
	return direct
}

type kernelMade struct {
	Package string `json:"package"`
}

// kernelBefore lists the packages that were installed before.
type kernelBefore struct {
	Packages []string `json:"packages,omitempty"`
}

func (w *work) running() (string, error) {
	text, err := w.tree.Read("/proc/sys/kernel/osrelease", 1024)
	return strings.TrimSpace(string(text)), err
}

func (w *work) observeKernel(key string) {
	if w.container() {
		w.seen.Cannot[key] = noKernel
		return
	}
	all, err := w.installed()
	release := ""
	if err == nil && w.h.Live {
		release, err = w.running()
	}
	if err != nil {
		w.seen.Unread[key] = err.Error()
		return
	}
	var made kernelMade
	w.items.Load(key, nil, &made)
	at := item.Name(key, "package")
	_, there := all.needs[made.Package]
	if !w.h.Live {
		if there {
			w.seen.Have[at] = made.Package
		}
		return
	}
	if n := all.bringer(release, made.Package); n != "" {
		w.seen.Have[at] = n
	}
	switch other := w.startsOther(made.Package, all); {
	case !there:
	case other != "": // a difference that no reboot resolves
		w.seen.Pending[at] = other
	case w.seen.Have[at] != made.Package:
		w.seen.Pending[at], w.seen.Waits = made.Package, "reboot"
	}
}

// applyKernel installs the package of the kernel. The kernel runs after the next boot.
func (w *work) applyKernel(i item.Item) error {
	n := i.Fields["package"]
	if w.container() {
		return refused("%s: %s", i.Key, noKernel)
	}
	if err := packages.CheckName(w.h, n); err != nil {
		return err
	}
	all, err := w.installed()
	if err != nil {
		return err
	}
	var before kernelBefore
	for p := range all.needs {
		before.Packages = append(before.Packages, p)
	}
	slices.Sort(before.Packages)
	if err := w.items.Take(i.Key, before); err != nil {
		return err
	}
	if err := w.items.Note(i.Key, kernelMade{n}); err != nil {
		return err
	}
	if _, there := all.needs[n]; there {
		return w.startPackage(i.Key, n, all)
	}
	if err := w.cut("install " + n); err != nil {
		return err
	}
	if err := packages.Install(w.ctx, w.h, n); err != nil {
		return err
	}
	if all, err = w.installed(); err != nil {
		return err
	}
	if _, there := all.needs[n]; !there {
		return refused("%s: the package %s is installed, but it brings no kernel. Name a package such as linux-image-amd64 or kernel", i.Key, n)
	}
	return w.startPackage(i.Key, n, all)
}

// removeKernel forgets the package. Slipway never removes kernels: the system may run one and need another to boot.
func (w *work) removeKernel(key string) error {
	var before kernelBefore
	var made kernelMade
	w.items.Load(key, &before, &made)
	if !slices.Contains(before.Packages, made.Package) {
		w.h.Tell(made.Package + " stays installed. Remove it by hand when another kernel runs")
	}
	if err := w.startAny(); err != nil {
		return err
	}
	return w.items.Drop(key)
}
