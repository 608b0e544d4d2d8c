package netlink

import "testing"

// The kernel that runs this test answers.
func TestNeighbors(t *testing.T) {
	if _, err := Neighbors(); err != nil {
		t.Error(err)
	}
}

// Whatever a kernel says, nothing falls over.
func FuzzNeighbors(f *testing.F) {
	f.Add([]byte{28, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, table []byte) {
		for _, n := range parseNeighbors(table) {
			if !n.Address.IsValid() {
				t.Errorf("%v", n)
			}
		}
	})
}
