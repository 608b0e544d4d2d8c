package rule

import (
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/site"
)

// secrets: does the design contain anything secret?
var secrets = []Rule{{
	Code: "clear-secret", Severity: site.SeverityError,
	What:    "No text of the design is a password, a token, a private key or the hash of a password.",
	Why:     "Everybody who can read the repository can use it for as long as it is valid: whatever was pushed once stays in the history.",
	Wrong:   `nodes: "n1": system: files: "/etc/backup.conf": content: "user = backup\npassword = calvin-7"`,
	Right:   `nodes: "n1": system: files: "/etc/backup.conf": content: "user = backup\npasswordFile = /run/backup.password"`,
	Partial: true, // it is in the history already, so a null beside it must not hide it
	Node: func(_ *site.Site, n *site.Node) []site.Finding {
		own := *n
		own.References = site.References{} // the site has them and is checked itself
		return refuseSecrets(reflect.ValueOf(own))
	},
	Site: func(s *site.Site) []site.Finding { return refuseSecrets(reflect.ValueOf(s).Elem()) },
}, {
	Code: "credential-source", Severity: site.SeverityError, Firm: true,
	What:  "A credential from a file of SOPS names the file and the key in it. One from a server of secrets names the path of its object. No other credential has these fields.",
	Why:   "Slipway could not tell where the secret is.",
	Wrong: `credentials: bmc: from: "sops"`,
	Right: "-- patch.cue --\npackage clean\n\ncredentials: bmc: {from: \"sops\", file: \"site.sops.yaml\", key: \"bmc\"}\n-- secrets/site.sops.yaml --\n" + someSOPS,
	Site:  credentialSource,
}, {
	Code: "secret-without-file", Severity: site.SeverityError, Firm: true,
	What:  "The secret of a credential that is encrypted in the repository is there.",
	Why:   "Slipway could not log in with it, and would find that out at the machines.",
	Wrong: `credentials: bmc: from: "sealed"`,
	Right: "-- patch.cue --\npackage clean\n\ncredentials: bmc: from: \"sealed\"\n-- secrets/bmc.age --\n" + someSealed,
}, {
	Code: "secret-not-encrypted", Severity: site.SeverityError, Firm: true,
	What:  "Files in the folder secrets/ are encrypted: NAME.age with age, NAME.sops.yaml and NAME.sops.json with SOPS. Others than recipients and README do not belong there.",
	Why:   "Everybody who can read the repository can use a secret in clear text for as long as it is valid: whatever was pushed once stays in the history.",
	Wrong: "-- secrets/bmc --\nhosts: 10.9.0.0/24\nuse: redfish\n\ncalvin",
	Right: "-- patch.cue --\npackage clean\n\ncredentials: bmc: from: \"sealed\"\n-- secrets/bmc.age --\n" + someSealed,
}, {
	Code: "secret-damaged", Severity: site.SeverityError, Firm: true,
	What:  "Encrypted files, and the list of their recipients, are complete and of a form that Slipway reads.",
	Why:   "Slipway could not log in with what they hold, and would find that out at the machines.",
	Wrong: "-- patch.cue --\npackage clean\n\ncredentials: bmc: from: \"sealed\"\n-- secrets/bmc.age --\n" + someSealed[:200],
	Right: "-- patch.cue --\npackage clean\n\ncredentials: bmc: from: \"sealed\"\n-- secrets/bmc.age --\n" + someSealed,
}, {
	Code: "unused-secret", Severity: site.SeverityNote,
	What:  "A credential names each encrypted file in the folder secrets/.",
	Why:   "It may be left over, or the credential that should use it reads a file of the bootstrap host in its place.",
	Wrong: "-- secrets/bmc.age --\n" + someSealed,
	Right: "-- patch.cue --\npackage clean\n\ncredentials: bmc: from: \"sealed\"\n-- secrets/bmc.age --\n" + someSealed,
}}

// credentialSource reports a source that lacks a field it needs, or has one it does not
// use.
func credentialSource(s *site.Site) (found []site.Finding) {
	for _, name := range keys(s.Credentials) {
		c, path := s.Credentials[name], "credentials."+name
		switch {
		case c.From == site.FromSOPS && (c.File == "" || c.Key == ""):
			found = append(found, wrong(path+".from", fmt.Sprintf("the credential %q is in a file of SOPS, and does not say which and where in it", name),
				"Add file: \"NAME.sops.yaml\", the name of a file in the folder secrets/, and key: \"PATH\", the path of the object in it."))
		case c.From != site.FromSOPS && c.File != "":
			found = append(found, wrong(path+".file", fmt.Sprintf("the credential %q names a file of SOPS, and is not from one", name),
				"Write from: \"sops\", or remove the file."))
		case c.From == site.FromVault && (c.Key == "" || !aPath(c.Key)):
			found = append(found, wrong(path+".from", fmt.Sprintf("the credential %q is on a server of secrets, and does not say where there", name),
				"Add key: \"PATH\" such as \"fra/bmc\", the path of the object below the mount of the secrets engine."))
		case c.From == site.FromDerived && c.Account == "":
			found = append(found, wrong(path+".from", fmt.Sprintf("the password of the credential %q is derived, and it does not say for which account", name),
				"Add account: \"NAME\", the name of an account of the BMCs that nothing but Slipway uses, such as \"slipway\"."))
		case c.From != site.FromDerived && (c.Account != "" || c.Epoch != 0 || c.Form != ""):
			found = append(found, wrong(path, fmt.Sprintf("the credential %q has what only a derived password has: account, epoch or form", name),
				"Write from: \"derived\", or remove it."))
		case c.From != site.FromSOPS && c.From != site.FromVault && c.Key != "":
			found = append(found, wrong(path+".key", fmt.Sprintf("the credential %q names a key, and is neither from a file of SOPS nor from a server of secrets", name),
				"Write from: \"sops\" or from: \"vault\", or remove the key."))
		}
	}
	return found
}

// aPath reports whether a text names something within a folder.
func aPath(text string) bool {
	return path.Clean("/"+text) == "/"+text && !strings.ContainsAny(text, "?#%\\")
}

// someSealed and someSOPS are encrypted files of the examples. Nobody has their keys.
const (
	someSealed = `-----BEGIN AGE ENCRYPTED FILE-----
YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBuUVdESWtzQ0ZOQUhkdjhw
RElYRld3Mjk3RWFaYUNQWTlXbWg3SStvS3dJCkFTYXV1a2IwTjVQcXJTNnIvVkU1
ZDRhRDhTQTBXM25ob3VucUhBbXRyZ28KLS0tIHpvaWZqMW42eVAzc1Y2NVIwOEZN
aEgwa3hxaDlLY0k4V3d3NkVvWk8yNkkKXDF56/l+xL8Ijn9IibRn7/1ghn857cLH
hRfwFHcivTzK0n7KtipaJSl8Lg6Vz3vbcyIwzZz8wKAkjOTCXOTc8rlOvvluBST1
i7Umb1cIu0ZyZMW5DmT93H6hlVPdVpbKlxVwQvIbZfraVvBKxSoBCye2nvwJlrlO
YeGsJT97toB8y73gC03kXd1XFl6S7gOuldYfY00HKCyHzzQ5pf4BL49mSyijBRN6
BMvzCNGDJ/5z2SceKc+IkE+KgsiPetorE2o1eq9FN3MpX5GCIX/cQg==
-----END AGE ENCRYPTED FILE-----
`
	someSOPS = `bmc:
    site: ENC[AES256_GCM,data:l2ds8dU=,iv:3f0pQm3xYx0n1zq8h3H5q0Y2cF4s2mF5c2mJ1m3J5mE=,tag:1mJ5m3J1mJ2cFmF5s2mF4A==,type:str]
    secret: ENC[AES256_GCM,data:x2ds8dU=,iv:3f0pQm3xYx0n1zq8h3H5q0Y2cF4s2mF5c2mJ1m3J5mE=,tag:1mJ5m3J1mJ2cFmF5s2mF4A==,type:str]
sops:
    age:
        - recipient: age1gzutp333fn88msr0tent76xx73kdfjhf5fnnwtj93zwxlzqwzagqmpkket
          enc: |
            -----BEGIN AGE ENCRYPTED FILE-----
            YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBuUVdESWtzQ0ZOQUhkdjhw
            -----END AGE ENCRYPTED FILE-----
    lastmodified: "2026-11-27T14:26:12Z"
    mac: ENC[AES256_GCM,data:l2ds8dU=,iv:3f0pQm3xYx0n1zq8h3H5q0Y2cF4s2mF5c2mJ1m3J5mE=,tag:1mJ5m3J1mJ2cFmF5s2mF4A==,type:str]
    version: 3.13.3
`
)

// refuseSecrets reports the secrets among the texts of a value of the design, in the
// order of their paths.
func refuseSecrets(v reflect.Value) []site.Finding {
	var x search
	x.look(nil, v)
	slices.SortStableFunc(x.found, func(a, b site.Finding) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(x.found, func(a, b site.Finding) bool { return a.Path == b.Path && a.Message == b.Message })
}

// search visits every text in a part of the design.
type search struct{ found []site.Finding }

// step is the position of a search, from the inside out. Its path is built only for a
// finding.
type step struct {
	up   *step
	name string
	// own says that the name comes from the site, not the schema.
	own bool
}

func (at *step) path() string {
	if at == nil {
		return ""
	}
	return strings.TrimPrefix(at.up.path()+"."+at.name, ".")
}

// within returns the step into a field. A field without a name belongs to what
// surrounds it.
func (at *step) within(f textField) *step {
	if f.name == "" {
		return at
	}
	return &step{at, f.name, false}
}

// look visits a value. Items of a list have the list's path.
func (x *search) look(at *step, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		x.text(at, v.String())
	case reflect.Int64, reflect.Float64:
		if at.own && cleartext.NamesSecret(at.name) {
			x.text(at, fmt.Sprint(v.Interface()))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			x.look(at, v.Elem())
		}
	case reflect.Struct:
		for _, f := range textFields(v.Type()) {
			if held := v.Field(f.index); !held.IsZero() { // most of a node's fields are not set
				x.look(at.within(f), held)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			x.look(&step{at, it.Key().String(), true}, it.Value())
		}
	case reflect.Slice:
		for i := range v.Len() {
			x.look(at, v.Index(i))
		}
	}
}

// text reports a secret in a text, without repeating it.
func (x *search) text(at *step, text string) {
	what := ""
	switch {
	case at.own && cleartext.NamesSecret(at.name) && cleartext.IsValue(at.name, text):
		what = fmt.Sprintf("a password or token (%s)", at.name)
	case !at.own && (at.name == "url" || at.name == "forward"): // their own rules refuse accounts
		what = cleartext.In(cleartext.InURL.ReplaceAllString(text, "://"))
	default:
		what = cleartext.In(text)
	}
	if what == "" {
		return
	}
	path := at.path()
	x.found = append(x.found, wrong(path, fmt.Sprintf("%s holds what looks like %s", path, what),
		"Take it out, replace it wherever it is valid, and put the new one into a credential. If it is none, suppress the finding with the reason."))
}

// textField is a field of a struct that may contain a text.
type textField struct {
	index int
	name  string
}

// textFieldsOf caches the fields of each type.
var textFieldsOf sync.Map

func textFields(t reflect.Type) []textField {
	if known, ok := textFieldsOf.Load(t); ok {
		return known.([]textField)
	}
	var all []textField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" && f.IsExported() && mayHoldText(f.Type) {
			all = append(all, textField{i, name})
		}
	}
	textFieldsOf.Store(t, all)
	return all
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

// mayHoldText reports whether a field may hold a text of the design. Types with their
// own text format, such as amounts and places, hold none.
func mayHoldText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Interface:
		return true
	case reflect.Struct, reflect.Pointer:
		return !t.Implements(textMarshaler) && !t.Implements(jsonMarshaler)
	case reflect.Map, reflect.Slice:
		return mayHoldText(t.Elem())
	}
	return false
}
