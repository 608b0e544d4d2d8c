package site

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is an amount of memory or storage in bytes. Its text has a unit
// ("20GiB", "960GB").
type Size int64

// units are the units of a size, largest first, the binary ones before the
// decimal ones of the same rank.
var units = []struct {
	name  string
	bytes int64
}{
	{"PiB", 1 << 50}, {"PB", 1e15}, {"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9},
	{"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3},
}

// ParseSize parses a whole number with a unit: "20GiB" is 20 × 2^30 bytes,
// "20GB" is 20 × 10^9.
func ParseSize(text string) (Size, error) {
	digits := strings.TrimRight(text, "KMGTPikB")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("size %q is not a whole number with a unit, such as 20GiB", text)
	}
	for _, u := range units {
		if u.name != text[len(digits):] {
			continue
		}
		if n > math.MaxInt64/u.bytes {
			return 0, fmt.Errorf("size %q is too large", text)
		}
		return Size(n * u.bytes), nil
	}
	return 0, fmt.Errorf("size %q has no unit, such as GiB or GB", text)
}

// String returns the size in the largest unit that gives a whole number.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Plus returns the sum of two sizes, at most the largest Size.
func (s Size) Plus(other Size) Size {
	if s > math.MaxInt64-other {
		return math.MaxInt64
	}
	return s + other
}

// Times returns a multiple of a size, at most the largest Size.
func (s Size) Times(n int) Size {
	if s > 0 && n > 0 && Size(n) > math.MaxInt64/s {
		return math.MaxInt64
	}
	return s * Size(n)
}

// MarshalText writes what String returns.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what ParseSize reads.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// Extent is how much of a whole something takes: Size bytes; at least Size and
// then the rest, if Rest is set; or Share per cent, if that is not 0. The zero
// Extent is unset.
type Extent struct {
	Size  Size
	Rest  bool
	Share int
}

// ParseExtent parses "20GiB", ">50GiB" or "25%".
func ParseExtent(text string) (Extent, error) {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.Atoi(share)
		if err != nil || n < 1 || n > 100 {
			return Extent{}, fmt.Errorf("share %q is not from 1%% to 100%%", text)
		}
		return Extent{Share: n}, nil
	}
	rest, atLeast := strings.CutPrefix(text, ">")
	size, err := ParseSize(rest)
	return Extent{Size: size, Rest: atLeast}, err
}

// IsZero reports whether the extent is unset.
func (e Extent) IsZero() bool { return e == Extent{} }

// String returns the extent in the form that ParseExtent reads.
func (e Extent) String() string {
	switch {
	case e.Share != 0:
		return strconv.Itoa(e.Share) + "%"
	case e.Rest:
		return ">" + e.Size.String()
	}
	return e.Size.String()
}

// MarshalText writes what String returns.
func (e Extent) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what ParseExtent reads.
func (e *Extent) UnmarshalText(text []byte) (err error) {
	*e, err = ParseExtent(string(text))
	return err
}

// Rate is the speed of a link in Mb/s. Its text has a unit ("25Gb/s").
type Rate int64

// parseRate parses a whole number of "Mb/s" or "Gb/s".
func parseRate(text string) (Rate, error) {
	for unit, factor := range map[string]int64{"Gb/s": 1000, "Mb/s": 1} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			if err != nil || n < 1 {
				break
			}
			return Rate(n * factor), nil
		}
	}
	return 0, fmt.Errorf("rate %q is not a whole number of Mb/s or Gb/s, such as 25Gb/s", text)
}

// String returns the rate in Gb/s if that is a whole number, else in Mb/s.
func (r Rate) String() string {
	if r%1000 == 0 {
		return strconv.FormatInt(int64(r/1000), 10) + "Gb/s"
	}
	return strconv.FormatInt(int64(r), 10) + "Mb/s"
}

// MarshalText writes what String returns.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what parseRate reads.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = parseRate(string(text))
	return err
}

// Quorum is how many of a number are enough: "all", a count ("2") or a
// percentage ("50%", rounded up).
type Quorum string

// Of returns how many of total are enough. A count may exceed total.
func (q Quorum) Of(total int) int {
	if share, ok := strings.CutSuffix(string(q), "%"); ok {
		n, _ := strconv.Atoi(share)
		return (total*n + 99) / 100
	}
	if n, err := strconv.Atoi(string(q)); err == nil {
		return n
	}
	return total
}
