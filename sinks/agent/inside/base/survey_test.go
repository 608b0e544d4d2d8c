package base

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
)

// newPeople is a system with accounts of people.
func newPeople(t testing.TB) *fake {
	s := newFake(t)
	for name, uid := range map[string]int{"ana": 1000, "ben": 1001, "carl": 1002, "Dora.X": 1003, "nobody": 65534} {
		s.add("/etc/passwd", name+":x:"+text(uid)+":"+text(uid)+"::/home/"+name+":/bin/bash")
		s.add("/etc/group", name+":x:"+text(uid)+":")
		s.add("/etc/shadow", name+":$6$salt$secret-of-"+name+":19000::::::")
	}
	s.put("/etc/group", strings.Replace(s.get("/etc/group"), "docker:x:800:", "docker:x:800:ana", 1))
	for name, keys := range map[string]string{"ana": "# mine\n" + keyA + "\n" + keyC + "\n", "ben": `from="10.0.0.0/8" ` + keyB + "\n"} {
		s.put("/home/"+name+"/.ssh/authorized_keys", keys)
	}
	for name, uid := range map[string]int{"ana": 1000, "ben": 1001} {
		for _, at := range []string{"", "/.ssh", "/.ssh/authorized_keys"} {
			s.must(os.Lchown(s.at("/home/"+name+at), uid, uid))
		}
	}
	s.put("/root/.ssh/authorized_keys", keyB+"\n")
	s.put("/etc/sudoers.d/carl", "carl ALL=(ALL) NOPASSWD: ALL\n")
	s.put("/etc/hosts", s.get("/etc/hosts")+"10.0.0.1 gate\n")
	return s
}

func text(n int) string { b, _ := json.Marshal(n); return string(b) }

func survey(s *fake) item.Found {
	s.t.Helper()
	before := s.list()
	found, err := s.facet().Survey(s.t.Context(), s.host())
	s.must(err)
	if s.list() != before || len(s.ran) > 0 {
		s.t.Errorf("the survey has written, or run %q", s.ran)
	}
	return found
}

// A survey tells of people, the clock and the host name what Observe tells of them,
// and of the rest why it does not.
func TestSurvey(t *testing.T) {
	s := newPeople(t)
	found := survey(s)
	if want := []string{"hostname", "time", "users.ana", "users.carl", "users.root"}; !slices.Equal(item.Keys(found.Items), want) {
		t.Errorf("got %q, want %q", item.Keys(found.Items), want)
	}
	seen := s.observe(item.Keys(found.Items)...)
	for name, want := range item.Values(found.Items) {
		if seen.Have[name] != want {
			t.Errorf("%s is %q, and the survey says %q", name, seen.Have[name], want)
		}
	}
	for _, i := range found.Items {
		var u item.User
		if i.Key != "users.ana" {
			continue
		}
		if err := json.Unmarshal(i.Body, &u); err != nil {
			t.Fatal(err)
		}
		want := item.User{UID: number(1000), Groups: []string{"docker"}, Shell: "/bin/bash", Keys: []string{keyA, keyC}}
		if diff := cmp.Diff(want, u); diff != "" {
			t.Error(diff)
		}
	}
	var left []string
	for _, l := range found.Left {
		left = append(left, l.What)
	}
	slices.Sort(left)
	want := []string{"/etc/hosts", "users.Dora.X", "users.ana.password", "users.ben", "users.carl.password", "users.carl.sudo", "users.root.password"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Error(diff)
	}
	told, err := json.Marshal(found)
	s.must(err)
	for _, secret := range []string{"$6$", "secret-of"} {
		if strings.Contains(string(told), secret) {
			t.Errorf("the survey tells of %q", secret)
		}
	}
}

// What was taken over as it is belongs to whoever made it: it stays when it leaves the
// design, also after Slipway has changed something beside it.
func TestTakenOverIsNotRemoved(t *testing.T) {
	s := newPeople(t)
	before, items := s.list(), survey(s).Items
	s.applies(items)
	if after := s.list(); after != before || len(s.owned()) > 0 && len(s.ran) > 0 {
		t.Errorf("making it as it is has changed:\n%s", difference(before, after))
	}
	more := append(slices.Clone(items), logs("udp://10.0.0.5"))
	s.applies(more)
	s.applies(nil, s.host().Owned.Keys(name)...)
	if after := s.list(); after != before {
		t.Errorf("what was there is not as before:\n%s", difference(before, after))
	}
}
