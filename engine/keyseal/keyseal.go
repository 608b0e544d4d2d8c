// Package keyseal reads key files that may be sealed to a device of this host: to its TPM, or to a key on a token.
package keyseal

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/keyfile"
	"github.com/slipway-gitops/slipway/engine/pkcs11"
	"github.com/slipway-gitops/slipway/engine/tpm"
)

// Device is the kind of device that a key file is sealed to.
type Device string

// The kinds of device.
const (
	None  Device = ""
	TPM   Device = "the TPM"
	Token Device = "a token"
)

// Read reads a key file of at most so many bytes, as keyfile.Read does, and unseals it. With an error by says which
// device should have opened the file.
func Read(path string, most int64, p pkcs11.Purpose) (text []byte, by Device, err error) {
	if text, err = keyfile.Read(path, most); err != nil {
		return nil, None, err
	}
	text, by, err = open(text, p, path)
	if err != nil {
		err = fmt.Errorf("%s is sealed to %s: %w", path, by, err)
	}
	return text, by, err
}

// open unseals a text if it is sealed.
func open(text []byte, p pkcs11.Purpose, file string) ([]byte, Device, error) {
	switch {
	case tpm.IsSealed(text):
		text, err := tpm.Unseal(text)
		return text, TPM, err
	case pkcs11.IsSealed(text):
		text, err := pkcs11.Unseal(text, p, file)
		return text, Token, err
	}
	return text, None, nil
}

// Put puts a sealed text into a file, in the place of another one if there is one. Before that it opens the text, to
// prove that the device gives the secret back: otherwise the file stays as it is.
func Put(path string, sealed, secret []byte, p pkcs11.Purpose, isThere bool) error {
	opened, by, err := open(sealed, p, path)
	same := bytes.Equal(opened, secret)
	clear(opened)
	switch {
	case err != nil:
		return err
	case by == None || !same:
		return errors.New("the device returned something else than what was sealed")
	case isThere:
		return keyfile.Replace(path, sealed)
	}
	return keyfile.Create(path, sealed)
}
