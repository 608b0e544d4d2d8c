package item

import (
	"slices"
	"testing"
)

// Two disks of one serial number are two, where their WWNs say so; one that tells less on another
// path is one.
func TestWhichDisksAreOne(t *testing.T) {
	for name, c := range map[string]struct {
		x, y Disk
		want bool
	}{
		"two namespaces":            {Disk{Serial: "S", WWN: "a"}, Disk{Serial: "S", WWN: "b"}, false},
		"two paths":                 {Disk{Serial: "S", WWN: "a"}, Disk{Serial: "S", WWN: "a"}, true},
		"one path tells no number":  {Disk{Serial: "S", WWN: "a"}, Disk{WWN: "a"}, true},
		"one path tells no WWN":     {Disk{Serial: "S", WWN: "a"}, Disk{Serial: "S"}, true},
		"a WWN with two numbers":    {Disk{Serial: "S", WWN: "a"}, Disk{Serial: "T", WWN: "a"}, true},
		"neither tells anything":    {Disk{}, Disk{}, false},
		"one of each":               {Disk{Serial: "S"}, Disk{WWN: "a"}, false},
		"two without a WWN":         {Disk{Serial: "S"}, Disk{Serial: "S"}, true},
		"two numbers without a WWN": {Disk{Serial: "S"}, Disk{Serial: "T"}, false},
	} {
		if c.x.IsSame(c.y) != c.want || c.y.IsSame(c.x) != c.want {
			t.Errorf("%s: %v, %v", name, c.x.IsSame(c.y), c.y.IsSame(c.x))
		}
	}
}

// What came of one namespace of a drive does not take the place of what came of another one.
func TestErasuresOfOneDrive(t *testing.T) {
	failed, done := Erasure{Serial: "S", WWN: "b"}, Erasure{Serial: "S", WWN: "a", Done: true}
	all := WithErasure(WithErasure(nil, failed), done)
	if len(all) != 2 || !slices.ContainsFunc(all, func(e Erasure) bool { return e.ID() == "S/b" && !e.Done }) {
		t.Errorf("got %v", all)
	}
	failed.Done = true
	if all = WithErasure(all, failed); len(all) != 2 || !all[0].Done || !all[1].Done {
		t.Errorf("once it is erased too: %v", all)
	}
}
