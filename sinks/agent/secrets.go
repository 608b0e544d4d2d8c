package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// A field of an item may be the value of a credential: the password of an account, or the content of a file. The
// design and the facet's state have only the credential's name. Slipway sends the value to the machine right before
// setting it. It compares the machine's report here.

// values returns the value of a credential, for one use.
type values = func(name string, use secret.Use) (secret.Value, error)

// uses maps the kind of an item to the use that its credential must allow.
var uses = map[string]secret.Use{item.KindUsers: secret.Account, item.KindFiles: secret.File}

// Credentials implements driver.Keyholder.
func (m *machine) Credentials(get values) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.credentials = get
}

// getter returns the function for credentials; nil if there is none.
func (m *machine) getter() values {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.credentials
}

// withCredential lists the keys of the items of a kind that have a credential as a field's value.
func withCredential(kind string, items []item.Item) (keys []string) {
	for _, i := range items {
		if _, designed := i.Credential(); designed && item.Kind(i.Key) == kind {
			keys = append(keys, i.Key)
		}
	}
	return keys
}

// withoutProven drops the files that hold a secret, and certificates, because an agent in the ramdisk is not
// identified by a host key. Slipway puts these there over SSH, once the system answers.
func withoutProven(items []item.Item) []item.Item {
	secretFiles := withCredential(item.KindFiles, items)
	return slices.DeleteFunc(slices.Clone(items), func(i item.Item) bool {
		return i.Key == item.KindSSHHost || item.Kind(i.Key) == item.KindCertificates || slices.Contains(secretFiles, i.Key)
	})
}

// valueOf returns the value of an item's credential. Its error is a sentence for people.
func valueOf(i item.Item, get values) (secret.Value, error) {
	credential, _ := i.Credential()
	field := item.CredentialField(item.Kind(i.Key))
	if get == nil {
		return secret.Value{}, fmt.Errorf("its %s is the credential %q, and there are no credentials here", field, credential)
	}
	value, err := get(credential, uses[item.Kind(i.Key)])
	if err != nil {
		return secret.Value{}, fmt.Errorf("its %s cannot be set: %w", field, err)
	}
	return value, nil
}

// compareSecrets records in a facet's state which fields match their credentials. It leaves no digest of a secret
// in the state.
func (m *machine) compareSecrets(s *site.FacetState, items []item.Item, told wire.Facet, keys map[string][]byte) {
	for name, v := range s.Have { // do not trust the machine's own claims about a credential
		if isCredentialField(name) && strings.HasPrefix(v, item.ValueOf("")) {
			s.Have[name] = item.OtherValue
		}
	}
	for _, i := range items {
		if _, designed := i.Credential(); !designed {
			continue
		}
		switch item.Kind(i.Key) {
		case item.KindUsers:
			m.comparePassword(s, i, told.Hashes[i.Key])
		case item.KindFiles:
			m.compareContent(s, i, keys[i.Key])
		}
	}
	for name, v := range s.Have {
		if isCredentialField(name) && isDigestOfSecret(name, v) {
			s.Have[name] = item.OtherValue
		}
	}
}

// isCredentialField reports whether a field may have a credential as its value.
func isCredentialField(name string) bool {
	field := item.CredentialField(item.Kind(name))
	return field != "" && strings.HasSuffix(name, "."+field)
}

// isDigestOfSecret reports whether such a field's value derives from a secret.
func isDigestOfSecret(name, v string) bool {
	if item.Kind(name) == item.KindUsers {
		return v != "none" && v != "locked" && !strings.HasPrefix(v, item.ValueOf(""))
	}
	return item.IsKeyed(v)
}

// cannot records why fields of an item cannot be set.
func cannot(s *site.FacetState, why error, names ...string) {
	if s.Cannot == nil {
		s.Cannot = site.Values{}
	}
	for _, name := range names {
		s.Cannot[name] = why.Error()
	}
}

// giveSecrets puts the values of credentials into items that are about to be set. hashOf makes the hash of a
// password. Items whose value is unavailable are left out; missing says why, by item key.
func giveSecrets(items []item.Item, get values, hashOf func(item.Item) (string, error)) (given []item.Item, missing map[string]error) {
	missing = map[string]error{}
	for _, i := range items {
		i, err := giveSecret(i, get, hashOf)
		if err != nil {
			missing[i.Key] = err
			continue
		}
		given = append(given, i)
	}
	return given, missing
}

func giveSecret(i item.Item, get values, hashOf func(item.Item) (string, error)) (item.Item, error) {
	_, designed := i.Credential()
	switch kind := item.Kind(i.Key); {
	case kind == item.KindBootActions:
		return giveToAction(i, get, hashOf)
	case !designed:
		return i, nil
	case kind == item.KindUsers:
		return giveHash(i, hashOf)
	}
	return giveContent(i, get)
}

// giveToAction puts secrets into the items of a boot action.
func giveToAction(i item.Item, get values, hashOf func(item.Item) (string, error)) (item.Item, error) {
	var a item.Action
	if err := json.Unmarshal(i.Body, &a); err != nil {
		return i, err
	}
	if len(withCredential(item.KindFiles, a.Config)) == 0 {
		return i, nil
	}
	config, missing := giveSecrets(a.Config, get, hashOf)
	if err := firstOf(missing); err != nil {
		return i, err
	}
	a.Config = config
	return item.New(i.Key, i.Fields, a), nil
}

// firstOf is the first error by key, with its key; nil if there is none.
func firstOf(missing map[string]error) error {
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		return fmt.Errorf("%s: %w", key, missing[key])
	}
	return nil
}

// unable says why a step cannot be done: it changes an item whose credential is unavailable, or nothing else is
// left of it. It is nil if the rest can go on.
func unable(step site.Step, given []item.Item, missing map[string]error) error {
	named := map[string]error{}
	for key, why := range missing {
		field := string(step.Facet) + "." + key
		if len(given)+len(step.Remove) == 0 || slices.ContainsFunc(step.Changes, func(c site.Change) bool { return c.Field == field || strings.HasPrefix(c.Field, field+".") }) {
			named[key] = why
		}
	}
	if err := firstOf(named); err != nil {
		return refused("%w", err)
	}
	return nil
}
