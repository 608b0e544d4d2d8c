package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The password of an account never leaves the daemon: the machine is sent a salted
// hash, and tells the salt and a digest of the hash that it has, from which the daemon
// computes whether it is of the right password.

// hashed is a password that was hashed, which takes some milliseconds.
type hashed struct {
	value         secret.Value
	setting, hash string
}

// Credentials implements driver.Keyholder.
func (m *machine) Credentials(get func(name string) (secret.Value, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.credentials = get
}

// withPassword are the keys of the accounts whose password is designed.
func withPassword(items []item.Item) (keys []string) {
	for _, i := range items {
		if _, designed := credentialOf(i); designed {
			keys = append(keys, i.Key)
		}
	}
	return keys
}

// credentialOf is the name of the credential whose value is an account's password.
func credentialOf(i item.Item) (name string, designed bool) {
	name, designed = strings.CutPrefix(i.Fields["password"], item.PasswordOf(""))
	return name, designed && item.Kind(i.Key) == item.KindUsers
}

// longestPassword is what crypt(3) of every system takes, in bytes.
const longestPassword = 255

// hashOf is the hash of an account's password with a setting; false for a setting that
// is not of SHA-512 crypt. Its error is a sentence for people.
func (m *machine) hashOf(key, credential, setting string) (string, bool, error) {
	value, err := valueOf(credential, m.getter())
	if err != nil {
		return "", false, err
	}
	return m.hashOfValue(key, value, credential, setting)
}

// getter gives the values of credentials; nil where there are none.
func (m *machine) getter() func(name string) (secret.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.credentials
}

// hashOfValue is the hash of a password with a setting, which is the one of before as long as both are.
func (m *machine) hashOfValue(key string, value secret.Value, credential, setting string) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was := m.hashes[key]; was.value == value && was.setting == setting {
		return was.hash, true, nil
	}
	hash, ok, err := hashWith(value, credential, setting)
	if !ok || err != nil {
		return "", false, err
	}
	if m.hashes == nil {
		m.hashes = map[string]hashed{}
	}
	m.hashes[key] = hashed{value, setting, hash}
	return hash, true, nil
}

// valueOf is the value of the credential of an account. Its error is a sentence for people.
func valueOf(credential string, get func(name string) (secret.Value, error)) (secret.Value, error) {
	if get == nil {
		return secret.Value{}, fmt.Errorf("its password is the credential %q, and there are no credentials here", credential)
	}
	value, err := get(credential)
	if err != nil {
		return secret.Value{}, fmt.Errorf("its password cannot be set: %w", err)
	}
	return value, nil
}

// hashWith is the hash of a password with a setting; false for a setting that is not of
// SHA-512 crypt.
func hashWith(value secret.Value, credential, setting string) (string, bool, error) {
	password, err := value.Password()
	if err == nil && len(password) > longestPassword {
		err = errors.New("it is longer than the 255 bytes that every system takes")
	}
	if err != nil {
		return "", false, fmt.Errorf("its password cannot be set: credential %q: %w", credential, err)
	}
	hash, ok := sha512crypt(password, setting)
	return hash, ok, nil
}

// comparePasswords says in the state of the facet base which accounts have the password
// that is designed. No digest of a hash stays in it.
func (m *machine) comparePasswords(s *site.FacetState, items []item.Item, told map[string]item.Hash) {
	for field, v := range s.Have { // what the machine says of a credential is not believed
		if item.Kind(field) == item.KindUsers && strings.HasSuffix(field, ".password") && strings.HasPrefix(v, item.PasswordOf("")) {
			s.Have[field] = item.OtherPassword
		}
	}
	for _, i := range items {
		credential, designed := credentialOf(i)
		if !designed {
			continue
		}
		field, is := item.Name(i.Key, "password"), told[i.Key]
		setting := cmp.Or(is.Setting, m.settingOf(i.Key), newSetting()) // without one, to learn whether there is a password to be set
		hash, ok, err := m.hashOf(i.Key, credential, setting)
		switch {
		case err != nil:
			if s.Cannot == nil {
				s.Cannot = site.Values{}
			}
			s.Cannot[i.Key] = err.Error()
		case ok && item.Digest([]byte(hash)) == is.Digest:
			if s.Have != nil {
				s.Have[field] = i.Fields["password"]
			}
		case is.Setting == setting:
			m.forget(i.Key) // the salt of another password is not used again
		}
	}
	for field, v := range s.Have {
		isPassword := item.Kind(field) == item.KindUsers && strings.HasSuffix(field, ".password")
		if isPassword && !slices.Contains([]string{"none", "locked"}, v) && !strings.HasPrefix(v, item.PasswordOf("")) {
			s.Have[field] = item.OtherPassword
		}
	}
}

// settingOf is the setting of the last hash of an account's password, empty for none.
func (m *machine) settingOf(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hashes[key].setting
}

func (m *machine) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hashes, key)
}

// givePasswords puts the hashes of designed passwords into items that are about to be
// set. A hash that the machine was seen to have of the right password stays.
func (m *machine) givePasswords(items []item.Item) error {
	return giveHashes(items, func(key, credential string) (string, error) {
		hash, _, err := m.hashOf(key, credential, cmp.Or(m.settingOf(key), newSetting()))
		return hash, err
	})
}

// giveNewPasswords does the same for a system that has none of them yet.
func giveNewPasswords(items []item.Item, get func(name string) (secret.Value, error)) error {
	return giveHashes(items, func(_, credential string) (string, error) {
		value, err := valueOf(credential, get)
		if err != nil {
			return "", err
		}
		hash, _, err := hashWith(value, credential, newSetting())
		return hash, err
	})
}

func giveHashes(items []item.Item, hashOf func(key, credential string) (string, error)) error {
	for n, i := range items {
		credential, designed := credentialOf(i)
		if !designed {
			continue
		}
		hash, err := hashOf(i.Key, credential)
		if err != nil {
			return refused("%s: %w", i.Key, err)
		}
		var body item.User
		if err := json.Unmarshal(i.Body, &body); err != nil {
			return err
		}
		body.Password = hash
		i.Fields["password"] = item.Digest([]byte(hash))
		items[n] = item.New(i.Key, i.Fields, body)
	}
	return nil
}
