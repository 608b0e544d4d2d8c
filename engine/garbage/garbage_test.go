package garbage

import "testing"

// The garbage brings all to the total, between the least and the largest, and is never less than a tenth or more than four
// times of what is kept.
func TestPercentOf(t *testing.T) {
	for kept, want := range map[uint64]int{
		0:          400,
		1 << 20:    400,
		50 << 20:   400,
		100 << 20:  200, // the largest
		160 << 20:  100,
		240 << 20:  33,
		300 << 20:  16, // the least
		1000 << 20: 10,
	} {
		if got := percentOf(kept); got != want {
			t.Errorf("%d MiB kept: %d %%, not %d", kept>>20, got, want)
		}
	}
}
