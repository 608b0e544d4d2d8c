package inside_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// ctimes are all files with when anything of them last changed.
const ctimes = `find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /var/log -o -path /var/lib/slipway-inside/lock \) -prune -o ` +
	`! -type d -printf '%p %C@ %m %s\n' -o -printf '%p %C@ %m\n' | grep -v -e '^/ ' -e '^/var/lib/systemd' -e '^/root/\.' | sort`

// readers are the programs that a step may run where nothing is to be done, with the
// words of which one must be there where there are any.
var readers = map[string][]string{
	"systemctl":  {"show", "is-active", "is-enabled", "list-units", "list-unit-files", "cat"},
	"dpkg-query": nil, "apt-mark": {"showhold", "showmanual", "showauto"}, "apt-cache": nil, "apt-config": nil, "apt-get": {"--simulate", "-s", "--just-print"},
	"dpkg": {"--print-architecture", "--audit", "--compare-versions", "--print-foreign-architectures", "--get-selections"},
}

func TestASecondPassWritesNothing(t *testing.T) {
	secondPass(t, 7, 1)
}

func TestProveASecondPassWritesNothing(t *testing.T) {
	if !proves() {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	secondPass(t, 8, 30)
}

// secondPass makes each facet as it is designed once more, and holds that no call to the
// kernel writes, no program is run that could have another one write, and no file has
// changed.
func secondPass(t *testing.T, seed uint64, designs int) {
	g, n, began := newGenerator(seed), startInNetwork(t), time.Now()
	g.network, g.actions = true, true
	n.Does("mkdir -p /etc/slipway; echo " + quoted(marker) + " > /etc/slipway/marker.json")
	passes, programs := 0, map[string]int{}
	for range designs {
		d := g.design()
		n.converges(d)
		p, ran := n.passAgain(d)
		passes += p
		for name, times := range ran {
			programs[name] += times
		}
	}
	if programs["tracer"]+passes == 0 || len(programs) == 0 {
		t.Error("nothing was traced")
	}
	t.Logf("%d designs, %d passes of facets, programs %v, in %s", designs, passes, programs, time.Since(began).Round(time.Second))
}

// passAgain makes each facet of a node that is as designed once more.
func (n *node) passAgain(d *site.Node) (passes int, programs map[string]int) {
	t := n.t
	t.Helper()
	programs = map[string]int{}
	m := n.open(t)
	defer m.Close()
	seen, err := look(t.Context(), n, m, d)
	if err != nil {
		t.Fatal(err)
	}
	before := n.Does(ctimes)
	n.arm(0, "helper")
	if _, err := look(t.Context(), n, m, d); err != nil {
		t.Fatal(err)
	}
	for _, f := range site.InsideFacets {
		if len(d.Items(f)) == 0 {
			continue
		}
		if err := step(t.Context(), m, d, f, seen); err != nil {
			t.Errorf("%s: %v\nthe design: %s", f, err, told(d))
		}
		passes++
	}
	n.disarm()
	for line := range strings.Lines(n.Does("cat " + writesFile)) {
		line = strings.TrimSpace(line)
		if program, is := strings.CutPrefix(line, "exec "); is {
			path, words := strings.Fields(program)[0], strings.Fields(program)[1:]
			name := filepath.Base(path)
			if programs[name]++; !isReader(name, words) {
				t.Errorf("ran %s", program)
			}
		} else if !strings.HasSuffix(line, " /var/lib/slipway-inside/lock") {
			t.Errorf("write %s", line)
		}
	}
	if after := n.Does(ctimes); after != before {
		t.Errorf("files changed:\n%s", difference(after, before))
	}
	return passes, programs
}

// isReader says whether a program that was run changes nothing.
func isReader(name string, words []string) bool {
	switch {
	case strings.HasPrefix(name, "helper-"), slices.Contains([]string{"sh", "id", "cat", "tr", "head", "sed", "grep", "cut", "uname", "ip", "lsblk", "df", "findmnt", "mount", "timeout", "test"}, name):
		return true
	}
	verbs, known := readers[name]
	return known && (verbs == nil || slices.ContainsFunc(words, func(w string) bool {
		word, err := strconv.Unquote(w)
		return err == nil && slices.Contains(verbs, word)
	}))
}
