package packages

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// missingUpgrades are the found upgrades, with what each needs from the machine.
func missingUpgrades(ctx context.Context, h *inside.Host, m manager, inv inventory, found []effect) *item.Upgrades {
	var all []item.Upgrade
	for _, e := range found {
		u := item.Upgrade{Name: bare(inv, e.name), From: inv.find(e.name).Version, To: e.to, Security: e.security}
		if h.Live {
			u.Restart = m.restartFor(h, inv, u)
		}
		all = append(all, u)
	}
	if h.Live {
		markLibraries(ctx, h, m, inv, all)
	}
	slices.SortFunc(all, func(a, b item.Upgrade) int { return cmp.Compare(a.Name, b.Name) })
	return bounded(slices.CompactFunc(all, func(a, b item.Upgrade) bool { return a.Name == b.Name }))
}

// bounded drops the upgrades over the limit, starting with those that need nothing from the machine.
func bounded(all []item.Upgrade) *item.Upgrades {
	more := max(0, len(all)-item.MaxUpgrades)
	if more == 0 {
		return &item.Upgrades{Packages: all}
	}
	for i := len(all) - 1; i >= 0 && len(all) > item.MaxUpgrades; i-- {
		if all[i].Restart == "" {
			all = slices.Delete(all, i, i+1)
		}
	}
	return &item.Upgrades{Packages: all[:item.MaxUpgrades], More: more}
}

// markLibraries marks the upgrades that replace libraries in use.
func markLibraries(ctx context.Context, h *inside.Host, m manager, inv inventory, all []item.Upgrade) {
	var names []string
	for _, u := range all {
		if u.From != "" && u.Restart == "" {
			names = append(names, u.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	inUse := usedLibraries(h)
	brings := m.bringing(ctx, h, inv, names, inUse)
	for i, u := range all {
		if brings[u.Name] {
			all[i].Restart = item.RestartLibraries
		}
	}
}

// kernelPackage matches Debian's package of one kernel: its version and flavour.
var kernelPackage = inside.Pattern(`^linux-image-(?:unsigned-)?([0-9].*)$`)

// noticeHook is the program that package scripts call on Ubuntu to ask for a restart. Without it they do not ask.
const noticeHook = "/usr/share/update-notifier/notify-reboot-required"

// restartFor says whether an upgrade needs a restart. A newer kernel of the running flavour does. A package whose
// script can ask for a restart may do so.
func (apt) restartFor(h *inside.Host, inv inventory, u item.Upgrade) string {
	if m := kernelPackage().FindStringSubmatch(u.Name); m != nil {
		return restartForKernel(m[1], runningKernel(h))
	}
	script, err := readIfThere(h, "/var/lib/dpkg/info/"+u.Name+".postinst")
	if script == nil && err == nil {
		script, err = readIfThere(h, "/var/lib/dpkg/info/"+u.Name+":"+inv.native+".postinst")
	}
	if err == nil && strings.Contains(string(script), path.Base(noticeHook)) && exists(h, noticeHook) {
		return item.RestartPossible
	}
	return ""
}

func restartForKernel(kernel, running string) string {
	switch {
	case running == "":
		return item.RestartPossible
	case flavour(kernel) == flavour(running) && inside.CompareVersions(kernel, running) >= 0:
		return item.RestartNeeded
	}
	return ""
}

func (dnf) restartFor(_ *inside.Host, _ inventory, u item.Upgrade) string {
	if slices.Contains(coreRPMs, u.Name) {
		return item.RestartNeeded
	}
	return ""
}

// bringing are those of the packages that contain one of the files. dpkg lists them with paths from before /lib
// became /usr/lib.
func (a apt) bringing(ctx context.Context, h *inside.Host, inv inventory, names []string, files map[string]bool) map[string]bool {
	brings := map[string]bool{}
	for _, name := range names {
		listed, err := a.files(ctx, h, inv, name)
		if err != nil {
			continue // then libraries are unknown before the upgrade, and the next look finds them
		}
		brings[name] = slices.ContainsFunc(listed, func(file string) bool { return files[strings.TrimPrefix(file, "/usr")] })
	}
	return brings
}

// mostArguments bounds how many files rpm is asked about at once.
const mostArguments = 1000

func (dnf) bringing(ctx context.Context, h *inside.Host, _ inventory, names []string, files map[string]bool) map[string]bool {
	var paths []string
	for file := range files {
		paths = append(paths, "/usr"+file)
	}
	slices.Sort(paths)
	brings := map[string]bool{}
	for some := range slices.Chunk(paths, mostArguments) {
		args := append([]string{"-qf", "--qf", `%{NAME}\n`, "--"}, some...)
		out, err := h.Exec(ctx, inside.Command{Path: "rpm", Args: args}) // its exit code only says that a file belongs to no package
		if err != nil {
			break
		}
		for _, name := range strings.Fields(string(out.Out)) {
			brings[name] = slices.Contains(names, name)
		}
	}
	return brings
}
