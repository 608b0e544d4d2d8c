package pkcs11

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/hostfile"
	"github.com/slipway-gitops/slipway/engine/keyfile"
)

// Settings is where the settings of a host are unless a sealed file names another one.
const Settings = "/etc/slipway/pkcs11.conf"

// owner is whose the settings, the module and the program have to be. Tests set it to their own user.
var owner uint32

// ruled is what whoever changes the settings or the module could change.
const ruled = "what runs here, and what gets the PIN"

// settings say which module opens secrets on a host. The file belongs to root, and nobody else may change it:
//
//	module: /usr/lib/x86_64-linux-gnu/opensc-pkcs11.so
//	pin: /var/lib/slipway-key/token.pin
//	environment: SOFTHSM2_CONF=/etc/softhsm/softhsm2.conf
//	program: /usr/lib/slipway/slipway-pkcs11
//
// The PIN is in a file that only its owner can read or, by a name without a slash, among the credentials that systemd
// gave to the service. A line "environment" sets a variable for the module; there may be several.
type settings struct {
	file, module, pin, program string
	environment                []string
}

const mostSettings = 16 << 10

func readSettings(file string) (*settings, error) {
	if !filepath.IsAbs(file) {
		return nil, errDamaged
	}
	text, err := hostfile.Read(file, owner, mostSettings, ruled)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s: make it as root, with the lines \"module: /path/of/the/module.so\" and \"pin: /path/of/the/file\"", file)
	}
	if err != nil {
		return nil, err
	}
	s := &settings{file: file}
	if err := hostfile.EachSetting(text, "module, pin, environment and program", s.take); err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	switch {
	case s.module == "":
		return nil, fmt.Errorf("%s: there is no line \"module: /path/of/the/module.so\"", file)
	case s.pin == "":
		return nil, fmt.Errorf("%s: there is no line \"pin: /path/of/the/file\"", file)
	}
	if s.program == "" {
		s.program = installed()
	}
	for _, path := range []string{s.module, s.program} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s names %s, which is not there: install it, or correct the path", file, path)
		}
		if err == nil {
			err = hostfile.OfOwnerAlone(path, info, owner, ruled)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *settings) take(key, value string, _ int) (bool, error) {
	var err error
	switch key {
	case "module":
		s.module, err = value, whole(value)
	case "program":
		s.program, err = value, whole(value)
	case "pin":
		s.pin = value
		if strings.Contains(value, "/") {
			err = whole(value)
		}
	case "environment":
		s.environment = append(s.environment, value)
		if name, _, ok := strings.Cut(value, "="); !ok || name == "" {
			err = errors.New("is not a variable: write NAME=VALUE")
		}
	default:
		return false, nil
	}
	return true, err
}

func whole(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("the path does not begin with \"/\": write the whole path")
	}
	return nil
}

// programName is the program that loads modules.
const programName = "slipway-pkcs11"

// installed is where the program is: beside this one, or where the packages put it.
func installed() string {
	if me, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(me), programName)
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	return "/usr/lib/slipway/" + programName
}

// mostPIN limits the size of a PIN's file, in bytes.
const mostPIN = 256

// readPIN returns the PIN, and what tells it from another PIN at the same place, so that one that the token refused is
// not sent again. What systemd hands over has another inode and time after each start, so it cannot be told from another.
func (s *settings) readPIN() (pin []byte, stamp string, err error) {
	at, err := s.pinFile()
	if err != nil {
		return nil, "", err
	}
	text, err := keyfile.Read(at, mostPIN)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("the PIN of the token: there is no file %s: write the PIN into one of mode 0400, or correct the line \"pin\" in %s", at, s.file)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the PIN of the token: %w", err)
	}
	pin = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(pin) == 0 {
		return nil, "", fmt.Errorf("the PIN of the token: %s is empty", at)
	}
	if !filepath.IsAbs(s.pin) {
		return pin, "credential " + s.pin, nil
	}
	info, err := os.Stat(at)
	if err != nil {
		clear(text)
		return nil, "", err
	}
	st := info.Sys().(*syscall.Stat_t)
	return pin, fmt.Sprintf("%s %d %d %d.%09d", at, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec), nil
}

// pinFile is the file of the PIN.
func (s *settings) pinFile() (string, error) {
	if filepath.IsAbs(s.pin) {
		return s.pin, nil
	}
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	if folder == "" {
		return "", fmt.Errorf("systemd gave this process no credentials, and %s says that the PIN is the credential %s: run the command within the service's credentials (systemd-run --pipe --property LoadCredential=%s:FILE), or name a file of mode 0400", s.file, s.pin, s.pin)
	}
	for _, name := range []string{s.pin, "credentials_" + s.pin} {
		if at := filepath.Join(folder, name); exists(at) {
			return at, nil
		}
	}
	return "", fmt.Errorf("systemd did not give the credential %s to this service, which is the PIN by %s: add LoadCredential=%s:FILE to the unit", s.pin, s.file, s.pin)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
