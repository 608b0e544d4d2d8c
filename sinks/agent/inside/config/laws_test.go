package config

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

func contentUnit(target string) string {
	return "[Service]\nExecStart=/bin/sleep 1\n[Install]\nWantedBy=" + target + "\n"
}

// design is a random design over few names, so that designs meet.
func design(r *rand.Rand) (items []item.Item) {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	maybe := func() bool { return r.IntN(2) == 0 }
	for _, path := range []string{"/etc/motd", "/etc/new", "/srv/a/b/c", "/srv/a/b/d", "/srv/a/e"} {
		switch r.IntN(4) {
		case 0, 1:
			items = append(items, file(path, pick("x", "y\n", "before\n"), pick("0644", "0600", "0755"), pick("root", "ops")))
		case 2:
			items = append(items, absent(path))
		}
	}
	if r.IntN(8) == 0 { // a file in the place of a folder
		items = slices.DeleteFunc(items, func(i item.Item) bool { return strings.HasPrefix(i.Key, "files./srv/a/b/") })
		items = append(items, file("/srv/a/b", "file", "0644", "root"))
	}
	for _, n := range []string{"a.service", "b.service", "own.service", "masked.service"} {
		if maybe() {
			items = append(items, unit(n, pick("", "", contentUnit("multi-user.target"), contentUnit("basic.target")), pick("", "enabled", "disabled"), pick("", "running", "stopped")))
		} else if maybe() {
			items = append(items, unit(n, "", "", "masked"))
		}
	}
	if maybe() {
		items = append(items, unit("new.service", pick(contentUnit("multi-user.target"), contentUnit("basic.target")), pick("", "enabled", "disabled"), pick("", "running", "stopped")))
	}
	for _, n := range []string{"a.service", "own.service"} {
		if maybe() && !slices.ContainsFunc(items, func(i item.Item) bool { return i.Key == "units."+n }) {
			items = append(items, unlisted(n))
		}
	}
	for _, n := range []string{"net.ipv4.ip_forward", "vm.swappiness", "net.ipv4.conf.eth0/1.forwarding"} {
		if maybe() {
			items = append(items, sysctl(n, pick("0", "1", "10")))
		}
	}
	for _, n := range []string{"dummy", "bonding"} {
		if maybe() {
			items = append(items, module(n, pick("", "a=1", "a=2, b=3")))
		}
	}
	return items
}

// following is a design as the daemon asks for it after another one: a unit that left the design is
// as it was before it is disabled.
func following(last, next []item.Item) []item.Item {
	return slices.DeleteFunc(next, func(i item.Item) bool {
		return item.Kind(i.Key) == item.KindUnlisted && slices.Contains(item.Keys(last), "units."+item.ID(i.Key))
	})
}

func left(before, after []item.Item) []string {
	return slices.DeleteFunc(item.Keys(before), func(k string) bool { return slices.Contains(item.Keys(after), k) })
}

// A system that had many designs is as one that had the last alone.
func TestTheLastDesignAloneCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := newFake(t)
	var last []item.Item
	for n := range 200 {
		next := following(last, design(r))
		if err := f.apply(next, left(last, next)...); err != nil {
			t.Fatalf("design %d: %v\n%v", n, err, item.Values(next))
		}
		if wrong := f.met(next); len(wrong) > 0 {
			t.Fatalf("design %d is not met: %s\n%s", n, strings.Join(wrong, "\n"), f.listing(false))
		}
		fresh := newFake(t)
		if err := fresh.apply(next); err != nil {
			t.Fatalf("design %d on a fresh system: %v", n, err)
		}
		if got, want := f.listing(false), fresh.listing(false); got != want {
			t.Fatalf("design %d after %v\nand\n%v\ndiffers from a fresh system:\n%s", n, item.Values(last), item.Values(next), difference(got, want))
		}
		last = next
	}
	if err := f.apply(nil, item.Keys(last)...); err != nil {
		t.Fatal(err)
	}
	if got, want := f.listing(false), newFake(t).listing(false); got != want {
		t.Errorf("without a design the system is not as before:\n%s", difference(got, want))
	}
	if keys := f.host.Owned.Keys(name); len(keys) > 0 {
		t.Errorf("still owned: %v", keys)
	}
}

func difference(got, want string) string {
	var out []string
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range g {
		if !slices.Contains(w, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range w {
		if !slices.Contains(g, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// A second call writes nothing.
func TestASecondApplyWritesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		f, items := newFake(t), design(r)
		if err := f.apply(items); err != nil {
			t.Fatal(err)
		}
		f.reload()
		before, writes := f.listing(true), f.writes
		if err := f.apply(items); err != nil {
			t.Fatal(err)
		}
		f.met(items)
		if after := f.listing(true); after != before || f.writes != writes {
			t.Fatalf("%d writes:\n%s", f.writes-writes, difference(after, before))
		}
	}
}

// A call that is cut off after any write is gone on with by the same call.
func TestCutOffAfterEachWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	cuts := 0
	for range 4 {
		first, second := design(r), design(r)
		second = following(first, second)
		for limit := 1; ; limit++ {
			f := newFake(t)
			if err := f.apply(first); err != nil {
				t.Fatal(err)
			}
			f.writes, f.limit = 0, limit
			err := f.apply(second, left(first, second)...)
			f.limit = 0
			f.reload()
			if again := f.apply(second, left(first, second)...); again != nil {
				t.Fatalf("after %d writes: %v, and again: %v", limit, err, again)
			}
			fresh := newFake(t)
			if err := fresh.apply(second); err != nil {
				t.Fatal(err)
			}
			if got, want := f.listing(false), fresh.listing(false); got != want {
				t.Fatalf("cut after %d writes (%v), from %v\nto %v:\n%s\ncalls: %s", limit, err, item.Values(first), item.Values(second), difference(got, want), strings.Join(f.calls, "\n"))
			}
			if wrong := f.met(second); len(wrong) > 0 {
				t.Fatalf("cut after %d writes: %v", limit, wrong)
			}
			if err == nil {
				break
			}
			cuts++
		}
	}
	if cuts < 60 {
		t.Errorf("only %d cuts", cuts)
	}
}
