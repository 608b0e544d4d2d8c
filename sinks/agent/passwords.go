package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

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

// longestPassword is what crypt(3) of every system takes, in bytes.
const longestPassword = 255

// hashOf is the hash of an account's password with a setting; false for a setting that
// is not of SHA-512 crypt. Its error is a sentence for people.
func (m *machine) hashOf(i item.Item, setting string) (string, bool, error) {
	value, err := valueOf(i, m.getter())
	if err != nil {
		return "", false, err
	}
	credential, _ := i.Credential()
	return m.hashOfValue(i.Key, value, credential, setting)
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

// comparePassword says whether an account has the password that is designed, by what the
// machine told of it.
func (m *machine) comparePassword(s *site.FacetState, i item.Item, is item.Hash) {
	setting := cmp.Or(is.Setting, m.settingOf(i.Key), newSetting()) // without one, to learn whether there is a password to be set
	hash, ok, err := m.hashOf(i, setting)
	switch {
	case err != nil:
		cannot(s, err, i.Key)
	case ok && item.Digest([]byte(hash)) == is.Digest:
		if s.Have != nil {
			s.Have[item.Name(i.Key, "password")] = i.Fields["password"]
		}
	case is.Setting == setting:
		m.forget(i.Key) // the salt of another password is not used again
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

// hashToSet is the hash of an account's password that is about to be set. A hash that the
// machine was seen to have of the right password stays.
func (m *machine) hashToSet(i item.Item) (string, error) {
	hash, _, err := m.hashOf(i, cmp.Or(m.settingOf(i.Key), newSetting()))
	return hash, err
}

// newHashes make hashes for a system that has none of them yet.
func newHashes(get values) func(item.Item) (string, error) {
	return func(i item.Item) (string, error) {
		value, err := valueOf(i, get)
		if err != nil {
			return "", err
		}
		credential, _ := i.Credential()
		hash, _, err := hashWith(value, credential, newSetting())
		return hash, err
	}
}

// giveHash puts the hash of a password into an account's item.
func giveHash(i item.Item, hashOf func(item.Item) (string, error)) (item.Item, error) {
	hash, err := hashOf(i)
	if err != nil {
		return i, err
	}
	var body item.User
	if err := json.Unmarshal(i.Body, &body); err != nil {
		return i, err
	}
	body.Password = hash
	fields := maps.Clone(i.Fields)
	fields["password"] = item.Digest([]byte(hash))
	return item.New(i.Key, fields, body), nil
}
