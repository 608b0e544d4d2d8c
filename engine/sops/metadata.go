package sops

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

const defaultSuffix = "_unencrypted"

// foreign are the keys of metadata that need something other than age, with its
// name for people.
var foreign = map[string]string{
	"key_groups": "groups of keys", "shamir_threshold": "groups of keys", "pgp": "PGP", "kms": "AWS KMS", "gcp_kms": "Google Cloud KMS",
	"azure_kv": "Azure Key Vault", "hc_vault": "Vault", "hckms": "Huawei Cloud KMS",
	"unencrypted_comment_regex": "comments that choose what is encrypted", "encrypted_comment_regex": "comments that choose what is encrypted",
}

// readMetadata reads the object under "sops".
func readMetadata(n *yaml.Node) (m metadata, err error) {
	if n.Kind != yaml.MappingNode {
		return m, fmt.Errorf("%d: \"sops\" is not an object: restore the file from Git", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i].Value, n.Content[i+1]
		if what := foreign[key]; what != "" {
			if empty(v) {
				continue
			}
			return m, fmt.Errorf("%d: it uses %s (%s), and Slipway opens files for recipients of age alone: encrypt it for age with `sops updatekeys`, or keep the secret with `slipway secret set`", n.Content[i].Line, what, key)
		}
		switch kind := ruleKind(key); {
		case key == "age":
			m.keys, err = readKeys(v)
		case key == "lastmodified":
			m.lastModified, err = time.Parse(time.RFC3339, v.Value)
		case key == "mac":
			m.mac = v.Value
		case key == "version":
			m.version = v.Value
		case key == "mac_only_encrypted":
			m.onlyEncrypted = v.Value == "true"
		case slices.Contains(rules, kind) && v.Value != "":
			if m.ruleIsExplicit {
				return m, fmt.Errorf("%d: it has two rules for what is encrypted: keep one", v.Line)
			}
			if len(v.Value) > mostRule {
				return m, fmt.Errorf("%d: its rule for what is encrypted has more than %d characters: write a shorter one", v.Line, mostRule)
			}
			m.rule, m.of, m.ruleIsExplicit = kind, v.Value, true
			if kind == unencryptedRegex || kind == encryptedRegex {
				m.matching, err = regexp.Compile(v.Value)
			}
		}
		if err != nil {
			return m, fmt.Errorf("%d: %s cannot be read: restore the file from Git", v.Line, key)
		}
	}
	if !m.ruleIsExplicit {
		m.rule, m.of = unencryptedSuffix, defaultSuffix
	}
	switch {
	case len(m.keys) == 0:
		return m, errors.New("it is encrypted for no recipient of age: encrypt it for those of the site with `sops updatekeys`")
	case m.mac == "" || m.lastModified.IsZero():
		return m, errors.New("it has no digest (\"mac\") or time (\"lastmodified\"), so nobody could tell whether it was changed: restore it from Git")
	}
	return m, nil
}

var rules = []ruleKind{unencryptedSuffix, encryptedSuffix, unencryptedRegex, encryptedRegex}

func empty(n *yaml.Node) bool {
	return n.ShortTag() == "!!null" || n.Kind != yaml.ScalarNode && len(n.Content) == 0 || n.Value == "0"
}

var errKeys = errors.New("keys")

func readKeys(n *yaml.Node) (keys []agedKey, err error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) > mostKeys {
		return nil, errKeys
	}
	for _, item := range n.Content {
		r, enc := child(item, "recipient"), child(item, "enc")
		if r == nil || enc == nil || r.Kind != yaml.ScalarNode || enc.Kind != yaml.ScalarNode {
			return nil, errKeys
		}
		keys = append(keys, agedKey{r.Value, enc.Value})
	}
	return keys, nil
}

// node returns the metadata as a YAML node.
func (m *metadata) node() *yaml.Node {
	all := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	put := func(to *yaml.Node, key string, v *yaml.Node) {
		to.Content = append(to.Content, text(key), v)
	}
	keys := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, k := range m.keys {
		one := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		put(one, "enc", text(k.enc))
		put(one, "recipient", text(k.recipient))
		keys.Content = append(keys.Content, one)
	}
	put(all, "age", keys)
	put(all, "lastmodified", text(m.lastModified.Format(time.RFC3339)))
	put(all, "mac", text(m.mac))
	if m.ruleIsExplicit {
		put(all, string(m.rule), text(m.of))
	}
	if m.onlyEncrypted {
		put(all, "mac_only_encrypted", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
	put(all, "version", text(m.version))
	return all
}

// text returns a text as a node. The library quotes it if it would be read as
// something else.
func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}
