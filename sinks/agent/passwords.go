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

// The password of an account never leaves the daemon. The daemon sends a salted hash. The machine reports the salt
// and a digest of its own hash. From these the daemon computes whether the password is right.

// hashed caches the hash of a password, because hashing takes some milliseconds.
type hashed struct {
	value         secret.Value
	setting, hash string
}

// longestPassword is the length that crypt(3) accepts on every system, in bytes.
const longestPassword = 255

// hashOf hashes an account's password with a setting. It returns false for a setting other than SHA-512 crypt. Its
// error is a sentence for people.
func (m *machine) hashOf(i item.Item, setting string) (string, bool, error) {
	value, err := valueOf(i, m.getter())
	if err != nil {
		return "", false, err
	}
	credential, _ := i.Credential()
	return m.hashOfValue(i.Key, value, credential, setting)
}

// hashOfValue hashes a password with a setting. It reuses the last hash if neither has changed.
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

// hashWith hashes a password with a setting. It returns false for a setting other than SHA-512 crypt.
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

// comparePassword records whether an account has the designed password, by the machine's report.
func (m *machine) comparePassword(s *site.FacetState, i item.Item, is item.Hash) {
	setting := cmp.Or(is.Setting, m.settingOf(i.Key), newSetting()) // a new setting if the machine has none, to learn whether the password can be read
	hash, ok, err := m.hashOf(i, setting)
	switch {
	case err != nil:
		cannot(s, err, i.Key)
	case ok && item.Digest([]byte(hash)) == is.Digest:
		if s.Have != nil {
			s.Have[item.Name(i.Key, "password")] = i.Fields["password"]
		}
	case is.Setting == setting:
		m.forget(i.Key) // do not reuse the salt of another password
	}
}

// settingOf is the setting of an account's last hash; empty for none.
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

// hashToSet is the password hash to set for an account. If the machine already has a hash of the right password,
// that hash stays.
func (m *machine) hashToSet(i item.Item) (string, error) {
	hash, _, err := m.hashOf(i, cmp.Or(m.settingOf(i.Key), newSetting()))
	return hash, err
}

// newHashes makes hashes for a system that has none yet.
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
