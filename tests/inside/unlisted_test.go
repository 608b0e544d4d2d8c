package inside_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// enabledUnits are all units that start with the system, by systemd's own word.
const enabledUnits = "systemctl list-unit-files --state=enabled --no-legend --no-pager --plain | cut -d' ' -f1 | sort"

// unlisted are the units that start with the system and that nobody designed, each with its package.
func (n *node) unlisted() (names []string) {
	n.t.Helper()
	d := &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{Unlisted: site.Unlisted{Units: site.UnlistedReport}}}
	m := n.open(n.t)
	defer m.Close()
	seen, err := look(n.t.Context(), n, m, d)
	if err != nil {
		n.t.Fatal(err)
	}
	units, known := seen.Facets[site.FacetConfig].UnlistedUnits(d)
	if !known {
		n.t.Fatalf("nobody has listed the units: %v", seen.Facets[site.FacetConfig].Unread)
	}
	for _, u := range units {
		names = append(names, strings.TrimSpace(u.Name+" "+u.Package))
	}
	return names
}

// A clean system has no unit that the design has to name. What people, or packages that nobody
// designed, have enabled is told, disabled, and back as it was when the design says so no more.
func TestUnitsThatNobodyDesigned(t *testing.T) {
	n := start(t)
	clean := strings.Fields(n.Does(enabledUnits))
	design := func(policy string, more site.System) *site.Node {
		more.Unlisted.Units = policy
		return &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: more}
	}
	if got := n.unlisted(); !slices.Equal(got, []string{"before.service"}) {
		t.Errorf("of a clean system are told %q", got)
	}

	// A package that a person has installed, with a timer of its service, and what a person made.
	n.Does(`dpkg -i /srv/repo/pool/stable/serving_1.0_all.deb >/dev/null
systemctl enable --now --quiet serving.service serving@one.service
printf '[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n' > /etc/systemd/system/before.timer
systemctl enable --now --quiet before.timer`)
	want := []string{"before.service", "before.timer", "serving.service serving", "serving@one.service serving"}
	if got := n.unlisted(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	before := n.listing()
	const states = "systemctl is-active before.timer serving.service serving@one.service ssh.service || true"

	d := design(site.UnlistedDisable, site.System{})
	n.converges(d)
	n.Says(states, "inactive\ninactive\ninactive\nactive")
	if got := strings.Fields(n.Does(enabledUnits)); !slices.Equal(got, slices.DeleteFunc(slices.Clone(clean), func(u string) bool { return u == "before.service" })) {
		t.Errorf("enabled are %q, and of a clean system %q", got, clean)
	}
	n.passAgain(d)

	// One of them is named, and one of them a person starts again.
	n.Does("systemctl enable --now --quiet before.timer")
	n.converges(design(site.UnlistedDisable, site.System{Units: map[string]site.Unit{"serving.service": {Enabled: ref(true), State: "running"}}}))
	n.Says(states, "inactive\nactive\ninactive\nactive")

	// Naming the package names what it has brought.
	n.converges(design(site.UnlistedDisable, site.System{Packages: map[string]site.Package{"serving": {}}}))
	n.Says(states, "inactive\nactive\nactive\nactive")

	// A unit that would stop with one is named, and one by another name: both stay.
	n.Does(`printf '[Unit]\nRequires=serving.service\n[Service]\nExecStart=/bin/sleep infinity\n' > /etc/systemd/system/needs.service
ln -s /etc/systemd/system/before.timer /etc/systemd/system/once.timer; systemctl daemon-reload; systemctl start needs.service`)
	n.converges(design(site.UnlistedDisable, site.System{Units: map[string]site.Unit{"needs.service": {}, "once.timer": {}}}))
	n.Says(states+"; systemctl is-active needs.service", "active\nactive\ninactive\nactive\nactive")
	n.Does("systemctl stop needs.service; rm -f /etc/systemd/system/needs.service /etc/systemd/system/once.timer; systemctl daemon-reload")

	n.converges(design("", site.System{}))
	if after := n.listing(); difference(after, before) != "" {
		t.Errorf("it is not as before:\n%s", difference(after, before))
	}
	n.Says(`tr -d ' \n\t' </var/lib/slipway-inside/owned.json`, `{"items":{}}`)
}

// The unit that the SSH server runs in is left alone, whatever it is called.
func TestTheUnitOfTheSessionIsNotDisabled(t *testing.T) {
	n := start(t)
	n.Does(`sed 's/^Alias=.*//' /lib/systemd/system/ssh.service > /etc/systemd/system/access.service
systemctl disable --quiet ssh.service; systemctl daemon-reload; systemctl enable --quiet access.service; systemctl stop ssh.service; systemctl start access.service`)
	d := &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{Unlisted: site.Unlisted{Units: site.UnlistedDisable}}}
	n.converges(d)
	n.Says("systemctl is-active access.service; systemctl is-enabled access.service before.service || true", "active\nenabled\ndisabled")
	m := n.open(t)
	defer m.Close()
	s := site.Step{Node: "n1", Facet: site.FacetConfig, Action: site.ActionConfig, Changes: []site.Change{{Field: "config." + item.KindUnlisted + ".access.service", Want: item.Disabled}}}
	if err := m.Apply(t.Context(), s, d, nil); err == nil || !strings.Contains(err.Error(), "the system needs access.service") {
		t.Errorf("asked to disable it: %v", err)
	}
}
