package packages

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// maxListsAge is the maximum age of lists. With older lists it is unknown whether upgrades are missing.
const maxListsAge = 7 * 24 * time.Hour

// patched is the record of the upgrades that Slipway made.
type patched struct {
	item.Patch
	// Stamp covers the inputs of the last search for upgrades, and Open is its result. While the stamp is the same,
	// no new search is needed.
	Stamp string   `json:"stamp,omitempty"`
	Open  []string `json:"open,omitempty"`
	// Missed says which lists could not be fetched; empty for none.
	Missed string `json:"missed,omitempty"`
}

func notedPatch(h *inside.Host) (patched, bool) {
	var p patched
	e, ours := h.Owned.Entry(facetName, item.KindPatch)
	return p, ours && len(e.Made) > 0 && json.Unmarshal(e.Made, &p) == nil
}

// observePatch reports the level that was requested last if no upgrade of it is missing, and otherwise the missing
// upgrades. It also reports what the system waits for. It fetches nothing, and uses the machine's lists.
func observePatch(ctx context.Context, h *inside.Host, m manager, inv inventory, s *inside.Seen) {
	const key = item.KindPatch
	s.Waits = rebootReason(h, inv)
	p, ours := notedPatch(h)
	level := item.Name(key, "level")
	if p.Snapshot != "" {
		s.Have[item.Name(key, "snapshot")] = p.Snapshot
	}
	doubt := ""
	if p.Snapshot == "" {
		h.Tell("the lists of packages are " + inWords(listsAge(h, m)))
		doubt = cmp.Or(p.Missed, listsDoubt(h, m))
	}
	if p.Stamp != "" && len(p.Open) == 0 && p.Stamp == m.stamp(h) {
		s.Have[level] = p.Level
	} else if found, err := m.upgrades(ctx, h, inv, p.Snapshot); err != nil {
		s.Unread[key] = err.Error()
		return
	} else {
		s.Upgrades = missingUpgrades(ctx, h, m, inv, found)
		s.Upgrades.Doubt = doubt
		if s.Have[level] = firstText(found); ours {
			s.Have[level] = levelText(p.Level, open(found, p.Patch))
		}
	}
	if ours && doubt != "" && s.Have[level] == p.Level {
		s.Have[level] = "unknown: " + doubt
	}
}

// levelText is the level if no upgrades are open, else the open upgrades.
func levelText(level string, open []string) string {
	switch len(open) {
	case 0:
		return level
	case 1:
		return "1 upgrade: " + open[0]
	}
	return fmt.Sprintf("%d upgrades: %s", len(open), some(open))
}

// firstText is the state before the first patch.
func firstText(found []effect) string {
	all, urgent := open(found, item.Patch{Level: item.PatchAll}), open(found, item.Patch{Level: item.PatchSecurity})
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprintf("none; %s (%d for security)", levelText("", all), len(urgent))
}

// open are the sorted names of the upgrades that a patch asks for. It leaves out packages that only come with them.
func open(found []effect, p item.Patch) []string {
	var names []string
	for _, e := range found {
		if e.from != "" && (p.Level == item.PatchAll || e.security) && !slices.Contains(p.Except, e.name) {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func listsAge(h *inside.Host, m manager) time.Duration { return time.Since(m.listsTime(h)) }

// clockSkew is how far a clock may be behind without a warning.
const clockSkew = time.Hour

// listsDoubt says why the lists may lack upgrades; empty if there is no reason.
func listsDoubt(h *inside.Host, m manager) string {
	const form = "2006-01-02 15:04 UTC"
	switch age := listsAge(h, m); {
	case age < -clockSkew:
		return fmt.Sprintf("the lists of packages were fetched at %s, and by the clock of the machine it is %s; correct the clock, such as by `system.time.servers`",
			m.listsTime(h).UTC().Format(form), time.Now().UTC().Format(form))
	case age > maxListsAge:
		return fmt.Sprintf("the lists of packages are older than %d days", int(maxListsAge.Hours()/24))
	}
	return ""
}

func inWords(age time.Duration) string {
	switch days := int(age.Hours() / 24); {
	case days > 10000:
		return "not there"
	case age < -clockSkew:
		return "dated in the future"
	case days >= 2:
		return fmt.Sprintf("%d days old", days)
	}
	return fmt.Sprintf("%d hours old", int(age.Hours()))
}

// patch makes exactly the upgrades of a level.
func (a *apply) patch(ctx context.Context) error {
	for _, key := range a.remove[item.KindPatch] { // upgrades are not undone
		if err := a.h.Owned.Drop(facetName, key); err != nil {
			return err
		}
	}
	for _, i := range a.items[item.KindPatch] {
		p, err := a.wantedPatch(i)
		if err != nil {
			return err
		}
		if err := a.upgrade(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

var timestamp = inside.Pattern(`^[0-9]{8}T[0-9]{6}Z$`)

// snapshotPlace matches a URL, with suite and components for the Debian family. It must start with the scheme,
// because apt reads brackets before a URL as options, such as trusted=yes.
var snapshotPlace = inside.Pattern(`^(https?|file):/[!-"$-~]+( +[A-Za-z0-9._/-]+)*$`)

func (a *apply) wantedPatch(i item.Item) (item.Patch, error) {
	p := item.Patch{Level: i.Fields["level"], Snapshot: i.Fields["snapshot"]}
	if len(i.Body) > 0 {
		b, err := body[item.Patch](i)
		if err != nil {
			return p, err
		}
		p = b
	}
	if p.Level != item.PatchAll && p.Level != item.PatchSecurity {
		return p, refused("patch: there is no level %q", printable(p.Level))
	}
	if p.Snapshot != "" && !timestamp().MatchString(p.Snapshot) && (len(p.Snapshot) > 2000 || !snapshotPlace().MatchString(p.Snapshot)) {
		return p, refused("patch: the snapshot %q is neither a time such as 20260101T000000Z nor a URL", printable(p.Snapshot))
	}
	for _, i := range a.items[item.KindPackages] { // the design sets their versions
		if i.Fields["version"] != "" || asState(i) == stateHeld {
			p.Except = append(p.Except, item.ID(i.Key))
		}
	}
	slices.Sort(p.Except)
	p.Except = slices.Compact(p.Except)
	return p, nil
}

// upgrade checks whether a level is reached. If not, it fetches the lists and makes the missing upgrades.
func (a *apply) upgrade(ctx context.Context, p item.Patch) error {
	old, ours := notedPatch(a.h)
	unsure := p.Snapshot == "" && cmp.Or(old.Missed, listsDoubt(a.h, a.m)) != ""
	same := ours && !unsure && old.Level == p.Level && old.Snapshot == p.Snapshot && slices.Equal(old.Except, p.Except)
	if same && len(old.Open) == 0 && old.Stamp != "" && old.Stamp == a.m.stamp(a.h) {
		return nil
	}
	if same && old.Stamp == "" && len(old.Open) == 0 && a.m.stamp(a.h) == "" && listsDoubt(a.h, a.m) == "" { // rpm has no stamp
		if found, err := a.upgrades(ctx, p.Snapshot); err == nil && len(open(found, p)) == 0 {
			return nil
		}
	}
	if err := a.h.Owned.Take(facetName, item.KindPatch, nil); err != nil {
		return err
	}
	if err := a.notePatch(patched{Patch: p, Missed: old.Missed}); err != nil {
		return err
	}
	missed, err := a.fetchFor(ctx, p)
	if err != nil {
		return err
	}
	found, err := a.upgrades(ctx, p.Snapshot)
	if err != nil {
		return err
	}
	if names := open(found, p); len(names) > 0 {
		if err := a.upgradeThese(ctx, p, found, names); err != nil {
			return err
		}
		if found, err = a.upgrades(ctx, p.Snapshot); err != nil {
			return err
		}
	}
	left := open(found, p)
	if err := a.notePatch(patched{Patch: p, Stamp: a.m.stamp(a.h), Open: left, Missed: unfetched(missed)}); err != nil {
		return err
	}
	switch {
	case len(left) > 0:
		return failed("patch: still missing after the upgrade: %s", some(left))
	case len(missed) > 0:
		return failed("patch: the upgrades of the other lists were made; %s", unfetched(missed))
	}
	return nil
}

// unfetched says which lists were not fetched, and why.
func unfetched(missed []string) string {
	if len(missed) == 0 {
		return ""
	}
	return "lists of packages could not be fetched, so upgrades may be missing: " + some(missed)
}

// upgrades are those that the lists have for the installed packages.
func (a *apply) upgrades(ctx context.Context, snapshot string) ([]effect, error) {
	inv, err := a.m.inventory(ctx, a.h)
	if err != nil {
		return nil, err
	}
	return a.m.upgrades(ctx, a.h, inv, snapshot)
}

// restamp searches for upgrades again after a transaction, so that the next look need not.
func (a *apply) restamp(ctx context.Context) error {
	p, ours := notedPatch(a.h)
	if !a.changed || !ours || p.Stamp == "" || p.Stamp == a.m.stamp(a.h) {
		return nil
	}
	found, err := a.upgrades(ctx, p.Snapshot)
	if err != nil {
		return err
	}
	p.Stamp, p.Open = a.m.stamp(a.h), open(found, p.Patch)
	return a.notePatch(p)
}

func (a *apply) notePatch(p patched) error {
	made, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return a.h.Owned.Note(facetName, item.KindPatch, made)
}

// fetchFor fetches the lists that a patch uses, and says which it could not fetch.
func (a *apply) fetchFor(ctx context.Context, p item.Patch) (missed []string, err error) {
	deb, ok := a.m.(apt)
	if p.Snapshot == "" {
		return a.m.fetch(ctx, a.h)
	}
	if !ok {
		if timestamp().MatchString(p.Snapshot) {
			return nil, refused("patch: on this system a snapshot cannot be a time, as only apt has archives for that; name the snapshot's URL")
		}
		return nil, nil // dnf fetches the lists when it uses the snapshot
	}
	sources, err := snapshotSources(a.h, p.Snapshot)
	if err != nil {
		return nil, err
	}
	if err := write(a.h, snapshotFolder+"/sources.list", []byte(sources)); err != nil {
		return nil, err
	}
	where, err := resolve(a.h, snapshotFolder+"/lists/partial")
	if err != nil {
		return nil, err
	}
	if err := mkdirAll(where); err != nil {
		return nil, err
	}
	return deb.update(ctx, a.h, nil, append(snapshotOptions(p.Snapshot), "-o", "APT::Update::Error-Mode=any")...)
}

// snapshotFolder is where apt keeps a snapshot's lists, apart from the system's own.
const snapshotFolder = inside.Folder + "/snapshot"

// snapshotOptions point apt at a snapshot.
func snapshotOptions(snapshot string) []string {
	if snapshot == "" {
		return nil
	}
	return append([]string{"-o", "Dir::Etc::sourcelist=" + snapshotFolder + "/sources.list", "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + snapshotFolder + "/lists", "-o", "Acquire::Check-Valid-Until=false"}, noCache...)
}

var codename = inside.Pattern(`^[a-z][a-z0-9-]*$`)

// snapshotSources are the lines of sources.list(5) for a snapshot: a time in the distribution's own archive, or
// "URL SUITE COMPONENT…".
func snapshotSources(h *inside.Host, snapshot string) (string, error) {
	text, err := read(h, "/etc/os-release")
	if err != nil {
		return "", err
	}
	release := ini(text)
	suite, id := strings.Trim(release["VERSION_CODENAME"], `"`), strings.Trim(release["ID"], `"`)
	words := strings.Fields(snapshot)
	if !timestamp().MatchString(snapshot) {
		if len(words) == 1 {
			words = append(words, suite, "main")
		}
		return "deb " + strings.Join(words, " ") + "\n", nil
	}
	if !codename().MatchString(suite) {
		return "", refused("patch: /etc/os-release has no VERSION_CODENAME, so the suites of the snapshot are not known; name its URL")
	}
	switch id {
	case "debian":
		const base = "deb https://snapshot.debian.org/archive/"
		of := sections(h, id, suite)
		return base + "debian/" + snapshot + " " + suite + of + base + "debian/" + snapshot + " " + suite + "-updates" + of +
			base + "debian-security/" + snapshot + " " + suite + "-security" + of, nil
	case "ubuntu":
		base, of := "deb https://snapshot.ubuntu.com/ubuntu/"+snapshot+" "+suite, sections(h, id, suite)
		return base + of + base + "-updates" + of + base + "-security" + of, nil
	}
	return "", refused("patch: no archive of past states of %q is known; name the snapshot's URL", printable(id))
}

// archives are the sections of each distribution's archive, and those to use if the system's sources name none.
var archives = map[string]struct{ all, usual []string }{
	"debian": {[]string{"main", "contrib", "non-free", "non-free-firmware"}, []string{"main"}},
	"ubuntu": {[]string{"main", "restricted", "universe", "multiverse"}, []string{"main", "restricted", "universe", "multiverse"}},
}

// sections are the archive sections that the system's own sources use for a suite, from any mirror, as the end of a
// line. The snapshot uses the same.
func sections(h *inside.Host, id, suite string) string {
	var named []string
	for _, sources := range ownSources(h) {
		for _, s := range sources {
			if s.Suite == suite {
				named = append(named, s.Components...)
			}
		}
	}
	known := archives[id]
	used := slices.DeleteFunc(slices.Clone(known.all), func(c string) bool { return !slices.Contains(named, c) })
	if !slices.Contains(used, "main") { // other sources are not the distribution's
		used = known.usual
	}
	return " " + strings.Join(used, " ") + "\n"
}

// upgradeThese makes some of the found upgrades, at the found versions.
func (a *apply) upgradeThese(ctx context.Context, p item.Patch, found []effect, names []string) error {
	c := change{install: map[string]string{}, upgrade: true, snapshot: p.Snapshot, pinned: p.Except}
	for _, e := range found {
		if slices.Contains(names, e.name) {
			c.install[e.name] = e.to
		}
	}
	inv, err := a.m.inventory(ctx, a.h)
	if err != nil {
		return err
	}
	if err := a.m.repair(ctx, a.h, inv, nil); err != nil {
		return err
	}
	if err := a.try(ctx, inv, &c); err != nil {
		return err
	}
	a.h.Tell(levelText("", names))
	return a.quietly(func() error { return a.m.run(ctx, a.h, c) })
}
