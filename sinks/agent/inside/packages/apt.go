package packages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// apt is the package manager of Debian and its derivatives.
type apt struct{}

const (
	dpkgStatus = "/var/lib/dpkg/status"
	aptLists   = "/var/lib/apt/lists"
)

// aptTime bounds one run of apt-get or dpkg. Apply bounds the whole request.
const aptTime = 30 * time.Minute

// repairTime bounds dpkg --configure. The rest of the time is for a transaction that may replace the package whose
// script hangs.
const repairTime = 10 * time.Minute

// aptEnv keeps package scripts from asking questions, and needrestart from restarting services that are not in the
// design.
var aptEnv = []string{"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true", "NEEDRESTART_MODE=l",
	"NEEDRESTART_SUSPEND=1", "APT_LISTCHANGES_FRONTEND=none", "UCF_FORCE_CONFFOLD=1"}

// aptOptions apply to every apt-get that changes something. Without their own pty, the scripts belong to our
// process group and end with it. Changed configuration files are kept.
var aptOptions = []string{"-q", "-y", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0",
	"-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
	"-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=60", "-o", "Acquire::https::Timeout=60"}

// noCache keeps apt-get from writing its cache when nothing may change.
var noCache = []string{"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}

func (apt) check(name string) error { return check(debianName(), name) }

func (apt) inventory(_ context.Context, h *inside.Host) (inventory, error) {
	text, err := read(h, dpkgStatus)
	if err != nil {
		return inventory{}, err
	}
	return parseStatus(text), nil
}

// repair lets dpkg configure packages that are only unpacked, and end removals.
func (a apt) repair(ctx context.Context, h *inside.Host, inv inventory, going []string) error {
	if err := a.configure(ctx, h, inv); err != nil {
		return err
	}
	return a.endRemovals(ctx, h, going)
}

// configure lets dpkg configure packages that are only unpacked. A script that fails or hangs again is not an error
// here: the result is checked at the end, and the transaction may fix it.
func (a apt) configure(ctx context.Context, h *inside.Host, inv inventory) error {
	left, err := list(h, "/var/lib/dpkg/updates")
	if err != nil {
		return err
	}
	if len(inv.broken) == 0 && len(left) == 0 {
		return nil
	}
	h.Tell("dpkg configures what was left half done: " + some(inv.broken))
	out, err := h.Exec(ctx, inside.Command{Path: "dpkg", Args: []string{"--configure", "-a", "--force-confdef", "--force-confold"}, Env: aptEnv, Timeout: repairTime})
	what := "dpkg --configure -a, for " + some(inv.broken)
	if wrong := outcome(what, out, err); wrong != nil {
		if ctx.Err() != nil || isBusy(wrong) {
			return wrong
		}
		h.Tell(wrong.Error())
	}
	if err == nil {
		return a.reinstall(ctx, h)
	}
	// dpkg was interrupted. apt-get works only after dpkg's journal is merged, which every writing dpkg does first.
	out, err = h.Exec(ctx, inside.Command{Path: "dpkg", Args: []string{"--set-selections"}, Env: aptEnv})
	return outcome("dpkg --set-selections", out, err)
}

// endRemovals ends the interrupted removals of packages that are to go. dpkg's journal is merged by now, so its status
// tells of them.
func (a apt) endRemovals(ctx context.Context, h *inside.Host, going []string) error {
	if len(going) == 0 {
		return nil
	}
	inv, err := a.inventory(ctx, h)
	if err != nil {
		return err
	}
	var names []string
	for _, name := range going {
		if !slices.Contains(inv.purging, name) {
			continue
		}
		script, err := info(h, inv, name, "postrm")
		if err != nil {
			return err
		}
		if script == nil { // else it would run
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	h.Tell("dpkg ends the removal of " + some(names))
	out, err := h.Exec(ctx, inside.Command{Path: "dpkg", Args: slices.Concat([]string{"--purge", "--"}, names), Env: aptEnv, Timeout: repairTime})
	wrong := outcome("dpkg --purge "+some(names), out, err)
	if wrong != nil && (ctx.Err() != nil || isBusy(wrong)) {
		return wrong
	}
	if wrong != nil {
		h.Tell(wrong.Error())
	}
	return nil
}

// reinstall unpacks packages again whose unpacking was interrupted. dpkg neither configures nor removes such a
// package, and apt-get takes it for installed where its version is the right one (dpkg(1), "reinst-required"). A
// package that cannot be had any more is not an error here: the result is checked at the end.
func (a apt) reinstall(ctx context.Context, h *inside.Host) error {
	inv, err := a.inventory(ctx, h)
	if err != nil {
		return err
	}
	var names []string
	for name, is := range inv.byName {
		if is.State == "half-installed" && is.Version != "" {
			names = append(names, name+"="+is.Version)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	h.Tell("apt-get unpacks again what was left half done: " + some(names))
	args := slices.Concat(aptOptions, []string{"--reinstall", "--no-install-recommends", "--no-remove", "--allow-change-held-packages", "install", "--"}, names)
	out, err := h.Exec(ctx, inside.Command{Path: "apt-get", Args: args, Env: aptEnv, Timeout: aptTime})
	wrong := outcome("apt-get --reinstall install "+some(names), out, err)
	if wrong != nil && (ctx.Err() != nil || isBusy(wrong)) {
		return wrong
	}
	if wrong != nil {
		h.Tell(wrong.Error())
	}
	return nil
}

func (a apt) refresh(ctx context.Context, h *inside.Host, names []string, all bool) error {
	if all {
		_, err := a.update(ctx, h, names)
		return err
	}
	for _, name := range names {
		only := []string{"-o", "Dir::Etc::sourcelist=" + a.repositoryFiles(h, name).source, "-o", "Dir::Etc::sourceparts=-", "-o", "APT::Get::List-Cleanup=0", "-o", "APT::Update::Error-Mode=any"}
		if _, err := a.update(ctx, h, []string{name}, only...); err != nil {
			return err
		}
	}
	return nil
}

func (a apt) fetch(ctx context.Context, h *inside.Host) (missed []string, err error) {
	return a.update(ctx, h, nil)
}

// update fetches package lists. It returns an error if the lists of one of our repositories cannot be fetched. For
// another repository it reports that, and the old lists stay in use.
func (a apt) update(ctx context.Context, h *inside.Host, names []string, only ...string) (missed []string, err error) {
	h.Tell("apt-get update")
	args := slices.Concat(aptOptions, only, []string{"update"})
	out, err := h.Exec(ctx, inside.Command{Path: "apt-get", Args: args, Env: aptEnv, Timeout: 10 * time.Minute})
	for _, name := range names {
		r, _ := a.repositoryFiles(h, name).parse(h)
		if line := complaint(out, r.URL); line != "" && r.URL != "" {
			return nil, failed("repository %s: its lists cannot be fetched: %s", name, line)
		}
	}
	missed = complaints(out)
	wrong := outcome("apt-get update", out, err)
	if wrong != nil && len(missed) > 0 && strings.Contains(missed[0], clockDoubt) {
		wrong = failed("apt-get update: %s", some(missed))
	}
	if wrong != nil && (err != nil || isBusy(wrong) || len(only) > 0) {
		return nil, wrong
	}
	if wrong != nil {
		h.Tell(wrong.Error())
	}
	return missed, nil
}

// complaint is the first error or warning of apt-get that contains a URL.
func complaint(out inside.Output, url string) string {
	for _, line := range complaints(out) {
		if strings.Contains(line, strings.TrimSuffix(url, "/")) {
			return line
		}
	}
	return ""
}

// complaints are apt-get's errors and warnings about repositories whose lists it could not fetch.
func complaints(out inside.Output) (all []string) {
	for line := range strings.Lines(string(out.Err)) {
		line = strings.TrimSpace(line)
		for _, begins := range []string{"E: ", "W: Failed", "W: An error", "W: GPG error"} {
			if strings.HasPrefix(line, begins) && strings.Contains(line, ":/") {
				all = append(all, withClock(printable(item.Redacted(line[3:])), time.Now()))
				break
			}
		}
	}
	return all
}

// clockDoubt is part of the message about lists that are not valid now.
const clockDoubt = "by the clock of the machine it is "

// withClock adds the machine's time and advice to apt's message about lists that are not valid now. A wrong clock
// is the usual cause.
func withClock(line string, now time.Time) string {
	const what = "%s; " + clockDoubt + "%s. If that is wrong, correct the clock, such as by `system.time.servers`"
	at := now.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case strings.Contains(line, "is not valid yet"):
		return fmt.Sprintf(what, line, at)
	case strings.Contains(line, "is expired"):
		return fmt.Sprintf(what+"; if it is right, this repository is no longer updated: name another one", line, at)
	}
	return line
}

// arguments are the arguments of the transaction: packages to install by name and version, and packages to remove
// with a trailing "-". It installs no recommended packages: the design names what a node has.
func (apt) arguments(c change) []string {
	args := []string{"--no-install-recommends", "--no-remove"}
	if len(c.remove) > 0 {
		args = args[:1]
	}
	if c.held {
		args = append(args, "--allow-change-held-packages")
	}
	if c.upgrade {
		args = append(args, "--only-upgrade")
	}
	if c.repair {
		args = append(args, "--fix-broken")
	}
	for _, version := range c.install {
		if version != "" { // it may be older; simulate shows the affected packages
			args = append(args, "--allow-downgrades")
			break
		}
	}
	args = append(args, "install", "--")
	for _, name := range slices.Sorted(maps.Keys(c.install)) {
		if version := c.install[name]; version != "" {
			name += "=" + version
		}
		args = append(args, name)
	}
	for _, name := range slices.Sorted(slices.Values(c.remove)) {
		args = append(args, name+"-")
	}
	return args
}

func (a apt) simulate(ctx context.Context, h *inside.Host, c change) ([]effect, error) {
	args := slices.Concat([]string{"-q", "-s"}, noCache, snapshotOptions(c.snapshot), a.arguments(c))
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--no-remove" }) // report what would be removed
	out, err := h.Exec(ctx, inside.Command{Path: "apt-get", Args: args, Env: aptEnv, Timeout: 2 * time.Minute})
	if err := outcome("apt-get says that this cannot be installed: "+some(wanted(c)), out, err); err != nil {
		return nil, err
	}
	return parseSimulation(out.Out), nil
}

func (a apt) run(ctx context.Context, h *inside.Host, c change) error {
	args := slices.Concat(aptOptions, snapshotOptions(c.snapshot), a.arguments(c))
	out, err := h.Exec(ctx, inside.Command{Path: "apt-get", Args: args, Env: aptEnv, Timeout: aptTime})
	return outcome("apt-get install "+some(wanted(c)), out, err)
}

// hold changes dpkg's selections.
func (apt) hold(ctx context.Context, h *inside.Host, names []string, on bool) error {
	word := "install"
	if on {
		word = "hold"
	}
	var lines bytes.Buffer
	for _, name := range names {
		fmt.Fprintf(&lines, "%s %s\n", name, word)
	}
	out, err := h.Exec(ctx, inside.Command{Path: "dpkg", Args: []string{"--set-selections"}, Stdin: lines.Bytes(), Env: aptEnv})
	return outcome("dpkg --set-selections, for "+some(names), out, err)
}

func (apt) upgrades(ctx context.Context, h *inside.Host, _ inventory, snapshot string) ([]effect, error) {
	args := slices.Concat([]string{"-q", "-s"}, noCache, snapshotOptions(snapshot), []string{"--with-new-pkgs", "upgrade"})
	out, err := h.Exec(ctx, inside.Command{Path: "apt-get", Args: args, Env: aptEnv, Timeout: 2 * time.Minute})
	if err := outcome("apt-get -s upgrade", out, err); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(parseSimulation(out.Out), func(e effect) bool { return e.to == "" }), nil
}

// listsTime is the latest change of the folders that apt-get update writes to. The lists themselves have the
// server's times.
func (apt) listsTime(h *inside.Host) (latest time.Time) {
	for _, name := range []string{aptLists, aptLists + "/partial", "/var/lib/apt/periodic/update-success-stamp"} {
		if info, err := stat(h, name); err == nil && info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	return latest
}

// stamp covers the names, sizes and times of everything that apt-get -s upgrade reads.
func (apt) stamp(h *inside.Host) string {
	sum := sha256.New()
	for _, folder := range []string{aptLists, "/etc/apt", "/etc/apt/sources.list.d", "/etc/apt/preferences.d", "/etc/apt/apt.conf.d"} {
		entries, err := list(h, folder)
		if err != nil {
			return ""
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || info.IsDir() || e.Name() == "lock" {
				continue
			}
			fmt.Fprintln(sum, folder, e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	if info, err := stat(h, dpkgStatus); err == nil {
		fmt.Fprintln(sum, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// simulated matches a line of apt-get -s: "Inst libc6 [2.36-9] (2.36-10 Debian-Security:12/stable-security [amd64])
// []", "Remv nginx [1.22]". A "Conf" line follows each "Inst" and adds nothing.
var (
	simulated = inside.Pattern(`^(Inst|Remv|Purg) ([^ ]+)(?: \[([^\] ]*)\])?(?: \(([^ )]+)([^)]*)\))?`)
	security  = inside.Pattern(`(?i)\b[a-z]+-security:|/[a-z0-9.-]+-security\b`)
)

// parseSimulation reads the output of apt-get -s.
func parseSimulation(text []byte) []effect {
	var effects []effect
	for line := range strings.Lines(string(text)) {
		m := simulated().FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		e := effect{name: m[2], from: m[3]}
		if m[1] == "Inst" {
			e.to, e.security = m[4], security().MatchString(m[5])
			if e.to == "" {
				continue
			}
		}
		effects = append(effects, e)
	}
	return effects
}

// wanted lists the packages of a change for people.
func wanted(c change) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c.install)) {
		if version := c.install[name]; version != "" {
			name += " " + version
		}
		all = append(all, name)
	}
	for _, name := range slices.Sorted(slices.Values(c.remove)) {
		all = append(all, "without "+name)
	}
	return all
}

// some are the first names of a list, with the number of the rest.
func some(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
