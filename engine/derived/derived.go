// Package derived derives passwords from the root key of a site: a different one for
// each machine and purpose, in a form that the machine accepts. Nothing has to be
// stored, and a higher epoch gives the next password.
package derived

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Root is what values are derived from: the root key of a site (sitekey.Key).
type Root interface {
	// Derive returns size bytes for one use of the key.
	Derive(use string, size int) ([]byte, error)
}

// Of is what a value is for. Values for different purposes reveal nothing about each
// other.
type Of struct {
	Site    string
	Purpose string // such as "bmc account root"
	Machine string // its UUID, in any case
	Epoch   int    // from 1 to MostEpoch
}

// MostEpoch is the last epoch: more passwords than a machine ever needs.
const MostEpoch = 1_000_000

// streamSize is the most that HKDF-SHA-256 gives for one use (RFC 5869, 2.3).
const streamSize = 255 * 32

// Password derives a password. It turns the bytes of HKDF into characters of the
// form's alphabet, all equally likely, in runs of the form's length. The first run
// with a character of each class is the password.
func Password(root Root, of Of, f Form) (secret.Value, error) {
	if err := errors.Join(of.check(), f.check()); err != nil {
		return secret.Value{}, err
	}
	stream, err := root.Derive(use(of, f), streamSize)
	if err != nil {
		return secret.Value{}, err
	}
	alphabet := strings.Join(f.Classes, "")
	fair := 256 - 256%len(alphabet) // bytes from here on would favour the first characters
	run := make([]byte, 0, f.Length)
	for _, b := range stream {
		if int(b) >= fair {
			continue
		}
		if run = append(run, alphabet[int(b)%len(alphabet)]); len(run) < f.Length {
			continue
		}
		if f.meets(string(run)) {
			return secret.New("", string(run)), nil
		}
		run = run[:0]
	}
	return secret.Value{}, fmt.Errorf("no password of %d characters meets the form %s: choose a longer one or fewer classes", f.Length, f.Name)
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (o Of) check() error {
	uuid := strings.ToLower(o.Machine)
	switch {
	case o.Site == "" || o.Purpose == "":
		return errors.New("a derived password needs a site and a purpose")
	case !uuidForm.MatchString(uuid):
		return fmt.Errorf("%q is not the UUID of a machine, such as 4c4c4544-0051-4810-8057-b4c04f4a4e33: a derived password needs one, or several machines would have the same", o.Machine)
	case site.IsPlaceholderUUID(uuid):
		return fmt.Errorf("%q is what machines report that have no UUID: several would have the same password. Give the machine a UUID of its own, or use another credential", o.Machine)
	case o.Epoch < 1 || o.Epoch > MostEpoch:
		return fmt.Errorf("the epoch is %d: it is a number from 1 to %d, and is raised for the next password", o.Epoch, MostEpoch)
	}
	return nil
}

// use returns a text that is unique to a value: each part follows its length, so two
// values never give the same text.
func use(o Of, f Form) string {
	b := []byte("password v1")
	for _, part := range append([]string{o.Site, o.Purpose, strings.ToLower(o.Machine)}, f.Classes...) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(o.Epoch))
	return string(binary.BigEndian.AppendUint32(b, uint32(f.Length)))
}
