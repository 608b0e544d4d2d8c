package site

import (
	"encoding/json"
	"testing"
)

// FuzzSize reads amounts of any text: what is one is positive, and reads back
// as what it writes.
func FuzzSize(f *testing.F) {
	for _, text := range []string{"20GiB", "960GB", "1kB", "8191PiB", "9223PB", "0GiB", "-1MB", "+5MiB", "007TB", "1e3MB", "GiB", "20", "20 GiB", "20gib", "9999999999PiB", "1KB", "1BiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSize(text)
		if err != nil {
			return
		}
		if s < 1 {
			t.Errorf("%q is %d bytes", text, s)
		}
		if again, err := ParseSize(s.String()); err != nil || again != s {
			t.Errorf("%q writes itself as %s, which is %d bytes and not %d: %v", text, s, again, s, err)
		}
	})
}

// FuzzExtent reads extents of any text: each takes something, and reads back as what
// it writes.
func FuzzExtent(f *testing.F) {
	for _, text := range []string{"20GiB", ">50GiB", "25%", "100%", "0%", "101%", ">25%", ">>1GiB", "%", "-5%", "+5%", "050%", "1.5%", "25%%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExtent(text)
		if err != nil {
			return
		}
		if e.IsZero() {
			t.Errorf("%q is nothing", text)
		}
		if again, err := ParseExtent(e.String()); err != nil || again != e {
			t.Errorf("%q writes itself as %s, which is %+v and not %+v: %v", text, e, again, e, err)
		}
	})
}

// FuzzRate reads rates of any text: what is one is positive, and reads back as
// what it writes.
func FuzzRate(f *testing.F) {
	for _, text := range []string{"25Gb/s", "100Mb/s", "0Gb/s", "-1Gb/s", "+1Gb/s", "2147483647Gb/s", "Gb/s", "1Tb/s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRate(text)
		if err != nil {
			return
		}
		if r < 1 {
			t.Errorf("%q is %d Mb/s", text, r)
		}
		if again, err := parseRate(r.String()); err != nil || again != r {
			t.Errorf("%q writes itself as %s, which is %d and not %d: %v", text, r, again, r, err)
		}
	})
}

// FuzzQuorum asks for what is enough of some: never less than nothing, and of a
// share never more than there are.
func FuzzQuorum(f *testing.F) {
	for _, text := range []string{"all", "2", "50%", "1%", "100%", "", "-1", "99999999999999999999", "1e3"} {
		f.Add(text, 7)
	}
	f.Fuzz(func(t *testing.T, text string, total int) {
		if total < 0 || total > 1_000_000 {
			return
		}
		enough := Quorum(text).Of(total)
		if text == "all" && enough != total {
			t.Errorf("all of %d are %d", total, enough)
		}
		if share := text; len(share) > 1 && len(share) < 4 && share[0] >= '1' && share[0] <= '9' && share[len(share)-1] == '%' && enough > total {
			t.Errorf("%q of %d are %d", text, total, enough)
		}
	})
}

// FuzzSelector selects a node in every way: what a selector selects, its
// opposite does not; with itself beside it, or in all of it, it is the same.
func FuzzSelector(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"names": ["n*", "[a-"]}`, `{"tags": ["gpu"], "labels": {"tier": ""}}`, `{"labels": {"tier": "b"}, "racks": ["r1"]}`,
		`{"any": [{"roles": ["compute"]}, {"not": {"names": ["n1"]}}], "all": [{}]}`, `{"not": {"not": {"not": {}}}}`, `{"names": ["**********************b"]}`,
	} {
		f.Add([]byte(text), "n1", "r1", "tier", "a")
	}
	f.Fuzz(func(t *testing.T, text []byte, name, rack, label, value string) {
		var s Selector
		if json.Unmarshal(text, &s) != nil {
			return
		}
		n := &Node{Name: name, Rack: rack, Role: value, Labels: map[string]string{label: value}, Tags: map[string]bool{label: true, rack: false}}
		selects := s.Selects(n)
		for how, same := range map[string]Selector{
			"twice not": {Not: &Selector{Not: &s}}, "any of one": {Any: []Selector{s}},
			"all of it": {All: []Selector{s, {}}}, "any, too": {Any: []Selector{s, {Not: &Selector{}}}},
		} {
			if same.Selects(n) != selects {
				t.Errorf("%s selects %v: %v; %s: %v", text, n, selects, how, !selects)
			}
		}
		if opposite := (&Selector{Not: &s}); opposite.Selects(n) == selects {
			t.Errorf("%s and its opposite both say %v of %v", text, selects, n)
		}
	})
}
