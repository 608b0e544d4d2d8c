package inside_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// injected are what would begin another option or another source, were it written as it is.
var injected = []string{"[trusted=yes]", "[trusted=yes] ", " [trusted=yes]", "[ trusted=yes allow-insecure=yes ] file:///srv/url-a ", "\nTrusted: yes", "\r\nTrusted: yes", "\n Trusted: yes",
	"\n\nTypes: deb\nURIs: file:///srv/url-a\nSuites: stable\nComponents: main\nTrusted: yes\n", "\ndeb [trusted=yes] file:///srv/url-a stable main", "\tmain", " file:///srv/url-a", "#", "/", "$(ARCH)",
	"\x00", "\x1b[2J", "\v", "\f", "\x7f", "\u0085Trusted: yes", "\u2028Trusted: yes", "\u00a0file:///srv/url-a", "%0aTrusted:%20yes", "\"", "'", "-", ",", "@", "trusted=yes", "$(id)", "`id`", "../"}

// spoiled is a text with something injected before it, in it or behind it.
func (g *generator) spoiled(text string) string {
	at := []int{0, len(text) / 2, len(text)}[g.IntN(3)]
	return text[:at] + g.pick(injected...) + text[at:]
}

// hostileRepository is a good one of which one or two fields are not.
func (g *generator) hostileRepository() (name string, r site.Repository) {
	name, r = "site", site.Repository{URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: made.signs}
	for range 1 + g.IntN(2) {
		switch g.IntN(6) {
		case 0:
			name = g.pick("../../../srv/canary", "a/b", "x.list", "site.sources", "-o", ".site", "site\n", "a b", "site.disabled", strings.Repeat("x", 190), strings.Repeat("x", 300), g.spoiled("site"), g.name())
		case 1:
			r.URL = g.pick("copy:///srv/repo", "cdrom://disc/", "mirror+file:///srv/list", "ssh://root@127.0.0.1/srv", "file:", "file://", "http://", "http:///", "http://127.0.0.1:9/x", "http://[trusted=yes]/x",
				"file:///srv/repo/../url-a", "/srv/repo", "", g.spoiled("file:///srv/repo"), g.spoiled("file:///srv/repo"), g.spoiled("file:///srv/repo"), "file:///srv/"+g.name())
		case 2:
			r.Suite = g.pick("stable/", "./", "/", "", "../../etc", ".", g.spoiled("stable"), g.spoiled("stable"), g.name())
		case 3:
			r.Components = [][]string{{}, {""}, {"main", ""}, {"main", "main"}, {"main", "[trusted=yes]"}, {g.spoiled("main")}, {"main", g.spoiled("main")}, {g.name()}}[g.IntN(8)]
		case 4:
			r.Key = g.pick("", "no key", "/etc/shadow", "\n", made.signsSecond, made.signs[:len(made.signs)/2], made.signs+made.signsSecond, g.spoiled(made.signs), g.name())
		case 5:
			r.Pin = []int{1, -1, 32767, -32768, 1 << 40}[g.IntN(5)]
		}
	}
	return name, r
}

func TestHostileRepositories(t *testing.T) {
	hostileRepositories(t, 1, 8)
}

func TestProveHostileRepositories(t *testing.T) {
	if !proves() {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	hostileRepositories(t, 2, 150)
}

// hostileRepositories asks a node for repositories that no design could have: each is refused with a
// sentence, or written so that apt reads that one source with the options that Slipway gives it.
func hostileRepositories(t *testing.T, seed uint64, rounds int) {
	g, n, began := newGenerator(seed), start(t), time.Now()
	n.Does("rm -f /etc/apt/sources.list.d/*; echo untouched > /srv/canary; mkdir /etc/apt/keyrings 2>/dev/null || true; cp /srv/snap.asc /etc/apt/trusted.gpg.d/")
	before, none := n.listing(), &site.Node{Name: "n1", References: site.References{Family: "debian"}}
	refused, written, snapshots := 0, 0, 0
	for range rounds {
		name, r := g.hostileRepository()
		d := &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{Repositories: map[string]site.Repository{name: r}}}
		if g.maybe(1, 4) {
			d.System.Repositories = nil
			d.System.Patch = &site.Patch{Level: "all", Reboot: "never", Snapshot: g.spoiled(g.pick("file:///srv/snap-a", "file:///srv/snap-a bookworm main"))}
		}
		err := n.takesPackages(d)
		if err != nil && (err.Error() != site.PrintableLines(err.Error()) || strings.Contains(err.Error(), "fault of Slipway")) {
			t.Errorf("the error is %q\nthe design: %s", err, told(d))
		}
		switch {
		case d.System.Patch != nil:
			snapshots++
			n.readsSnapshot(d)
		case n.readsOne(name, r):
			written++
		case !errors.Is(err, driver.ErrRefused):
			t.Errorf("it was not written, and the error is %v\nthe design: %s", err, told(d))
		default:
			refused++
		}
		n.converges(none)
		if after := n.listing(); difference(after, before) != "" {
			t.Fatalf("it is not as before:\n%s\nthe design: %s", difference(after, before), told(d))
		}
	}
	if refused == 0 || written == 0 {
		t.Errorf("%d were refused and %d written", refused, written)
	}
	t.Logf("%d repositories refused, %d written, %d snapshots, in %s", refused, written, snapshots, time.Since(began).Round(time.Second))
}

// takesPackages makes one step of the facet packages.
func (n *node) takesPackages(d *site.Node) error {
	n.t.Helper()
	m := n.open(n.t)
	defer m.Close()
	seen, err := look(n.t.Context(), n, m, d)
	if err != nil {
		n.t.Fatalf("%v\nthe design: %s", err, told(d))
	}
	return step(n.t.Context(), m, d, site.FacetPackages, seen)
}

// readsOne says whether a repository is there, and holds that apt reads no other source.
func (n *node) readsOne(name string, r site.Repository) (is bool) {
	t := n.t
	t.Helper()
	files := strings.Fields(n.Does("ls -A /etc/apt/sources.list.d"))
	// What is there of sources must not keep apt from reading any.
	read, err := n.Run("apt-get update --print-uris -o Dir::Etc::sourcelist=/dev/null -o Acquire::Languages=none")
	if err != nil {
		t.Errorf("apt cannot read its sources: %s\nthe repository %q: %+v", read, name, withoutKey(r))
	}
	if len(files) == 0 {
		return false
	}
	file := "slipway-" + name + ".sources"
	if !slices.Equal(files, []string{file}) {
		t.Errorf("of the repository %q there are the files %q", name, files)
		return true
	}
	fields := map[string]string{}
	for line := range strings.Lines(n.Does("cat " + quoted("/etc/apt/sources.list.d/"+file))) {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if _, twice := fields[field]; twice {
			t.Errorf("%s has two fields %q", file, field)
		}
		fields[field] = value
	}
	want := map[string]string{"Types": "deb", "URIs": r.URL, "Suites": r.Suite}
	if len(r.Components) > 0 {
		want["Components"] = strings.Join(r.Components, " ")
	}
	if strings.TrimSpace(r.Key) != "" {
		want["Signed-By"] = "/etc/apt/keyrings/slipway-" + name + ".asc"
	}
	if fmt.Sprint(fields) != fmt.Sprint(want) {
		t.Errorf("of the repository %q: %+v\nthere is %q", name, withoutKey(r), fields)
	}
	// And what apt makes of it: one release, and the lists of the components.
	releases, lists := strings.Count(read, "InRelease' "), 0
	for line := range strings.Lines(read) {
		if uri, _, _ := strings.Cut(line, " "); strings.HasPrefix(path.Base(uri), "Packages") && !strings.Contains(uri, "/binary-all/") {
			lists++
		}
	}
	components := slices.Clone(r.Components)
	slices.Sort(components)
	if releases != 1 || lists != max(1, len(slices.Compact(components))) {
		t.Errorf("of the repository %q: %+v\napt reads %s", name, withoutKey(r), read)
	}
	if out, err := n.Run("apt-cache policy"); err != nil {
		t.Errorf("apt cannot read its priorities: %s\nthe repository %q: %+v", out, name, withoutKey(r))
	}
	return true
}

// readsSnapshot holds that what was written of a snapshot is one source without options.
func (n *node) readsSnapshot(d *site.Node) {
	n.t.Helper()
	const file = "/var/lib/slipway-inside/snapshot/sources.list"
	text := n.Does("cat " + file + " 2>/dev/null || true")
	if text == "" {
		return
	}
	if text != "deb "+d.System.Patch.Snapshot && text != "deb "+d.System.Patch.Snapshot+" bookworm main" || strings.HasPrefix(text, "deb [") || strings.Contains(text, "\n") {
		n.t.Errorf("of the snapshot %q there is %q", d.System.Patch.Snapshot, text)
	}
	n.Does("rm " + file)
}

func withoutKey(r site.Repository) site.Repository {
	r.Key = fmt.Sprintf("%d bytes", len(r.Key))
	return r
}
