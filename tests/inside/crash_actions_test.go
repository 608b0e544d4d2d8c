package inside_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	// unitFile has the words that go before the program of a boot action's unit, as long as prefixFile
	// is there.
	unitFile = "/run/unit"
	// systemdRun puts them there. The tracer sees a program that another one begins.
	systemdRun = `#!/bin/sh
left=$#
while [ $left -gt 0 ]; do
	word=$1
	shift
	left=$((left - 1))
	set -- "$@" "$word"
	if [ "$word" = -- ] && [ -e ` + unitFile + ` ] && [ -e ` + prefixFile + ` ]; then set -- "$@" $(cat ` + unitFile + `) /usr/bin/env; fi
done
exec /usr/bin/systemd-run.real "$@"
`
)

// The helper is killed after writes of what it does for a boot action, and of the action's own unit.
func TestKilledInABootAction(t *testing.T) {
	killedActing(t, 12)
}

// killedActing does boot actions, and kills what asks for one, or its unit, after one write in every
// few: each command runs once, and once more only where a person was asked.
func killedActing(t *testing.T, every int) {
	n, began := start(t), time.Now()
	n.Does("mkdir -p /etc/slipway; echo " + quoted(marker) + " > /etc/slipway/marker.json; chmod 600 /etc/slipway/marker.json; mv /usr/bin/systemd-run /usr/bin/systemd-run.real; cat > /usr/bin/systemd-run <<'END'\n" + systemdRun + "END\nchmod 755 /usr/bin/systemd-run")
	acts := 0
	for _, where := range []string{"helper", "unit"} {
		points, asked, writes := 0, 0, every
		if where == "unit" {
			writes = 1 // it has few
		}
		for after := 1; ; after += writes {
			what := []string{"helper", "all"}[points%2]
			acts++
			name := "act-" + strconv.Itoa(acts)
			n.arm(after, what)
			if where == "unit" {
				n.Does("cp " + prefixFile + " " + unitFile + "; echo > " + prefixFile)
			}
			again, steps := n.acted(name)
			still := n.disarm()
			n.Does("rm -f " + unitFile)
			if still {
				if again != 0 {
					t.Errorf("%s: nothing was killed, and a person was asked %d times", where, again)
				}
				n.settled("a boot action that was not killed", true) // also of what the ones before had left to it
				break
			}
			points++
			asked += again
			n.settled(fmt.Sprintf("%d of a boot action (%s, %s)", after, where, what), steps > 1) // else that run had done all: the next one ends what it had begun to note
		}
		if points < 2 {
			t.Errorf("%s: killed %d times alone", where, points)
		}
		t.Logf("%s: killed %d times, a person was asked %d times, in %s", where, points, asked, time.Since(began).Round(time.Second))
	}
}

// acted does a boot action as the daemon does, and as a person who is asked each time that it was
// begun and is not done. It tells how often, and how many steps there were.
func (n *node) acted(name string) (asked, steps int) {
	t := n.t
	t.Helper()
	d := &site.Node{Name: "n1", References: site.References{Family: "debian", Actions: map[string]site.BootAction{name: {
		Timeout: site.Duration(time.Minute), Run: []string{"/bin/sh", "-c", "echo ran >> /var/cache/" + name},
		Files: map[string]site.File{"/srv/" + name: {Content: ref("brought\n")}},
		Units: map[string]site.Unit{name + ".service": {Content: ref(service(name, "multi-user.target")), Enabled: ref(true), State: "running"}},
	}}}}
	key, is, last := item.KindBootActions+"."+name, "", error(nil)
	for range mostSteps {
		m := n.open(t)
		seen, err := m.Observe(t.Context(), d, []site.Facet{site.FacetActions})
		if err == nil {
			switch is, _ = plan.OnceIs(site.FacetActions, key, site.Memory{Observed: seen}); {
			case plan.IsStalledOnce(is):
				asked, steps = asked+1, steps+1
				err = step(t.Context(), m, d, site.FacetActions, seen)
			case is == item.NotDone:
				steps++
				err = step(t.Context(), m, d, site.FacetActions, seen)
			case is == item.Running:
				n.Comes("systemctl is-active slipway-action-"+name+".service || true", "inactive")
			}
		}
		m.Close()
		if last = err; is == item.Done {
			break
		}
	}
	if is != item.Done {
		t.Fatalf("%s is %q after %d steps: %v", name, is, mostSteps, last)
	}
	ran := strings.Count(n.Does("cat /var/cache/"+name), "ran")
	if ran < 1 || ran > 1+asked {
		t.Errorf("%s ran %d times, and a person was asked %d times", name, ran, asked)
	}
	n.Says("cat /srv/"+name+"; systemctl is-active "+name+"; systemctl is-enabled "+name, "brought\nactive\nenabled")
	return asked, steps
}
