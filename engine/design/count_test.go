package design

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"cuelang.org/go/cue"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A count is the same with quotes and without.
func TestCountsWithQuotesAndWithout(t *testing.T) {
	for _, c := range [][2]string{
		{`site: rollout: maxUnavailable: 2`, `site: rollout: maxUnavailable: "2"`},
		{`site: rollout: maxFailures: 0`, `site: rollout: maxFailures: "0"`},
		{`roles: compute: maxUnavailable: 3`, `roles: compute: maxUnavailable: "3"`},
		{`roles: compute: minimum: 1`, `roles: compute: minimum: "1"`},
		{`nodes: n1: hardware: {sockets: 2, cpus: 64, dimms: 16, drives: 0, nics: 2, supplies: 2, gpus: 8}`,
			`nodes: n1: hardware: {sockets: "2", cpus: "64", dimms: "16", drives: "0", nics: "2", supplies: "2", gpus: "8"}`},
		{`nodes: n1: hardware: {memory: "64GiB", hugepages: g: {size: "1GiB", count: 4}}`, `nodes: n1: hardware: {memory: "64GiB", hugepages: g: {size: "1GiB", count: "4"}}`},
		{`nodes: n1: interfaces: eno9: {networks: ["mgmt"], sriov: functions: 4}`, `nodes: n1: interfaces: eno9: {networks: ["mgmt"], sriov: functions: "4"}`},
		{`nodes: n1: position: height: 2`, `nodes: n1: position: height: "2"`},
		{`racks: r9: units: 42`, `racks: r9: units: "42"`},
		{`hypervisors: h: {url: "libvirt+tls://10.0.0.1/system", cpus: 8}`, `hypervisors: h: {url: "libvirt+tls://10.0.0.1/system", cpus: "8"}`},
		{`roles: compute: needs: base: storage: quorum: 2`, `roles: compute: needs: base: storage: quorum: "2"`},
	} {
		var all [2]string
		for i, text := range c {
			r := over(t, text)
			for _, f := range r.Findings {
				if f.Severity == "error" {
					t.Errorf("%s: %s %s", text, f.Place(), f.Message)
				}
			}
			if r.Site == nil {
				t.Fatalf("%s has no site", text)
			}
			r.Site.Origins = nil
			for _, n := range r.Site.Nodes {
				n.Origins = nil // the columns differ
			}
			plain, err := json.Marshal(r.Site)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = string(plain)
		}
		if all[0] != all[1] {
			t.Errorf("%s and %s are not the same:\n%s\n%s", c[0], c[1], all[0], all[1])
		}
	}
}

// Every count of the schema is accepted with quotes and without, and in the same bounds. What is a number but counts
// nothing, such as a VLAN or a port, is written without.
func TestEveryCountWithQuotesAndWithout(t *testing.T) {
	count := regexp.MustCompile(`whole number of|a count|"all" or a whole number|^a whole number from 1( to 256)?$`)
	values := []int64{-1, 0, 1, 2, 9, 10, 99, 100, 101, 255, 256, 257, 999, 1000, 1023, 1024, 1025, 9999, 10000, 59999, 60000, 65535, 65536, 65537,
		99999, 100000, 999999, 1000000, 1000001, 999999999, 1000000000, 1000000001}
	seen, counts := map[*shape]bool{}, 0
	var walk func(path string, s *shape)
	walk = func(path string, s *shape) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		for name, f := range s.fields {
			walk(path+"."+name, f)
		}
		for _, e := range s.entries {
			walk(path+".*", e.shape)
		}
		walk(path+"[]", s.item)
		if s.kind&cue.IntKind == 0 || s.kind == cue.TopKind || !count.MatchString(s.form) {
			return
		}
		counts++
		for _, n := range values {
			if number, text := s.accepts(n), s.accepts(strconv.FormatInt(n, 10)); number != text {
				t.Errorf("%s, %s: accepts the number %d: %v, the text: %v", path, s.form, n, number, text)
			}
		}
		if !slices.ContainsFunc(values, func(n int64) bool { return s.accepts(n) }) {
			t.Errorf("%s accepts no number", path)
		}
	}
	for _, x := range sections {
		walk(x.name, shapes()[x.definition])
	}
	if counts < 20 {
		t.Errorf("found %d counts in the schema", counts)
	}
}

// CUE takes no number and text for one value. Where a file writes the one and another the other, the finding says
// that it is the quotes.
func TestOneCountInTwoForms(t *testing.T) {
	for text, want := range map[string][2]string{
		"roles: compute: minimum: 1\nroles: compute: minimum: \"1\"": {`roles.compute.minimum is the text "1" here and the number 1 at patch.cue:3:26`, "Write both without quotes, or remove one."},
		"roles: compute: minimum: \"1\"\nroles: compute: minimum: 1": {`roles.compute.minimum is the number 1 here and the text "1" at patch.cue:3:26`, "Write both without quotes, or remove one."},
		"roles: compute: minimum: 1\nroles: compute: minimum: \"2\"": {`roles.compute.minimum is set to "2" here and to 1 at patch.cue:3:26`, "Remove one of them, or put one into a profile, which a node overrides."},
		"nodes: n1: power: \"on\"\nnodes: n1: power: \"off\"":        {`nodes.n1.power is set to "off" here and to "on" at patch.cue:3:19`, "Remove one of them, or put one into a profile, which a node overrides."},
	} {
		r := over(t, text)
		i := slices.IndexFunc(r.Findings, func(f site.Finding) bool { return f.Code == "conflicting-values" })
		if i < 0 {
			t.Errorf("%s: no conflict: %v", text, saidOf(r))
			continue
		}
		if f := r.Findings[i]; f.Message != want[0] || f.Fix != want[1] || f.Place() != "patch.cue:4:"+f.Place()[len("patch.cue:4:"):] {
			t.Errorf("%s:\n%s %s\n%s", text, f.Place(), f.Message, f.Fix)
		}
	}
}
