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

// A field of an item may be the value of a credential: the password of an account, or the
// content of a file. The design and the state of a facet have the name of the credential
// alone. The value goes to the machine right before it is set, and what the machine tells
// of it is compared here.

// values give the value of a credential, for one use.
type values = func(name string, use secret.Use) (secret.Value, error)

// uses are what a credential has to be for, by the kind of the item.
var uses = map[string]secret.Use{item.KindUsers: secret.Account, item.KindFiles: secret.File}

// Credentials implements driver.Keyholder.
func (m *machine) Credentials(get values) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.credentials = get
}

// getter gives the values of credentials; nil where there are none.
func (m *machine) getter() values {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.credentials
}

// withCredential are the keys of the items of a kind of which a field is designed to be the
// value of a credential.
func withCredential(kind string, items []item.Item) (keys []string) {
	for _, i := range items {
		if _, designed := i.Credential(); designed && item.Kind(i.Key) == kind {
			keys = append(keys, i.Key)
		}
	}
	return keys
}

// withoutSecretFiles leaves out the files that hold a secret: an agent in memory is known by
// less than a host key. They are put there over SSH, once the system answers.
func withoutSecretFiles(items []item.Item) []item.Item {
	secretFiles := withCredential(item.KindFiles, items)
	return slices.DeleteFunc(slices.Clone(items), func(i item.Item) bool { return slices.Contains(secretFiles, i.Key) })
}

// valueOf is the value of an item's credential. Its error is a sentence for people.
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

// compareSecrets says in the state of a facet which fields have the values of the credentials
// that are designed. No digest of one stays in it.
func (m *machine) compareSecrets(s *site.FacetState, items []item.Item, told wire.Facet, keys map[string][]byte) {
	for name, v := range s.Have { // what the machine says of a credential is not believed
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

// isCredentialField says whether the value of a credential may be designed for a field.
func isCredentialField(name string) bool {
	field := item.CredentialField(item.Kind(name))
	return field != "" && strings.HasSuffix(name, "."+field)
}

// isDigestOfSecret says whether a value of such a field is made of a secret.
func isDigestOfSecret(name, v string) bool {
	if item.Kind(name) == item.KindUsers {
		return v != "none" && v != "locked" && !strings.HasPrefix(v, item.ValueOf(""))
	}
	return item.IsKeyed(v)
}

// cannot says of fields of an item why they cannot be set.
func cannot(s *site.FacetState, why error, names ...string) {
	if s.Cannot == nil {
		s.Cannot = site.Values{}
	}
	for _, name := range names {
		s.Cannot[name] = why.Error()
	}
}

// giveSecrets puts the values of credentials into items that are about to be set, as the
// function makes the hash of a password. What has a value that cannot be had is left out, and
// missing says why, by the keys of the items.
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

// giveToAction does so for what a boot action puts there.
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

// firstOf is why the first of some items cannot be set, with its key; nil where all can.
func firstOf(missing map[string]error) error {
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		return fmt.Errorf("%s: %w", key, missing[key])
	}
	return nil
}

// unable is why a step cannot be taken, since it changes an item whose credential cannot be
// had, or since nothing else is left of it; nil where the rest goes on.
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
