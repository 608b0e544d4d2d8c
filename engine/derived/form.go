package derived

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Form is the form of a password.
type Form struct {
	// Name is the form's name for people.
	Name   string
	Length int
	// Classes are the characters of the password, which has at least one of each
	// class.
	Classes []string
}

// The character classes of passwords: letters, digits, and the special characters that
// all vendors accept and no shell interprets.
var classes = []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "-_+="}

// usual is the default length. IPMI 2.0 accepts no longer password. On controllers
// with one user table for IPMI and Redfish, a longer Redfish password would disable
// the IPMI one.
const usual = 20

// bounds are the password lengths that controllers state; 0 for no limit.
type bounds struct{ min, max int }

// vendors are the limits by vendor, as AccountService of one controller of each
// reported them: iDRAC9 6.00, iLO 5 2.72, XCC 2.83, and Supermicro, AMI and OpenBMC.
var vendors = map[string]bounds{
	"":           {},
	"dell":       {0, 40},
	"hpe":        {8, 0},
	"lenovo":     {10, 32},
	"supermicro": {0, 20},
	"ami":        {0, 20},
	"openbmc":    {0, 20},
	"ipmi-1.5":   {0, 16},
}

// Vendors lists the names that FormOf knows.
func Vendors() []string {
	names := slices.Sorted(maps.Keys(vendors))
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// FormOf returns the form of passwords for the controllers of a vendor. An empty name
// gives the form that all of them accept.
func FormOf(vendor string) (Form, error) {
	b, ok := vendors[strings.ToLower(vendor)]
	if !ok {
		return Form{}, fmt.Errorf("no form of passwords is known for %q: use one of %s, or none for the form that all of them take", vendor, strings.Join(Vendors(), ", "))
	}
	f := Form{Name: "default", Length: usual, Classes: classes}
	if vendor != "" {
		f.Name = strings.ToLower(vendor)
	}
	return f.Within(b.min, b.max)
}

// Within adjusts the form's length to the limits that a controller states; 0 means no
// limit.
func (f Form) Within(least, most int) (Form, error) {
	if most > 0 && least > most {
		return f, fmt.Errorf("no password meets this policy: it has at least %d and at most %d characters", least, most)
	}
	f.Length = max(f.Length, least)
	if most > 0 {
		f.Length = min(f.Length, most)
	}
	return f, f.check()
}

// weakest is the minimum strength of a password, in bits.
const weakest = 64

// longest limits the length of a password.
const longest = 128

func (f Form) check() error {
	alphabet := strings.Join(f.Classes, "")
	for i, c := range []byte(alphabet) {
		if c <= ' ' || c > '~' || strings.IndexByte(alphabet[:i], c) >= 0 {
			return fmt.Errorf("the form %s is none: a character stands in it twice, or is not one that can be typed", f.Name)
		}
	}
	switch {
	case len(alphabet) == 0 || slices.Contains(f.Classes, ""):
		return fmt.Errorf("no password meets the form %s: a class of it has no characters", f.Name)
	case f.Length < len(f.Classes):
		return fmt.Errorf("no password meets the form %s: %d characters cannot be of %d classes", f.Name, f.Length, len(f.Classes))
	case f.Length > longest:
		return fmt.Errorf("the form %s asks for %d characters: at most %d are made", f.Name, f.Length, longest)
	case float64(f.Length)*math.Log2(float64(len(alphabet))) < weakest:
		return fmt.Errorf("a password of the form %s could be guessed: %d characters of %d have less than %d bits", f.Name, f.Length, len(alphabet), weakest)
	}
	return nil
}

// meets reports whether a password has a character of each class.
func (f Form) meets(password string) bool {
	return !slices.ContainsFunc(f.Classes, func(class string) bool { return !strings.ContainsAny(password, class) })
}
